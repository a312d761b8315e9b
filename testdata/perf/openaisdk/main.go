//go:build unix

// Command openaisdk is the contestant that reads streams with the openai-go SDK. It is a program of its own because the
// SDK takes a minute to compile, which is not worth waiting for where only the rest is of interest.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	url := flag.String("url", "", "base URL of the server")
	model := flag.String("model", "", "model")
	streams := flag.Int("streams", 64, "streams at once")
	tokens := flag.Int("tokens", 128, "tokens of each")
	d := flag.Duration("for", time.Second, "how long")
	flag.Parse()
	c := openai.NewClient(option.WithBaseURL(*url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *streams, DisableCompression: true}}))
	l := loop{&c, *model, *streams, *tokens}
	_, _, err := l.run(*d / 8)
	if err == nil {
		before := processorTime()
		var (
			events  int64
			elapsed time.Duration
		)
		events, elapsed, err = l.run(*d)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(map[string]float64{
				"PerSecond": float64(events) / elapsed.Seconds(),
				"CPU":       float64(processorTime()-before) / float64(events),
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

type loop struct {
	c               *openai.Client
	model           string
	streams, tokens int
}

func (l loop) run(d time.Duration) (int64, time.Duration, error) {
	var (
		wg     sync.WaitGroup
		events atomic.Int64
		failed atomic.Value
	)
	start := time.Now()
	for range l.streams {
		wg.Go(func() {
			for time.Since(start) < d {
				n, err := l.read()
				if err == nil && n != l.tokens {
					err = fmt.Errorf("%d events in a stream of %d", n, l.tokens)
				}
				if err != nil {
					failed.Store(err)
					return
				}
				events.Add(int64(n))
			}
		})
	}
	wg.Wait()
	err, _ := failed.Load().(error)
	return events.Load(), time.Since(start), err
}

func (l loop) read() (events int, err error) {
	stream := l.c.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: l.model, MaxTokens: openai.Int(int64(l.tokens)),
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say some words, please.")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			events++
		}
	}
	return events, stream.Err()
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
