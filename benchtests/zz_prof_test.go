package benchtests
import ("testing";"io";"fmt";"strings";"example.com/tokpace/pkg/api";"example.com/tokpace/pkg/client")
func BenchmarkZZ(b *testing.B){
	numbers := make([]string, 1024)
	for i := range numbers { numbers[i] = fmt.Sprintf("%.5f", float64(i*7919%1024)/1024-0.5) }
	vectors := `{"id":"embd-1","object":"list","created":1790000000,"model":"m","data":[{"index":0,"object":"embedding","embedding":[` +
		strings.Join(numbers, ",") + `]}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":null}}`
	floats := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(vectors), vectors))
	url := rawServer(&testing.T{}, nil, func(w io.Writer) { _, _ = w.Write(floats) })
	req, _ := api.NewEmbeddings("m", []string{"hi"}, "", "")
	c := &client.Client{BaseURL: url}
	b.ReportAllocs()
	for b.Loop() { if ex := c.Do(b.Context(), req); !ex.OK { b.Fatal(ex.Error)} }
}
