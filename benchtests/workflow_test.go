package benchtests

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

type workflow struct {
	Name string
	On   map[string]any
	Jobs map[string]struct {
		Permissions map[string]string
		Env         map[string]string
		Steps       []workflowStep
	}
	Permissions map[string]string
}

type workflowStep struct {
	Name, If, Uses, Run, Shell string
	Env                        map[string]string
	With                       map[string]any
}

func readWorkflow(t *testing.T, name string) workflow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", ".github", "workflows", name))
	require.NoError(t, err)
	var w workflow
	require.NoError(t, yaml.Unmarshal(text, &w))
	return w
}

// needTools skips where a step of a runner of GitHub could not run.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("steps are for bash")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here", name)
		}
	}
}

// step runs a step's script as GitHub's runner does where shell is bash.
func (s workflowStep) run(t *testing.T, dir string, env map[string]string) (out string, code int) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "step.sh")
	require.NoError(t, os.WriteFile(script, []byte(s.Run), 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
	cmd.Dir = dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TOKPACE") && !strings.HasPrefix(kv, "GITHUB_") && !strings.HasPrefix(kv, "OPENAI_") && !strings.HasPrefix(kv, "GIT_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	for k, v := range s.Env {
		if !strings.Contains(v, "${{") {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// TestWorkflowsAreCareful: what GitHub's own advice for workflows asks of ours.
func TestWorkflowsAreCareful(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for _, file := range files {
		w := readWorkflow(t, filepath.Base(file))
		require.NotNil(t, w.Permissions, file)
		require.NotContains(t, w.On, "pull_request_target")
		_, trusted := w.On["workflow_run"]
		for _, job := range w.Jobs {
			for scope, level := range job.Permissions {
				require.True(t, level == "read" || trusted, "%s: %s: %s", file, scope, level)
			}
			for _, s := range job.Steps {
				require.NotContains(t, s.Run, "${{", "%s: expressions come through the environment", file)
				if s.Uses != "" {
					require.Regexp(t, pinned, s.Uses, file)
					require.False(t, trusted, "%s runs code that is not in it", file)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") {
					require.Equal(t, false, s.With["persist-credentials"], file)
				}
			}
		}
		for scope, level := range w.Permissions {
			require.Equal(t, "contents: read", scope+": "+level, file)
		}
	}
	require.Equal(t, map[string]string{"actions": "read", "pull-requests": "write"}, readWorkflow(t, "bench-comment.yml").Jobs["comment"].Permissions)
	require.Equal(t, map[string]any{"workflows": []any{readWorkflow(t, "bench.yml").Name}, "types": []any{"completed"}},
		readWorkflow(t, "bench-comment.yml").On["workflow_run"])
}

// slowerRepository is a small repository with a module that uses this one, and whose
// branch is slower than its main branch.
type slowerRepository struct {
	dir, base string
	command   string // import path of the command
}

func newSlowerRepository(t *testing.T) *slowerRepository {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	r := &slowerRepository{dir: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(r.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	bench := func(latency int) string {
		return fmt.Sprintf("package benchtests\n\nimport \"testing\"\n\nfunc BenchmarkChat(b *testing.B) {\n\tfor b.Loop() {\n\t}\n"+
			"\tb.ReportMetric(0, \"ns/op\")\n\tb.ReportMetric(%d, \"ttft-p50-ns\")\n}\n", latency)
	}
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	sum, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	var module struct{ Path string }
	list(t, &module, "-m", "-json")
	r.command = module.Path + "/pkg/cmd/tokpace"
	write("go.mod", strings.Replace(string(mod), "module "+module.Path+"\n", "module example.test/user\n", 1)+
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module.Path, root))
	write("go.sum", string(sum))
	write(".gitignore", "bench-out\ncomment.md\n")
	write("benchtests/chat_test.go", bench(1000))
	r.git(t, "init", "-q", "-b", "main")
	r.git(t, "add", ".")
	r.git(t, "commit", "-qm", "base")
	r.base = r.git(t, "rev-parse", "HEAD")
	r.git(t, "checkout", "-qb", "feature")
	write("benchtests/chat_test.go", bench(1200))
	r.git(t, "commit", "-qam", "slower")
	return r
}

func (r *slowerRepository) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.test"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// TestBenchWorkflow runs the steps of bench.yml.
func TestBenchWorkflow(t *testing.T) {
	needTools(t, "bash", "git")
	job := readWorkflow(t, "bench.yml").Jobs["bench"]
	repo := newSlowerRepository(t)
	summary := filepath.Join(t.TempDir(), "summary.md")
	env := map[string]string{
		"GITHUB_STEP_SUMMARY": summary, "RUNNER_TEMP": t.TempDir(), "BASE_SHA": repo.base, "GOFLAGS": "-mod=mod",
	}
	for k, v := range job.Env {
		env[k] = v
	}
	env["TOKPACE"] = repo.command
	var steps []workflowStep
	for _, s := range job.Steps {
		if s.Run != "" {
			steps = append(steps, s)
		}
	}
	require.Len(t, steps, 1)
	out, code := steps[0].run(t, repo.dir, env)
	require.Equal(t, 1, code, out)
	require.Empty(t, repo.git(t, "status", "--porcelain"), "the steps leave nothing but what they upload")
	require.Contains(t, out, "\n::error file=benchtests/chat_test.go,line=5,title=regression%3A Chat")
	for _, file := range []string{summary, filepath.Join(repo.dir, "comment.md")} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "### Benchmarks: worse\n")
		require.Contains(t, string(text), "+20.00%")
		require.Contains(t, string(text), "<summary>benchstat</summary>")
	}
	for _, name := range []string{"base.txt", "head.txt", "junit.xml", "gate.json"} {
		require.FileExists(t, filepath.Join(repo.dir, "bench-out", name))
	}

	repo.git(t, "commit", "-q", "--allow-empty", "-m", "Explain\n\nGate-Accept: ttft-p50-ns:Chat the price of safety")
	out, code = steps[0].run(t, repo.dir, env)
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "accepted: regression: the price of safety")
}

// TestReadmeGitLab runs the script of README's job for GitLab.
func TestReadmeGitLab(t *testing.T) {
	needTools(t, "bash", "git")
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 1)
	var jobs map[string]struct {
		Script    []string
		Artifacts struct {
			Paths   []string
			Reports map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(blocks[0][1], &jobs))
	job := jobs["bench"]
	require.NotEmpty(t, job.Script)
	repo := newSlowerRepository(t)
	script := strings.ReplaceAll(strings.Join(job.Script, "\n"), "./pkg/cmd/tokpace", repo.command)
	script = strings.ReplaceAll(script, "/tmp/", t.TempDir()+"/")
	out, code := workflowStep{Run: script}.run(t, repo.dir, map[string]string{"CI_MERGE_REQUEST_DIFF_BASE_SHA": repo.base, "GOFLAGS": "-mod=mod"})
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "does not pass: 1 regression")
	require.Equal(t, []string{"bench-out"}, job.Artifacts.Paths)
	report, err := os.ReadFile(filepath.Join(repo.dir, job.Artifacts.Reports["junit"]))
	require.NoError(t, err)
	require.Contains(t, string(report), `<failure type="regression"`)
}

// github is as much of GitHub's API as the comment needs.
type github struct {
	mu       sync.Mutex // the process between two requests is no order for the race detector
	token    string
	pulls    []map[string]any
	zip      []byte // nil: no artifact
	size     int
	storage  string
	comments []map[string]any
	log      []string
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const repo = "/repos/o/r"
	if r.Header.Get("Authorization") != "Bearer "+g.token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	var sent struct{ Body string }
	if r.Method != "GET" {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		g.log = append(g.log, r.Method+" "+r.URL.Path)
	}
	path, _ := strings.CutPrefix(r.URL.Path, repo)
	switch q := r.URL.Query(); r.Method + " " + path {
	case "GET /pulls":
		var found []map[string]any
		for _, p := range g.pulls {
			if p["label"] == q.Get("head") && q.Get("state") == "open" {
				found = append(found, p)
			}
		}
		answer(append([]map[string]any{}, found...))
	case "GET /actions/runs/7/artifacts":
		list := []any{}
		if g.zip != nil {
			list = append(list, map[string]any{"id": 1, "expired": true, "size_in_bytes": 5}, map[string]any{"id": 2, "expired": false, "size_in_bytes": g.size})
		}
		answer(map[string]any{"artifacts": list})
	case "GET /actions/artifacts/2/zip":
		http.Redirect(w, r, g.storage, http.StatusFound)
	case "GET /issues/12/comments":
		var page int
		_, _ = fmt.Sscan(q.Get("page"), &page)
		from := min(100*(page-1), len(g.comments))
		answer(append([]map[string]any{}, g.comments[from:min(from+100, len(g.comments))]...))
	case "POST /issues/12/comments":
		g.comments = append(g.comments, comment(len(g.comments), "github-actions[bot]", sent.Body))
		w.WriteHeader(http.StatusCreated)
		answer(map[string]any{})
	default:
		var id int
		if _, err := fmt.Sscanf(path, "/issues/comments/%d", &id); err != nil || r.Method != "PATCH" {
			http.NotFound(w, r)
			return
		}
		g.comments[id]["body"] = sent.Body
		answer(map[string]any{})
	}
}

func comment(id int, author, body string) map[string]any {
	return map[string]any{"id": id, "user": map[string]any{"login": author}, "body": body}
}

func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		require.NoError(t, err)
		_, err = io.WriteString(w, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// TestCommentWorkflow runs the script of bench-comment.yml against a fake GitHub.
func TestCommentWorkflow(t *testing.T) {
	needTools(t, "bash", "curl", "jq", "unzip")
	steps := readWorkflow(t, "bench-comment.yml").Jobs["comment"].Steps
	require.Len(t, steps, 1)
	const marker = "<!-- tokpace-gate -->\n"
	pull := func(number int, label, repo, sha string) map[string]any {
		return map[string]any{"number": number, "label": label, "head": map[string]any{"sha": sha, "repo": map[string]any{"full_name": repo}}}
	}
	ours := []map[string]any{pull(11, "fork:main", "fork/r", "abc"), pull(12, "fork:it's&a #1", "fork/r", "abc")}
	var talk []map[string]any
	for i := range 250 {
		talk = append(talk, comment(i, "somebody", marker+"I am the gate"))
	}
	earlier := append(slices.Clone(talk), comment(250, "github-actions[bot]", "another workflow"), comment(251, "github-actions[bot]", marker+"old"))
	for _, c := range []struct {
		name     string
		pulls    []map[string]any
		zip      []byte
		size     int
		comments []map[string]any
		log      string // requests that change something
		body     string // what is in the comment
		not      string // and what is not
	}{
		{"first", ours, zipped(t, "comment.md", marker+"### Benchmarks: pass\n"), 200, nil, "POST /repos/o/r/issues/12/comments", "### Benchmarks: pass\n", "no result"},
		{"others talked", ours, zipped(t, "comment.md", "x"), 200, talk, "POST /repos/o/r/issues/12/comments", "\nx\n", "no result"},
		{"again", ours, zipped(t, "comment.md", "new\n"), 200, earlier, "PATCH /repos/o/r/issues/comments/251", "\nnew\n", "old"},
		{"no artifact", ours, nil, 0, earlier, "PATCH /repos/o/r/issues/comments/251", "### Benchmarks: no result\n", "old"},
		{"mentions", ours, zipped(t, "comment.md", "@octocat \x1b[2J\x00 \xff \"$(exit 1)\" `exit 1`"), 200, nil, "POST /repos/o/r/issues/12/comments", "@\u200boctocat [2J \ufffd \"$(exit 1)\" `exit 1`", "@octocat"},
		{"says it is large", ours, zipped(t, "comment.md", "x"), 300000, nil, "POST /repos/o/r/issues/12/comments", "no result", "\nx\n"},
		{"is large", ours, zipped(t, "comment.md", strings.Repeat("x", 64001)), 200, nil, "POST /repos/o/r/issues/12/comments", "no result", "xx"},
		{"is a bomb", ours, zipped(t, "comment.md", strings.Repeat("x", 20<<20)), 200, nil, "POST /repos/o/r/issues/12/comments", "no result", "xx"},
		{"just fits", ours, zipped(t, "comment.md", strings.Repeat("x", 64000)), 200, nil, "POST /repos/o/r/issues/12/comments", strings.Repeat("x", 64000), "no result"},
		{"grows", ours, zipped(t, "comment.md", strings.Repeat("@", 40000)), 200, nil, "POST /repos/o/r/issues/12/comments", "no result", "@@"},
		{"other files", ours, zipped(t, "../../evil.md", "x", "body.md", "y"), 200, nil, "POST /repos/o/r/issues/12/comments", "no result", "\ny\n"},
		{"no zip", ours, []byte("PK no"), 200, nil, "POST /repos/o/r/issues/12/comments", "no result", "PK"},
		{"pushed since", []map[string]any{pull(12, "fork:it's&a #1", "fork/r", "def")}, zipped(t, "comment.md", "x"), 200, nil, "", "", ""},
		{"another's branch of this name", []map[string]any{pull(12, "fork:it's&a #1", "fork/other", "abc")}, zipped(t, "comment.md", "x"), 200, nil, "", "", ""},
		{"two at once", append(slices.Clone(ours), pull(13, "fork:it's&a #1", "fork/r", "abc")), zipped(t, "comment.md", "x"), 200, nil, "", "", ""},
		{"closed", nil, zipped(t, "comment.md", "x"), 200, nil, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("the token went elsewhere")
				}
				_, _ = w.Write(c.zip)
			}))
			defer storage.Close()
			g := &github{token: "t0ken", pulls: c.pulls, zip: c.zip, size: c.size, storage: storage.URL}
			for _, m := range c.comments {
				g.comments = append(g.comments, comment(m["id"].(int), m["user"].(map[string]any)["login"].(string), m["body"].(string)))
			}
			before := len(g.comments)
			api := httptest.NewServer(g)
			defer api.Close()
			temp := t.TempDir()
			out, code := steps[0].run(t, temp, map[string]string{
				"GITHUB_API_URL": api.URL, "GITHUB_REPOSITORY": "o/r", "RUNNER_TEMP": temp, "TOKEN": g.token,
				"RUN_ID": "7", "RUN_URL": "https://github.test/run/7", "HEAD_SHA": "abc", "HEAD_BRANCH": "it's&a #1", "HEAD_OWNER": "fork", "HEAD_REPO": "fork/r",
			})
			require.Equal(t, 0, code, out)
			g.mu.Lock()
			defer g.mu.Unlock()
			require.Equal(t, c.log, strings.Join(g.log, "\n"), out)
			require.NotContains(t, out, g.token)
			if c.log == "" {
				require.Contains(t, out, "no one open pull request")
				return
			}
			at := before
			if strings.HasPrefix(c.log, "PATCH") {
				at = 251
			}
			body := g.comments[at]["body"].(string)
			require.True(t, strings.HasPrefix(body, marker))
			require.Contains(t, body, c.body)
			require.NotContains(t, body, c.not)
			require.True(t, strings.HasSuffix(body, "\n[This run](https://github.test/run/7) measured abc.\n"))
			require.LessOrEqual(t, len([]rune(body)), 65536)
		})
	}

	// Who may not write fails, and says so.
	api := httptest.NewServer(&github{token: "another"})
	defer api.Close()
	temp := t.TempDir()
	out, code := steps[0].run(t, temp, map[string]string{"GITHUB_API_URL": api.URL, "GITHUB_REPOSITORY": "o/r", "RUNNER_TEMP": temp, "TOKEN": "t0ken",
		"HEAD_OWNER": "fork", "HEAD_BRANCH": "b", "HEAD_SHA": "abc", "HEAD_REPO": "fork/r", "RUN_ID": "7", "RUN_URL": "x"})
	require.NotZero(t, code)
	require.Contains(t, out, "401")
}
