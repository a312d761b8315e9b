package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// nullTokens is the number of tokens in an answer of the server that does nothing.
const nullTokens = 16

// nullAnswers are its answers: a chunk for each event as servers send them, but all
// in one write.
var nullAnswers = map[string][]byte{floorStream: nullStream(), floorPlain: nullPlain()}

func nullStream() []byte {
	var out strings.Builder
	out.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
	event := func(data string) { fmt.Fprintf(&out, "%x\r\ndata: %s\n\n\r\n", len("data: ")+len(data)+2, data) }
	chunk := func(choice string) string {
		return `{"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"null","choices":[{"index":0,` + choice + `}]}`
	}
	event(chunk(`"delta":{"role":"assistant","content":""},"finish_reason":null`))
	for i := range nullTokens {
		finish := "null"
		if i == nullTokens-1 {
			finish = `"length"`
		}
		event(chunk(`"delta":{"content":" null"},"finish_reason":` + finish))
	}
	event("[DONE]")
	out.WriteString("0\r\n\r\n")
	return []byte(out.String())
}

func nullPlain() []byte {
	body := fmt.Sprintf(`{"id":"chatcmpl-0","object":"chat.completion","created":0,"model":"null","choices":[{"index":0,`+
		`"message":{"role":"assistant","content":%q},"finish_reason":"length"}],`+
		`"usage":{"prompt_tokens":16,"completion_tokens":%d,"total_tokens":%d}}`, strings.Repeat(" null", nullTokens), nullTokens, 16+nullTokens)
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// A nullServer answers every HTTP/1.1 request with the same bytes, and looks at no
// more of it than where it ends.
type nullServer struct {
	listener net.Listener
	answer   []byte
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// startNull starts one on a loopback port. It must be closed.
func startNull(answer []byte) (*nullServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nullServer{listener: l, answer: answer, conns: map[net.Conn]bool{}}
	n.wg.Go(n.accept)
	return n, nil
}

func (n *nullServer) addr() string { return n.listener.Addr().String() }

// close ends all connections, and returns when nothing of the server runs any more.
func (n *nullServer) close() {
	n.mu.Lock()
	n.closed = true
	n.listener.Close()
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

func (n *nullServer) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		if n.closed {
			c.Close()
		} else {
			n.conns[c] = true
			n.wg.Go(func() { n.serve(c) })
		}
		n.mu.Unlock()
	}
}

func (n *nullServer) serve(c net.Conn) {
	defer func() {
		c.Close()
		n.mu.Lock()
		delete(n.conns, c)
		n.mu.Unlock()
	}()
	r := bufio.NewReaderSize(c, 64<<10)
	for skipRequest(r) == nil {
		if _, err := c.Write(n.answer); err != nil {
			return
		}
	}
}

// skipRequest reads a request whose body, if there is one, has its length said.
func skipRequest(r *bufio.Reader) error {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		const name = "content-length:"
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			// The client's lengths are numbers.
			length, _ = strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
		}
	}
	_, err := r.Discard(max(length, 0))
	return err
}
