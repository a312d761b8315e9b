//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user who gives up gets the record of an exchange that was canceled.
func TestInterruptCancels(t *testing.T) {
	cleanEnv(t)
	for _, args := range [][]string{
		{"-model", "m"}, // in the middle of the exchange
		{},              // while the models are asked for
	} {
		waiting := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client leave
			close(waiting)
			<-r.Context().Done()
		}))
		cmd := exec.Command("tokpace", append([]string{"probe", "-api", "openai", "-base-url", srv.URL, "-json"}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Start())
		<-waiting
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		srv.Close()
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s", stderr.String())
		require.Equal(t, "tokpace: canceled: the caller gave up\n", stderr.String())
		var record struct{ Error struct{ Class string } }
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &record))
		require.Equal(t, "canceled", record.Error.Class)
	}
}

// A reader that has gone away is an error, not the death of the process.
func TestBrokenPipe(t *testing.T) {
	cleanEnv(t)
	url, _ := recorder(t, plainAnswer)
	for _, args := range [][]string{
		{"probe", "-api", "openai", "-base-url", url, "-model", "m", "-json"},
		{"version"},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd := exec.Command("tokpace", args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		_ = cmd.Run()
		require.NoError(t, w.Close())
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v", cmd.ProcessState)
		requireOneLine(t, stderr.String())
	}
}
