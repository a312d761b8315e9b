package benchtests

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/harness"
)

// readmeCommands are the commands of README's console blocks.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(text, -1) {
		for line := range strings.Lines(string(block[1])) {
			if c, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, strings.TrimSpace(c))
			}
		}
	}
	return commands
}

// README's commands work as they stand there. Those that take minutes run in
// full only when README_FULL is set (make full does); else make says what it
// would do.
func TestReadmeCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("README's commands are for a POSIX shell")
	}
	srv := fakeserver.Start(t, harness.FakeConfig())
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	full := os.Getenv("README_FULL") != ""
	commands := readmeCommands(t)
	require.GreaterOrEqual(t, len(commands), 7)
	records := filepath.Join(t.TempDir(), "records.ndjson.gz")
	for _, c := range commands {
		t.Run(c, func(t *testing.T) {
			run := strings.ReplaceAll(c, "127.0.0.1:8000", u.Host)
			want := ""
			switch {
			case c == "make test":
				run = "make -n test" // this test is part of it
			case strings.HasPrefix(c, "make compare"), strings.HasPrefix(c, "make gate"):
				// Whether there is a branch of that name depends on the clone.
				run = strings.Replace(c, "BASE=main", "BASE=HEAD", 1)
				fallthrough
			case strings.HasPrefix(c, "make "):
				want = "BenchmarkImages/image=1024x800/conc=1"
				switch {
				case strings.HasPrefix(c, "make compare"):
					want = "0.00% (n=10)"
				case strings.HasPrefix(c, "make gate"):
					want = "result: " // identical, if nothing was edited
				}
				if !full {
					run, want = strings.Replace(run, "make ", "make -n ", 1), ""
				}
			case strings.Contains(c, "tokpace fake"):
				// Its address is taken by this test's server, which is the
				// documented mistake; the command's own tests let it serve.
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out, _ := shell(ctx, t, run).CombinedOutput()
				require.Contains(t, string(out), u.Host)
				require.Contains(t, string(out), "address already in use")
				return
			case strings.Contains(c, "probe"):
				want = "input tokens    32 (server)"
			case strings.Contains(c, "tokpace gate"):
				// What the command before it leaves takes minutes to make.
				dir := t.TempDir()
				for _, name := range []string{"base.txt", "head.txt"} {
					text := strings.Repeat("BenchmarkA 1 100 ns/op\n", 6)
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
				}
				run = strings.ReplaceAll(c, "bench-out", dir)
				want = "result: 1 ok"
			case strings.Contains(c, "jq "):
				// It reads what the command before it has written.
				if _, err := exec.LookPath("jq"); err != nil {
					t.Skip("there is no jq")
				}
				run, want = strings.Replace(c, "records.ndjson.gz", records, 1), "."
			case strings.Contains(c, "TOKPACE_RECORDS="):
				run, want = strings.Replace(c, "$PWD/records.ndjson.gz", records, 1), "# records: "+records
			case strings.Contains(c, "-bench Serve"):
				want = "BenchmarkServe/backend=openai-chat/input=1024/output=128/conc=8"
			case strings.Contains(c, "-bench "):
				want = "BenchmarkChat/stream=true/conc=8"
			case strings.Contains(c, "-help"):
				want = "TOKPACE_SEED"
			}
			var stderr bytes.Buffer
			cmd := shell(t.Context(), t, run)
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s%s", out, stderr.String())
			require.Contains(t, string(out), want)
		})
	}
}

func shell(ctx context.Context, t *testing.T, command string) *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = root
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TOKPACE_") && !strings.HasPrefix(kv, "OPENAI_") && !strings.HasPrefix(kv, "MAKE") && !strings.HasPrefix(kv, "MFLAGS") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return cmd
}

// README's Go code is the code that is compiled and run as an example.
func TestReadmeCode(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("../pkg/harness/example_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		for _, part := range strings.Split(string(b[1]), "\n\n") {
			require.Contains(t, string(example), strings.TrimSpace(part))
		}
	}
}

// Every unit that a benchmark can print is explained in README.
func TestReadmeListsUnits(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, u := range unitNames() {
		u = regexp.MustCompile(`-p\d+-ns$`).ReplaceAllString(u, "-")
		require.Contains(t, string(readme), "`"+u)
	}
}
