package fakeserver

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"example.com/tokpace/pkg/tokens"
)

type rerankRequest struct {
	Model               string     `json:"model"`
	Query               *string    `json:"query"`
	Documents           []document `json:"documents"`
	TopN                int        `json:"top_n"`
	TruncatePromptToken *int       `json:"truncate_prompt_tokens"`
}

// document is a text, or an object with one.
type document string

func (d *document) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(d))
	}
	var o struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(b, &o); err != nil || o.Text == nil {
		return badParam("documents", `a document is a text or {"text": …}`)
	}
	*d = document(*o.Text)
	return nil
}

// planRerank answers the rerank endpoints: results by falling score, the first top_n of them (0 and less: all).
func planRerank(c *call) (*Plan, error) {
	var r rerankRequest
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	if r.Query == nil {
		return nil, badParam("query", "query is missing")
	}
	if len(r.Documents) == 0 {
		return nil, badParam("documents", "documents must hold at least one document")
	}
	if err := c.checkTruncate(r.TruncatePromptToken); err != nil {
		return nil, err
	}
	type result struct {
		index int
		score float64
	}
	query, sum := tokens.Count(*r.Query), 0
	results := make([]result, len(r.Documents))
	for i, d := range r.Documents {
		n := prompt{tokens: query + tokens.Count(string(d))}.truncated(r.TruncatePromptToken, c.cfg.MaxModelLen)
		if err := c.checkPooled(n); err != nil {
			return nil, err
		}
		sum += n
		h := hashBytes(hashBytes(mix(c.cfg.Seed, 's'), *r.Query), string(d))
		results[i] = result{i, float64(h>>11) / (1 << 53)} // uniform in [0, 1)
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	if r.TopN > 0 && r.TopN < len(results) {
		results = results[:r.TopN]
	}

	b := append([]byte(nil), `{"id":"`...)
	b = c.appendID(b, "rerank-")
	b = append(b, `","model":`...)
	b = appendString(b, c.cfg.Model)
	if c.cfg.Usage != UsageOff {
		b = appendPromptUsage(b, sum)
	}
	b = append(b, `,"results":[`...)
	for i, res := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(res.index), 10)
		b = append(b, `,"document":{"text":`...)
		b = appendString(b, string(r.Documents[res.index]))
		b = append(b, `,"multi_modal":null},"relevance_score":`...)
		b = strconv.AppendFloat(b, res.score, 'g', -1, 64)
		b = append(b, '}')
	}
	p := c.jsonPlan(c.cfg.TTFT, append(b, `]}`...))
	p.InputTokens = sum
	return p, nil
}
