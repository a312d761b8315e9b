package benchtests

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A screen is a terminal as far as progress uses one. All lines that scrolled off it
// are kept.
type screen struct {
	height   int
	lines    [][]rune // the last height ones can be reached
	row, col int      // row counts from the first line ever
	saved    [2]int

	mu   sync.Mutex
	pend []byte // the beginning of a sequence
	more *sync.Cond
}

func newScreen(height int) *screen {
	s := &screen{height: height, lines: make([][]rune, height)}
	s.more = sync.NewCond(&s.mu)
	return s
}

func (s *screen) down() {
	if s.row++; s.row == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
}

func (s *screen) put(r rune) {
	line := s.lines[s.row]
	for len(line) <= s.col {
		line = append(line, ' ')
	}
	line[s.col] = r
	s.lines[s.row] = line
	s.col++
}

var sequence = regexp.MustCompile("^\x1b(?:\\[[0-9;]*[A-Za-z]|[^\\[])")

// Write obeys what a process writes.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.more.Broadcast()
	s.pend = append(s.pend, p...)
	for len(s.pend) > 0 {
		n := 1
		switch c := s.pend[0]; c {
		case '\r':
			s.col = 0
		case '\n':
			s.down()
		case '\t':
			s.col += 8 - s.col%8
		case 0x1b:
			seq := sequence.Find(s.pend)
			if seq == nil {
				return len(p), nil
			}
			n = len(seq)
			top := len(s.lines) - s.height
			switch string(seq[1:]) {
			case "D":
				s.down()
			case "E":
				s.down()
				s.col = 0
			case "[A":
				s.row = max(s.row-1, top)
			case "[K":
				s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
			case "7":
				s.saved = [2]int{s.row - top, s.col}
			case "8":
				s.row, s.col = s.saved[0]+top, s.saved[1]
			default:
				panic(fmt.Sprintf("unknown sequence %q", seq))
			}
		default:
			s.put(rune(c))
		}
		s.pend = s.pend[n:]
	}
	return len(p), nil
}

// text is all that stands on the screen and above it.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.textLocked()
}

func (s *screen) textLocked() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// await waits until the text matches.
func (s *screen) await(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.AfterFunc(30*time.Second, s.more.Broadcast)
	defer late.Stop()
	begun := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !re.MatchString(s.textLocked()) {
		if time.Since(begun) > 29*time.Second {
			t.Fatalf("%s does not come: %q", pattern, s.textLocked())
		}
		s.more.Wait()
	}
}

// onTerminal makes a new terminal the one that controls cmd, whose standard output
// and error may be it, and returns its screen. The screen is complete when done is
// closed, after the end of cmd.
func onTerminal(t *testing.T, cmd *exec.Cmd, columns, rows uint16, attach func(tty *os.File)) (s *screen, done <-chan struct{}) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made: %v", err)
	}
	conn, err := master.SyscallConn()
	require.NoError(t, err)
	var number int
	require.NoError(t, conn.Control(func(fd uintptr) {
		err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		if err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
		}
	}))
	require.NoError(t, err)
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	attach(tty)
	cmd.ExtraFiles = []*os.File{tty}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	require.NoError(t, cmd.Start())
	tty.Close()
	s = newScreen(int(rows))
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(s, master) // ends with the last process that has the terminal
	}()
	t.Cleanup(func() { master.Close() })
	return s, over
}

// heldServer answers the tenth POST of each twenty only when release is called.
func heldServer(t *testing.T) (url string, release func()) {
	t.Helper()
	held := make(chan struct{}, 1)
	return countingServer(t, func(n int, r *http.Request) {
		if n%20 != 10 {
			return
		}
		body, _ := io.ReadAll(r.Body) // net/http sees a disconnect only then
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}), func() { held <- struct{}{} }
}

// Progress goes to the terminal alone, and leaves no trace there.
func TestProgress(t *testing.T) {
	t.Parallel()
	url, release := heldServer(t)
	cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + url, "TERM=xterm"}, "-test.bench=Rerank/conc=1", "-test.benchtime=20x")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	s, done := onTerminal(t, cmd, 100, 5, func(*os.File) {})
	s.await(t, `(?m)^10 sent, 1 in flight, 9 done of 20, 0 failed, [0-9.]+ req/s, \d+s left  BenchmarkRerank/conc=1$`)
	release()
	require.NoError(t, cmd.Wait())
	<-done
	require.Empty(t, s.text())
	require.Empty(t, stderr.String())
	require.NotRegexp(t, `\d sent, `, stdout.String())
	require.NotContains(t, stdout.String(), "\x1b")
	require.Len(t, outcome{stdout: stdout.String()}.lines(t), 1)
}

// Where the terminal is standard output too, no line of results is broken, on a
// screen that scrolls and has no room for all of a line of progress.
func TestProgressBesideResults(t *testing.T) {
	t.Parallel()
	url, release := heldServer(t)
	cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + url, "TERM=xterm"}, "-test.bench=Rerank/conc=1", "-test.benchtime=20x", "-test.count=2")
	s, done := onTerminal(t, cmd, 60, 3, func(tty *os.File) { cmd.Stdout, cmd.Stderr = tty, tty })
	// The second run begins in the middle of a line, after its name.
	for _, above := range []string{`\n# date: .*\n\n`, `\nBenchmarkRerank/conc=1\S*\n`} {
		s.await(t, above+`10 sent, 1 in flight, 9 done of 20, 0 failed, [0-9.]+ req[^\n]*$`)
		release()
	}
	require.NoError(t, cmd.Wait())
	<-done
	require.NotRegexp(t, `\d sent, `, s.text())
	require.Len(t, regexp.MustCompile(`(?m)^BenchmarkRerank/conc=1\S* +20 .* ok/op$`).FindAllString(s.text(), -1), 2)
	require.Regexp(t, `\nPASS$`, s.text())
}

// A second interrupt ends the run at once, and takes the line away.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	url, _ := heldServer(t)
	cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + url, "TERM=xterm", "TOKPACE_GRACE=1h"}, "-test.bench=Rerank/conc=1")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	s, done := onTerminal(t, cmd, 100, 5, func(*os.File) {})
	s.await(t, `1 in flight`)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	s.await(t, `(?m)^interrupted: .* 1 in flight`)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for over := false; !over; {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			require.Error(t, err)
			over = true
		case <-time.After(60 * time.Millisecond): // it may have been taken for the first one
		}
	}
	<-done
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Empty(t, s.text())
	require.Empty(t, outcome{stdout: stdout.String()}.lines(t))
}

// Without a terminal that obeys, and on request, nothing is drawn.
func TestNoProgress(t *testing.T) {
	for _, env := range []string{"TERM=dumb", "TERM=", "TOKPACE_PROGRESS=off"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			// Longer than what is drawn at all takes.
			cmd := benchCommand(t, []string{"TERM=xterm", env}, "-test.bench=Rerank/conc=1", "-test.benchtime=1300ms")
			s, done := onTerminal(t, cmd, 100, 5, func(*os.File) {})
			require.NoError(t, cmd.Wait())
			<-done
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, newScreen(5).lines, s.lines)
			require.Empty(t, s.pend)
		})
	}
}
