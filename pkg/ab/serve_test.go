package ab_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
)

// serve is the test binary as a server: at the address of its argument, which
// answers /v1/value with AB_TEST_VALUE. It leaves a child behind that holds a
// connection to AB_TEST_ADDR, if that is set, for as long as it lives.
func serve() {
	if addr := os.Getenv("AB_TEST_ADDR"); addr != "" {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			panic(err)
		}
		if len(os.Args) == 1 { // the child
			_, _ = conn.Read(make([]byte, 1))
			os.Exit(0)
		}
		child := exec.Command(os.Args[0])
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Fprintln(os.Stderr, "serving", os.Getenv("AB_TEST_VALUE"))
	if os.Getenv("AB_TEST_VALUE") == "early" {
		fmt.Println("out of memory")
		os.Exit(7)
	}
	mux := http.NewServeMux()
	asked := 0
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 { // one connection at a time asks
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	switch os.Getenv("AB_TEST_HEALTH") {
	case "": // no such path
		mux.HandleFunc("GET /v1/models", ready)
	case "never":
	default:
		mux.HandleFunc("GET /health", ready)
	}
	mux.HandleFunc("GET /v1/value", func(w http.ResponseWriter, _ *http.Request) {
		if os.Getenv("AB_TEST_VALUE") == "dies" {
			fmt.Println("segmentation fault")
			os.Exit(8)
		}
		fmt.Fprint(w, os.Getenv("AB_TEST_VALUE"))
	})
	panic(http.ListenAndServe(os.Args[1], mux))
}
