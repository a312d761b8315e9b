package fakeserver_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/memnet"
)

// A server outside a test, on an in-memory network.
func ExampleServer_Serve() {
	srv, err := fakeserver.New(fakeserver.Config{TTFT: 2 * time.Millisecond, OutputTokens: 2})
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	l := memnet.Listen()
	go srv.Serve(l)

	client := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
	res, err := client.Post("http://fake/v1/chat/completions", "application/json",
		strings.NewReader(`{"messages":[{"role":"user","content":"hello"}],"stream":true}`))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	events := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	fmt.Println(res.Status, events, "events") // role, two tokens, [DONE]
	// Output: 200 OK 4 events
}

// A plan is a value: it can be looked at, and changed by Config.Edit.
func ExampleServer_Plan() {
	srv, err := fakeserver.New(fakeserver.Config{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	plan := srv.Plan(fakeserver.Request{
		Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"hello","max_tokens":3,"stream":true}`),
	})
	for _, e := range plan.Events {
		fmt.Println(e.At, e.Size() > 0)
	}
	// Output:
	// 20ms true
	// 25ms true
	// 30ms true
	// 30ms true
}
