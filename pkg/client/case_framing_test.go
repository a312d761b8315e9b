package client_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

func TestCaseH01CommentKeepAlives(t *testing.T) {
	noLeaks(t)
	const ping = ": OPENROUTER PROCESSING\n\n"
	play(t, chatRequest(t), want{events: [][]int{{400, 460}}, in: "4 server", out: "2 server", text: "Hello"},
		stream(at(50, ping), at(150, ping), at(250, ping), at(400, tok("Hel")), at(460, tok("lo")), at(470, fins, use(4, 2), done)))
}

func TestCaseH02NoSpaceAfterColon(t *testing.T) {
	noLeaks(t)
	tight := func(s string) string { return strings.ReplaceAll(s, "data: ", "data:") }
	play(t, chatRequest(t), want{events: [][]int{{60, 120}}, in: "3 server", out: "2 server", text: "ab"},
		stream(at(60, tight(tok("a"))), at(120, tight(tok("b"))), at(130, tight(fins+use(3, 2)+done))))
}

func TestCaseH03LongLine(t *testing.T) {
	noLeaks(t)
	for _, c := range []struct {
		name  string
		bytes int
		next  int // when c is sent: after the client has had time to decode b
	}{{"70 KB", 70_000, 150}, {"8 MiB", 8 << 20, 1000}} {
		t.Run(c.name, func(t *testing.T) {
			// One transport: the bytes of both are the same, and many.
			padded := strings.Replace(tok("b"), `{"id"`, `{"pad":"`+strings.Repeat("x", c.bytes)+`","id"`, 1)
			if raceEnabled && c.bytes > 1<<20 {
				t.Skip("decoding it takes seconds under the race detector")
			}
			playOn(t, client.H1, chatRequest(t), want{events: [][]int{{50, 100, c.next}}, in: "2 server", out: "3 server", text: "abc", bulk: c.bytes > 1<<20},
				stream(at(50, tok("a")), at(100, padded), at(c.next, tok("c")), at(c.next+10, fins, use(2, 3), done)))
		})
	}
	t.Run("over the limit", func(t *testing.T) {
		padded := strings.Replace(tok("b"), `{"id"`, `{"pad":"`+strings.Repeat("x", 40<<20)+`","id"`, 1)
		playOn(t, client.H1, chatRequest(t), want{class: api.Malformed, text: "a", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Contains(t, ex.Error.Message, "limit of 33554432 bytes")
		}}, stream(at(50, tok("a")), at(100, padded), at(160, fins, done)))
	})
}

func TestCaseH04CRLFInDifferentWrites(t *testing.T) {
	noLeaks(t)
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	mixed := "data: " + `{"choices":[{"index":0,` + "\r\ndata: " + `"delta":{"content":"z"}}]}` + "\r\n\n"
	play(t, chatRequest(t), want{events: [][]int{{110, 200, 260}}, in: "2 server", out: "3 server", text: "xyz"},
		stream(
			at(80, `data: {"choices":[{"index":0,`+"\r"),
			at(110, "\ndata: "+`"delta":{"content":"x"}}]}`+"\r\n\r"),
			at(140, "\n"),
			at(200, crlf(tok("y"))),
			at(260, mixed),
			at(270, crlf(use(2, 3)+done))))
}

func TestCaseH05CharacterCutByChunk(t *testing.T) {
	noLeaks(t)
	day := tok("日")
	i := strings.Index(day, "日") + 1
	play(t, chatRequest(t), want{events: [][]int{{120, 180}}, in: "1 server", out: "2 server", text: "日本"},
		stream(at(80, day[:i]), at(120, day[i:]), at(180, tok("本")), at(190, fins, use(1, 2), done)))
}

func TestCaseH07LastEventNotClosed(t *testing.T) {
	noLeaks(t)
	open := strings.TrimRight(use(5, 2), "\n")
	for name, last := range map[string]string{
		"one newline": open + "\n",
		"no newline":  open,
		"open DONE":   use(5, 2) + "data: [DONE]",
	} {
		t.Run(name, func(t *testing.T) {
			play(t, chatRequest(t), want{events: [][]int{{50, 100}}, in: "5 server", out: "2 server", text: "ab"},
				stream(at(50, tok("a")), at(100, tok("b")), at(110, fins), at(120, last)))
		})
	}
}
