package fakeserver

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// Rule applies a fault to the requests that it matches. Rules are tried in their order; the first whose Match holds wins,
// unless it says Continue: then its fault is applied and the next rules are tried as well. A rule without a fault that wins
// keeps the rules behind it away.
//
//	Rules: []fakeserver.Rule{{ // fail twice, then succeed
//		Match: fakeserver.Match{Endpoint: "/v1/chat/completions", First: 2},
//		Fault: fakeserver.Fault{Status: 503, RetryAfter: "1"},
//	}}
type Rule struct {
	// Name is what the journal calls the rule; "" = its number, from 1.
	Name string `yaml:"name,omitempty"`
	// Match says which requests.
	Match Match `yaml:"match,omitempty"`
	// Fault is what happens to their answers.
	Fault Fault `yaml:"fault,omitempty"`
	// Continue lets the next rules be tried as well.
	Continue bool `yaml:"continue,omitempty"`
}

// Match is a condition on requests; all its fields that are set must hold, so the zero value matches every request.
//
// Nth, Every and First count the requests that Endpoint, Model and Header match, in the order of arrival and from 1. A
// rule counts them also when a rule before it has won, so that its numbers do not depend on other rules.
type Match struct {
	Endpoint string `yaml:"endpoint,omitempty"` // the path, as in /v1/embeddings
	Model    string `yaml:"model,omitempty"`    // that the request asks for
	// Header must be there, and with HeaderValue one of its values must be equal to that.
	Header      string `yaml:"header,omitempty"`
	HeaderValue string `yaml:"header-value,omitempty"`

	Nth   int `yaml:"nth,omitempty" jsonschema:"minimum=1"`   // this one alone
	Every int `yaml:"every,omitempty" jsonschema:"minimum=1"` // each so many-th
	First int `yaml:"first,omitempty" jsonschema:"minimum=1"` // up to this one

	// Probability, if not 0, lets the rule match with this probability. The draw is a function of the Seed, of the request
	// (as far as its answer depends on it) and of how often the rule has counted this same request before: it is the same
	// in every process and at any concurrency. The first 1<<20 different requests are told apart, and later ones drawn as
	// if each came for the first time.
	Probability float64 `yaml:"probability,omitempty" jsonschema:"minimum=0,maximum=1"`
}

func (m *Match) check() error {
	switch {
	case m.Nth < 0 || m.Every < 0 || m.First < 0:
		return fmt.Errorf("match: nth, every and first count from 1")
	case !(m.Probability >= 0 && m.Probability <= 1):
		return fmt.Errorf("match: probability: %v is not between 0 and 1", m.Probability)
	case m.HeaderValue != "" && m.Header == "":
		return fmt.Errorf("match: header-value needs header")
	}
	return nil
}

// holds reports whether the conditions hold that need no count.
func (m *Match) holds(r *Request, model string) bool {
	if m.Endpoint != "" && m.Endpoint != r.Path || m.Model != "" && m.Model != model {
		return false
	}
	if m.Header == "" {
		return true
	}
	values := r.Header[http.CanonicalHeaderKey(m.Header)]
	for _, v := range values {
		if v == m.HeaderValue {
			return true
		}
	}
	return m.HeaderValue == "" && len(values) > 0
}

// maxOccurrences bounds the memory of one rule with a probability to some 40 MiB.
const maxOccurrences = 1 << 20

// ruleSet counts for the rules of one configuration. nil has no rules.
type ruleSet struct {
	seed  uint64
	rules []Rule
	names []string
	texts []string // of the faults, for the journal

	mu     sync.Mutex
	counts []int
	seen   []map[uint64]uint32 // per rule with a probability
}

func newRuleSet(c *Config) *ruleSet {
	if len(c.Rules) == 0 {
		return nil
	}
	s := &ruleSet{seed: c.Seed, rules: c.Rules}
	for i, r := range c.Rules {
		name := r.Name
		if name == "" {
			name = "rule " + strconv.Itoa(i+1)
		}
		s.names = append(s.names, name)
		s.texts = append(s.texts, clipFault(r.Fault.String()))
	}
	s.reset()
	return s
}

func (s *ruleSet) reset() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = make([]int, len(s.rules))
	s.seen = make([]map[uint64]uint32, len(s.rules))
	for i, r := range s.rules {
		if r.Match.Probability > 0 {
			s.seen[i] = map[uint64]uint32{}
		}
	}
}

// match counts a request in all rules at once and returns the numbers of those whose faults apply.
func (s *ruleSet) match(r *Request, p *Plan) (matched []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	won := false
	for i := range s.rules {
		m := &s.rules[i].Match
		if !m.holds(r, p.Model) {
			continue
		}
		s.counts[i]++
		n := s.counts[i]
		drawn := m.Probability == 0 || s.draw(i, p.Key)
		if won || !drawn || m.Nth != 0 && n != m.Nth || m.Every != 0 && n%m.Every != 0 || m.First != 0 && n > m.First {
			continue
		}
		matched = append(matched, i)
		won = !s.rules[i].Continue
	}
	return matched
}

// draw decides by rule, request and occurrence alone.
func (s *ruleSet) draw(i int, key uint64) bool {
	n := s.seen[i][key]
	if n > 0 || len(s.seen[i]) < maxOccurrences {
		s.seen[i][key] = n + 1
	}
	h := mix(mix(mix(s.seed, 'f'), uint64(i)), mix(key, uint64(n)))
	return float64(h>>11)/(1<<53) < s.rules[i].Match.Probability
}

// maxFaultText bounds what the journal keeps of a fault's text.
const maxFaultText = 1 << 10

func clipFault(text string) string {
	if len(text) > maxFaultText {
		return string([]byte(text[:maxFaultText])) + "…"
	}
	return text
}

// checkRules reports the first bad rule by its number from 0, as in the slice.
func checkRules(rules []Rule) error {
	for i := range rules {
		err := rules[i].Match.check()
		if err == nil {
			if err = rules[i].Fault.Check(); err != nil {
				err = fmt.Errorf("fault: %w", err)
			}
		}
		if err != nil {
			return fmt.Errorf("fakeserver: Config.Rules[%d]: %w", i, err)
		}
	}
	return nil
}
