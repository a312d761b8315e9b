package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// Events have the form of vLLM's: 258 bytes, of which 20 are the text of the token. That is a number of 20 digits, so
// that it can be the time of its send.
const (
	model       = "meta-llama/Llama-3.1-8B-Instruct"
	eventHead   = `data: {"id":"chatcmpl-0123456789abcd","object":"chat.completion.chunk","created":1764525600,"model":"` + model + `","choices":[`
	eventOpen   = eventHead + `{"index":0,"delta":{"content":"`
	eventClose  = `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	eventLength = `"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}` + "\n\n"
	roleEvent   = eventHead + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"

	stampDigits = 20
	streamHead  = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 18:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
	lastChunk   = "0\r\n\r\n"
)

func usageEvent(input, output int) string {
	return fmt.Sprintf("%s],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n", eventHead, input, input+output, output)
}

// tokenEvents are the events of an answer of n tokens, the role before and the usage and [DONE] behind them.
func tokenEvents(n int) [][]byte {
	events := [][]byte{[]byte(roleEvent)}
	for i := range n {
		end := eventClose
		if i == n-1 {
			end = eventLength
		}
		events = append(events, fmt.Appendf(nil, "%s%0*d%s", eventOpen, stampDigits, 1_000_000_007*(i+1), end))
	}
	return append(events, []byte(usageEvent(32, n)), []byte(doneEvent))
}

// chunk frames data as HTTP chunks are.
func chunk(b, data []byte) []byte {
	b = strconv.AppendInt(b, int64(len(data)), 16)
	b = append(append(b, "\r\n"...), data...)
	return append(b, "\r\n"...)
}

// putStamp writes a number over 20 digits.
func putStamp(digits []byte, v int64) {
	for i := stampDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + v%10)
		v /= 10
	}
}

// stampsOf reads the stamps that make up a generated text.
func stampsOf(text string, n int) ([]int64, error) {
	if len(text) != n*stampDigits {
		return nil, fmt.Errorf("%d tokens came with %d bytes of text", n, len(text))
	}
	stamps := make([]int64, n)
	for i := range stamps {
		v, err := strconv.ParseInt(text[i*stampDigits:(i+1)*stampDigits], 10, 64)
		if err != nil {
			return nil, err
		}
		stamps[i] = v
	}
	return stamps, nil
}

// embeddingsJSON is an answer with one vector of 1024 numbers, 8.9 KB.
func embeddingsJSON() []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":"embd-0123456789abcdef","object":"list","created":1764525600,"model":"` + model + `","data":[{"index":0,"object":"embedding","embedding":[`)
	for i := range 1024 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%.4f", 0.1+float64(i*7919%1000)/2000)
		if i%2 == 0 {
			b.WriteString("12")
		}
		if i%16 == 0 {
			b.WriteString("345678")
		}
	}
	b.WriteString(`]}],"usage":{"prompt_tokens":32,"total_tokens":32,"completion_tokens":0,"prompt_tokens_details":null}}`)
	return b.Bytes()
}
