package harness

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
	"example.com/tokpace/pkg/prom"
)

// profileTimeout bounds one order to the server's profiler: engines write for
// minutes when it is stopped.
const profileTimeout = 10 * time.Minute

// A watch is what is done with a server around one run: its own metrics are
// read, its profiler is switched on and off.
type watch struct {
	server  *server
	client  *client.Client
	before  prom.Metrics
	metrics bool // before was read
	profile bool // on
	notes   []string

	stop   context.CancelFunc // of the looks during the run
	looks  sync.WaitGroup
	during []prom.Metrics
}

// watch begins when nothing is in flight, just before the run. end must be
// called; close may be called in its place, or after it. shape is nil for other
// benchmarks than Serve's.
func (s *server) watch(ctx context.Context, h http.Header, shape *shape) (*watch, error) {
	w := &watch{server: s, client: s.client(h)}
	if on := s.settings.serverMetrics; on == "true" || on == "auto" && (shape != nil || s.settings.metricsEvery > 0) {
		w.before, w.metrics = w.scrape(ctx)
	}
	if shape != nil && shape.profile {
		if err := w.order(ctx, "/start_profile"); err != nil {
			return nil, err
		}
		w.profile = true
	}
	if every := s.settings.metricsEvery; every > 0 && w.metrics {
		ctx, w.stop = context.WithCancel(ctx)
		w.looks.Go(func() { w.look(ctx, every) })
	}
	return w, nil
}

// look reads the metrics every so often until ctx ends.
func (w *watch) look(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if m, ok := w.scrape(ctx); ok {
				w.during = append(w.during, m)
			}
		case <-ctx.Done():
			return
		}
	}
}

// scrape reads the server's metrics. A server without them is no error, one that
// has them in a form that cannot be read is worth a note, the same once.
func (w *watch) scrape(ctx context.Context) (prom.Metrics, bool) {
	ctx, cancel := context.WithTimeout(ctx, w.server.checkTimeout())
	defer cancel()
	status, body, err := w.client.Get(ctx, "/metrics")
	if err != nil || status != http.StatusOK {
		return nil, false
	}
	m, err := prom.Parse(body)
	if err != nil {
		if w.before == nil && len(w.notes) == 0 {
			w.notes = append(w.notes, fmt.Sprintf("the server's /metrics cannot be read: %v", err))
		}
		return nil, false
	}
	return m, true
}

// order sends a request without a body that must succeed.
func (w *watch) order(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()
	status, body, err := w.client.Post(ctx, path, nil)
	if err != nil {
		return fmt.Errorf("profile: POST %s: %s", path, api.Snippet([]byte(err.Error())))
	}
	if status < 200 || status > 299 {
		return fmt.Errorf("profile: POST %s answered %d: %s: is the server started with its profiler?", path, status, w.server.shown(string(body)))
	}
	return nil
}

// end is called when nothing of the run is in flight any more, and reports to b.
// sent is the number of the run's requests.
func (w *watch) end(ctx context.Context, b *testing.B, sent int) {
	b.Helper()
	w.quiet()
	if w.profile {
		w.profile = false
		if err := w.order(ctx, "/stop_profile"); err != nil {
			b.Fatal(err)
		}
	}
	if w.metrics {
		if after, ok := w.scrape(ctx); ok {
			values, notes := metric.OfServer(metric.ServerRun{Before: w.before, After: after, During: w.during, Sent: sent})
			reportValues(b, values)
			w.notes = append(w.notes, notes...)
		} else {
			w.notes = append(w.notes, "the server's own metrics are left out: /metrics was there before the run and not after it")
		}
	}
	for _, note := range w.notes {
		b.Log(note)
	}
}

// quiet ends the looks during the run.
func (w *watch) quiet() {
	if w.stop != nil {
		w.stop()
	}
	w.looks.Wait()
}

// close leaves the server as it was, also after a run that failed or was
// interrupted.
func (w *watch) close() {
	w.quiet()
	if w.profile {
		w.profile = false
		// The run's own failure is what is told.
		_ = w.order(context.Background(), "/stop_profile")
	}
}
