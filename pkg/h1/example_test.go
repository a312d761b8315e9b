package h1_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"example.com/tokpace/pkg/h1"
)

func Example() {
	more := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "two")
	}))
	defer srv.Close()
	var t h1.Transport
	defer t.CloseIdleConnections()

	req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
	if err != nil {
		panic(err)
	}
	sent := time.Now()
	resp, err := t.RoundTrip(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 16<<10)

	n, _ := resp.Body.Read(buf)
	first := resp.Body.(*h1.Body).Arrived()
	fmt.Printf("%q\n", buf[:n])

	close(more)
	n, _ = resp.Body.Read(buf)
	second := resp.Body.(*h1.Body).Arrived()
	fmt.Printf("%q\n", buf[:n])
	fmt.Println(sent.Before(first), first.Before(second))
	// Output:
	// "one "
	// "two"
	// true true
}
