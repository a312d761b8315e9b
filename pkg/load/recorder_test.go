package load_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

type record struct {
	*client.Exchange
	Index int `json:"index"`
}

func numbered(i int) record {
	return record{&client.Exchange{Schema: client.Schema, Text: strings.Repeat("x", i%200)}, i}
}

// indices reads a file of records back.
func indices(t *testing.T, path string) (all []int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var in io.Reader = bytes.NewReader(data)
	if strings.HasSuffix(path, ".gz") && len(data) > 0 {
		in, err = gzip.NewReader(in)
		require.NoError(t, err)
	}
	s := bufio.NewScanner(in)
	for s.Scan() {
		var r record
		require.NoError(t, json.Unmarshal(s.Bytes(), &r))
		require.Equal(t, client.Schema, r.Schema)
		all = append(all, r.Index)
	}
	require.NoError(t, s.Err())
	return all
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Wherever a file was torn, the next run finds all whole records and goes on
// behind them.
func TestRecorderGoesOn(t *testing.T) {
	for _, name := range []string{"r.ndjson", "r.ndjson.gz"} {
		path := filepath.Join(t.TempDir(), name)
		r, err := load.OpenRecorder(path)
		require.NoError(t, err)
		var ends []int64 // of the records
		for i := range 3 {
			require.NoError(t, r.Append(numbered(i)))
			info, err := os.Stat(path)
			require.NoError(t, err)
			ends = append(ends, info.Size())
			require.Equal(t, upTo(i+1), indices(t, path), "while the run goes on")
		}
		require.NoError(t, r.Close())
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for cut := range whole {
			torn := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(torn, whole[:cut], 0o644))
			r, err := load.OpenRecorder(torn)
			require.NoError(t, err, "%s cut after %d bytes", name, cut)
			left := 0
			for left < len(ends) && ends[left] <= int64(cut) {
				left++
			}
			require.NoError(t, r.Append(numbered(left)))
			require.NoError(t, r.Close())
			require.Equal(t, upTo(left+1), indices(t, torn), "%s cut after %d bytes", name, cut)
		}
	}
}

func TestRecorderFromManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.ndjson")
	r, err := load.OpenRecorder(path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				_ = r.Append(numbered(g*50 + i))
			}
		})
	}
	wg.Wait()
	require.NoError(t, r.Close())
	require.ElementsMatch(t, upTo(400), indices(t, path))
	require.Error(t, r.Append(numbered(0)), "after Close")
}

// A file of somebody's own is not touched.
func TestRecorderRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"notes.txt":  "notes that nobody wants to lose",
		"other.json": `{"schema":"other/v1"}`,
		"notes.gz":   "no gzip at all",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		_, err := load.OpenRecorder(path)
		require.EqualError(t, err, fmt.Sprintf("records: %s: holds something else than records: give another file", path))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
	_, err := load.OpenRecorder(filepath.Join(dir, "no", "folder"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = load.OpenRecorder(dir)
	require.Error(t, err)
}

// The line of a run is a record as those of its exchanges are, also as the first.
func TestRecorderOfRuns(t *testing.T) {
	for _, name := range []string{"r.ndjson", "r.ndjson.gz"} {
		path := filepath.Join(t.TempDir(), name)
		for range 2 {
			r, err := load.OpenRecorder(path)
			require.NoError(t, err)
			require.NoError(t, r.Append(struct {
				Schema string `json:"schema"`
			}{load.RunSchema}))
			require.NoError(t, r.Append(numbered(0)))
			require.NoError(t, r.Close())
		}
	}
}

func TestRecorderIsAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not locked there")
	}
	path := filepath.Join(t.TempDir(), "r.ndjson")
	r, err := load.OpenRecorder(path)
	require.NoError(t, err)
	_, err = load.OpenRecorder(path)
	require.EqualError(t, err, "records: "+path+": another process writes to it")
	require.NoError(t, r.Close())
	r, err = load.OpenRecorder(path)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// A full disk is an error, and what was written before stays.
func TestRecorderFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.ndjson")
	limitFileSize(t, 2000)
	r, err := load.OpenRecorder(path)
	require.NoError(t, err)
	written := 0
	for {
		if err = r.Append(numbered(written)); err != nil {
			break
		}
		written++
		require.Less(t, written, 1000)
	}
	require.ErrorContains(t, err, "records: write ")
	require.Equal(t, err, r.Append(numbered(0)))
	require.Equal(t, err, r.Close())
	require.Positive(t, written)
	require.Equal(t, upTo(written), indices(t, path))
}
