module example.com/tokpace/testdata/perf

go 1.26.0

replace example.com/tokpace => ../..

require (
	example.com/tokpace v0.0.0-00010101000000-000000000000
	github.com/buger/jsonparser v1.6.1
	github.com/openai/openai-go/v3 v3.99.0
	golang.org/x/sys v0.48.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
)
