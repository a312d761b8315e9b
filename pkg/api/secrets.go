package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secrets are words that must not be shown, whoever said them and however they are
// spelled: servers repeat keys in errors, in JSON, in the address of a redirect. The
// zero value holds none.
type Secrets struct {
	spellings []string // the longest first
}

// minSecret is the length in bytes from which a word counts as secret: shorter ones
// would be found everywhere.
const minSecret = 4

// NewSecrets returns the secrets of the words given; those of less than four bytes
// are left out.
func NewSecrets(words ...string) Secrets {
	var s Secrets
	for _, word := range words {
		if len(word) < minSecret {
			continue
		}
		// What is quoted may hold what was escaped before.
		for _, w := range []string{word, inJSON(word, true), inJSON(word, false), strings.ReplaceAll(word, "/", `\/`),
			url.QueryEscape(word), url.PathEscape(word), html.EscapeString(word)} {
			s.spellings = append(s.spellings, w, inJSON(w, false), strings.Trim(strconv.Quote(w), `"`))
		}
	}
	slices.SortFunc(s.spellings, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	s.spellings = slices.Compact(s.spellings)
	return s
}

// inJSON is a word as it stands inside a JSON string.
func inJSON(word string, escapeHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escapeHTML)
	if enc.Encode(word) != nil {
		return word
	}
	text := strings.TrimSpace(b.String())
	return text[1 : len(text)-1]
}

const (
	redacted = "[redacted]"
	cutMark  = "…"
)

// Redact is text without the secrets. A message cut short may end inside one: what is
// left of it before the mark of the cut goes too.
func (s Secrets) Redact(text string) string {
	for _, secret := range s.spellings {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	if len(s.spellings) == 0 || !strings.Contains(text, cutMark) {
		return text
	}
	parts := strings.Split(text, cutMark)
	for i, part := range parts[:len(parts)-1] {
		head, quoted := strings.CutSuffix(part, `"`) // as in "begins so"…
		for _, secret := range s.spellings {
			if rest, found := cutHead(head, secret); found {
				if parts[i] = rest + redacted; quoted {
					parts[i] += `"`
				}
				break
			}
		}
	}
	return strings.Join(parts, cutMark)
}

// cutHead cuts the beginning of a secret from the end of text.
func cutHead(text, secret string) (rest string, found bool) {
	for n := len(secret) - 1; n >= minSecret; n-- {
		if rest, found = strings.CutSuffix(text, secret[:n]); found {
			return rest, true
		}
	}
	return text, false
}

// IsSecretName reports whether a header or a query field of this name holds a secret
// as a rule.
func IsSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "pass", "sig"},
		func(part string) bool { return strings.Contains(name, part) })
}

// HeaderSecrets are the words of a header that are secret by their field's name: each
// value, what stands behind its scheme, and the values of cookies.
func HeaderSecrets(h http.Header) (words []string) {
	for name, values := range h {
		if !IsSecretName(name) {
			continue
		}
		for _, v := range values {
			_, credentials, _ := strings.Cut(v, " ")
			words = append(words, v, credentials)
			if strings.Contains(strings.ToLower(name), "cookie") {
				for pair := range strings.SplitSeq(v, ";") {
					_, value, _ := strings.Cut(pair, "=")
					words = append(words, strings.TrimSpace(value))
				}
			}
		}
	}
	return words
}

// URLSecrets are the secret words of an address: its password, alone and as it is sent,
// and the values of its query whose names isSecret accepts, decoded and as they stand.
func URLSecrets(u *url.URL, isSecret func(name string) bool) (words []string) {
	if password, ok := u.User.Password(); ok {
		words = append(words, password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		rawName, raw, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || !isSecret(name) {
			continue
		}
		words = append(words, raw)
		if value, err := url.QueryUnescape(raw); err == nil {
			words = append(words, value)
		}
	}
	return words
}
