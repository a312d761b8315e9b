package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/tokpace/pkg/api"
)

const (
	maxReadyTimeout = 24 * time.Hour
	firstReadyWait  = 100 * time.Millisecond
	maxReadyWait    = 5 * time.Second
	// readyText is no prompt of a data set: a measured prompt must not be in the
	// server's cache.
	readyText = "ready"
)

// A refusedError is an answer that waiting does not change: the key is wrong.
type refusedError struct {
	where  string
	status int
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s answered %d: set OPENAI_API_KEY (or TOKPACE_API_KEY) to a key that the server accepts", e.where, e.status)
}

func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// awaitReady asks the server until it answers, or until the ready check's time
// is over: for its models first, then for the smallest request of the backend,
// since servers list models long before they can serve them.
func (s *server) awaitReady(ctx context.Context) error {
	limit := s.settings.readyTimeout
	if limit == 0 {
		return s.ask(ctx)
	}
	deadline := time.Now().Add(limit)
	for wait := firstReadyWait; ; wait = min(2*wait, maxReadyWait) {
		try, cancel := context.WithDeadline(ctx, deadline)
		err := s.ask(try)
		if err == nil {
			err = s.tryOne(try)
		}
		cancel()
		if _, refused := errors.AsType[*refusedError](err); err == nil || refused || ctx.Err() != nil {
			return err
		}
		if time.Until(deadline) <= wait {
			return fmt.Errorf("not ready within %v: %w", limit, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// tryOne sends one small request.
func (s *server) tryOne(ctx context.Context) error {
	a := s.settings.shape.api()
	req, err := countRequest(a, s.model, readyText)
	if err != nil {
		return err
	}
	req.Endpoint = s.settings.endpoint
	where := s.name() + api.Snippet([]byte(req.Target()))
	ex := s.client(nil).Do(ctx, req)
	switch {
	case ex.OK:
		return nil
	case isRefusal(ex.Status):
		return &refusedError{where, ex.Status}
	}
	return fmt.Errorf("%s: %w", where, ex.Error)
}
