package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// Servers and clients are processes of their own, so that each can be held on a processor of its own and its time and
// memory told. They are this program again:
//
//	perf child ROLE '{"…":…}'
//
// A client prints its result as JSON and ends. A server prints its address, then answers each line of its input with a
// line of what it has used, and ends with its input.

// A spec is what a child is to do; its JSON is the child's last argument.
type spec interface {
	role() string
	run() error
}

var specs = []spec{
	&blastServer{}, &pacedServer{}, &plainServer{}, &fakeServer{},
	&sseClient{}, &lagClient{}, &bodyClient{}, &openClient{}, &memoryClient{}, &neutralClient{}, &lastTokenClient{},
	&parseClient{}, &recordClient{}, &memnetClient{},
}

// child runs a role and returns the exit code.
func child(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "perf child: want a role and its JSON")
		return 2
	}
	i := slices.IndexFunc(specs, func(s spec) bool { return s.role() == args[0] })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "perf child: no role %q\n", args[0])
		return 2
	}
	err := json.Unmarshal([]byte(args[1]), specs[i])
	if err == nil {
		err = profiled(args[0], specs[i].run)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		return 2
	}
	return 0
}

// profileDir is the environment variable that names the folder for processor profiles of the children.
const profileDir = "PERF_PROFILE"

func profiled(role string, run func() error) error {
	dir := os.Getenv(profileDir)
	if dir == "" {
		return run()
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", role, os.Getpid())))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// result prints what a child found.
func result(v any) error {
	return json.NewEncoder(os.Stdout).Encode(v)
}

// childLimit is how long a child may take that should take seconds.
const childLimit = 2 * time.Minute

// A machine is the processors in use: one for the server, one for the client.
type machine struct {
	serverCPU, clientCPU int
	exe                  string
}

func (m *machine) command(ctx context.Context, s spec) (*exec.Cmd, error) {
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, m.exe, "child", s.role(), string(arg)), nil
}

// client runs a child on the client's processor and decodes its result.
func (m *machine) client(s spec, to any) error { return m.clientOn(m.clientCPU, s, to) }

// anywhere is the processor of a child that may use all.
const anywhere = -1

func (m *machine) clientOn(cpu int, s spec, to any) error {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	cmd, err := m.command(ctx, s)
	if err != nil {
		return err
	}
	out, err := output(cpu, cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", s.role(), err)
	}
	return json.Unmarshal(out, to)
}

// tool runs another program on the client's processor.
func (m *machine) tool(path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	out, err := output(m.clientCPU, exec.CommandContext(ctx, path, args...))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func output(cpu int, cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := start(cpu, cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, childError(err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

func start(cpu int, cmd *exec.Cmd) error {
	if cpu == anywhere {
		return cmd.Start()
	}
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	return onCPU(cpu, cmd.Start)
}

func childError(err error, stderr []byte) error {
	if text := strings.TrimSpace(string(stderr)); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// A server is a child that serves.
type server struct {
	url    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// usage is what a server says of itself.
type usage struct {
	CPU      time.Duration // since its start
	Resident int64         // bytes
	// Late is actual − planned of each event of the fake server, since the last time it was asked, in nanoseconds; Last
	// is how much later the last token of each stream was than the first.
	Late, Last []int64 `json:",omitempty"`
}

func (m *machine) server(s spec) (*server, error) {
	cmd, err := m.command(context.Background(), s)
	if err != nil {
		return nil, err
	}
	srv := &server{cmd: cmd}
	cmd.Stderr = &srv.stderr
	if srv.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	srv.out = bufio.NewReader(out)
	if err := start(m.serverCPU, cmd); err != nil {
		return nil, err
	}
	if err := srv.line(&srv.url); err != nil {
		srv.close()
		return nil, fmt.Errorf("%s: %w", s.role(), childError(err, srv.stderr.Bytes()))
	}
	return srv, nil
}

func (s *server) line(v any) error {
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		return errors.New("the server is gone")
	}
	return json.Unmarshal(text, v)
}

func (s *server) usage() (u usage, err error) {
	if _, err := io.WriteString(s.in, "usage\n"); err != nil {
		return u, err
	}
	return u, s.line(&u)
}

func (s *server) close() {
	if s == nil {
		return
	}
	_ = s.in.Close()
	timer := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, s.out)
	_ = s.cmd.Wait()
}

// serving is the rest of a server's life, once it listens at url.
func serving(url string, more func(*usage)) error {
	if err := result(url); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		u, err := ownUsage()
		if err != nil {
			return err
		}
		if more != nil {
			more(&u)
		}
		if err := result(u); err != nil {
			return err
		}
	}
	return nil
}

func ownUsage() (u usage, err error) {
	if u.CPU, err = processorTime(); err != nil {
		return u, err
	}
	u.Resident, err = resident()
	return u, err
}
