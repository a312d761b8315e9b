package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"example.com/tokpace/fakeserver"
)

// maxProfile bounds what is read of a profile that is sent.
const maxProfile = 1 << 20

// admin looks into a fake server and changes it while it runs. It has a listener
// of its own, so that no path of the server it serves is taken, and a load on
// that one does not hold it up.
type admin struct {
	srv *fakeserver.Server
	// configure makes a configuration of a profile.
	configure func(profile []byte) (fakeserver.Config, error)

	mu      sync.Mutex
	profile []byte // the one in force; nil if there is none
}

// handler has the paths under /fake/.
func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /fake/journal", a.journal)
	mux.HandleFunc("POST /fake/reset", a.reset)
	mux.HandleFunc("GET /fake/profile", a.getProfile)
	mux.HandleFunc("POST /fake/profile", a.setProfile)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page in a browser of this machine can send requests here too, but
		// not without telling that it does, or under another name.
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !isLoopback(host) || r.Header.Get("Origin") != "" {
			refuse(w, http.StatusForbidden, errors.New("this is for programs of this machine only"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, err error) {
	http.Error(w, oneLine(err.Error()), status)
}

// journal writes one record a line, oldest first.
func (a *admin) journal(w http.ResponseWriter, r *http.Request) {
	keep, limit, err := journalFilter(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	var records []fakeserver.Record
	for _, record := range a.srv.Journal() {
		if keep(&record) {
			records = append(records, record)
		}
	}
	if limit < len(records) {
		records = records[len(records)-limit:]
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	for i := range records {
		if enc.Encode(&records[i]) != nil {
			return // the reader is gone
		}
	}
}

// journalFilter reads the query: endpoint, status, and limit, the number of the
// last records that are wanted.
func journalFilter(q url.Values) (keep func(*fakeserver.Record) bool, limit int, err error) {
	endpoint, status, limit := "", -1, int(^uint(0)>>1)
	for key, values := range q {
		if len(values) > 1 {
			return nil, 0, fmt.Errorf("%s is given twice", key)
		}
		switch key {
		case "endpoint":
			endpoint = values[0]
		case "status":
			status, err = strconv.Atoi(values[0])
		case "limit":
			limit, err = strconv.Atoi(values[0])
		default:
			return nil, 0, fmt.Errorf("unknown filter %q: there are endpoint, status and limit", key)
		}
		if err != nil || limit < 0 {
			return nil, 0, fmt.Errorf("%s: %q is not a number from 0 on", key, values[0])
		}
	}
	return func(r *fakeserver.Record) bool {
		return (endpoint == "" || r.Endpoint == endpoint) && (status < 0 || r.Status == status)
	}, limit, nil
}

// reset empties the journal and lets the rules count from the beginning.
func (a *admin) reset(w http.ResponseWriter, _ *http.Request) {
	a.srv.Reset()
	w.WriteHeader(http.StatusNoContent)
}

func (a *admin) getProfile(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	profile := a.profile
	a.mu.Unlock()
	if profile == nil {
		refuse(w, http.StatusNotFound, errors.New("no profile is in force"))
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(profile)
}

// setProfile replaces the profile for the requests to come. A bad one changes
// nothing.
func (a *admin) setProfile(w http.ResponseWriter, r *http.Request) {
	profile, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxProfile))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("cannot read the profile: %w", err))
		return
	}
	cfg, err := a.configure(profile)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		err = a.srv.Configure(cfg)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	a.profile = profile
	w.WriteHeader(http.StatusNoContent)
}

// listenAdmin opens the listener of -admin, which no other machine may reach,
// whatever else is allowed.
func listenAdmin(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return nil, fmt.Errorf("-admin %q is not host:port, as in 127.0.0.1:8001", addr)
	}
	remote := fmt.Errorf("-admin %s can be reached from other machines: give an address of this machine alone, as in 127.0.0.1:%s", addr, port)
	if !isLoopback(host) {
		return nil, remote
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("cannot listen on %s (%w): choose another -admin, port 0 takes a free one", addr, err)
	}
	if t, ok := l.Addr().(*net.TCPAddr); ok && !t.IP.IsLoopback() {
		l.Close()
		return nil, remote
	}
	return l, nil
}

// serve serves l until the returned function is called, which ends it at once.
func (a *admin) serve(l net.Listener) (stop func()) {
	srv := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // until it is closed
	}()
	return func() {
		srv.Close()
		<-done
	}
}
