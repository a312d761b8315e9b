package ab

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// subject is what is compared and how. It stands in the first line of both
// files, so that nothing else is mixed in when a comparison is resumed:
//
//	# tokpace-ab {"mode":"commits", …}
type subject struct {
	Mode    mode   `json:"mode"`
	Package string `json:"package"`
	Commit  string `json:"commit,omitempty"` // base
	Base    string `json:"base"`             // digests of the sides
	Head    string `json:"head"`
	Bench   string `json:"bench"`
	Iters   int    `json:"iters"`
	Plan    string `json:"plan"` // looks or count
	// Settings is a digest of the variables that choose what is measured.
	Settings string `json:"settings"`
}

const subjectMark = "# tokpace-ab "

// subject is all of it that is known before the sides are built.
func (r *runner) subject(src *source) subject {
	s := subject{
		Mode: r.cfg.mode(), Package: src.rel, Commit: src.base,
		Bench: r.cfg.Bench, Iters: r.cfg.Iters, Plan: "looks", Settings: settings(os.Environ()),
	}
	if r.cfg.Count > 0 {
		s.Plan = "count"
	}
	switch s.Mode {
	case targets:
		s.Base = digest(address(r.cfg.BaseTarget), address(r.cfg.HeadTarget))
	case servers:
		s.Base = digest(r.cfg.BaseServer, r.cfg.HeadServer, address(r.cfg.ServerURL))
	}
	return s
}

func (s subject) line() string {
	text, _ := json.Marshal(s) // strings and a number
	return subjectMark + string(text) + "\n"
}

// parseSubject reads the line.
func parseSubject(line string) (s subject, err error) {
	text, ok := strings.CutPrefix(line, subjectMark)
	if !ok {
		return s, fmt.Errorf("no line %q", strings.TrimSpace(subjectMark))
	}
	err = json.Unmarshal([]byte(text), &s)
	return s, err
}

// differs says in what the comparison of a file is not s; empty if in nothing.
// Digests of s that are not known yet are left out.
func (s subject) differs(file subject) string {
	switch {
	case s.Mode != file.Mode:
		return fmt.Sprintf("it compares %s", file.Mode)
	case s.Package != file.Package:
		return fmt.Sprintf("it is of package %q", cmp.Or(file.Package, "."))
	case s.Commit != file.Commit:
		return fmt.Sprintf("its base is %.12s", file.Commit)
	case s.Bench != file.Bench:
		return fmt.Sprintf("it was started with -bench %q", file.Bench)
	case s.Iters != file.Iters:
		return fmt.Sprintf("it was started with -iters %d", file.Iters)
	case s.Plan != file.Plan && file.Plan == "count":
		return "it was started with -count"
	case s.Plan != file.Plan:
		return "it was started without -count"
	case s.Head == "" && s.Mode == commits:
	case s.Base != file.Base && s.Mode == commits:
		return "base was other code, or other data"
	case s.Base != file.Base: // of both servers; Head is what measures them
		return "the servers were others"
	case s.Head == "":
	case s.Head != file.Head && s.Mode == commits:
		return "head is other code by now, or other data"
	case s.Head != file.Head:
		return "the benchmarks are other code by now, or other data"
	}
	switch {
	case s.Settings != file.Settings:
		return "TOKPACE_ or OPENAI_ variables were others"
	}
	return ""
}

// settings is a digest of the variables that choose what is measured, without
// those that may be secrets.
func settings(environ []string) string {
	var list []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case !strings.HasPrefix(name, "TOKPACE_") && name != "OPENAI_BASE_URL":
			continue
		case strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_HEADER"):
			value = ""
		case strings.HasSuffix(name, "_URL"):
			value = address(value)
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return digest(list...)
}

// address is a URL without what may be secret in it.
func address(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// content is a digest of what a side's benchmarks are and can read where they
// run: the binary, the files in the package's folder and below that are no Go
// code, and the folders called testdata anywhere in the tree. rel is the package's
// folder below top, with slashes; skip is a folder that is left out.
func content(binary, top, rel, skip string) (string, error) {
	h := sha256.New()
	if err := hashFile(h, binary); err != nil {
		return "", err
	}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(top, path)
		if relErr != nil {
			return relErr
		}
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			// Whatever this is, the other side cannot be the same.
			fmt.Fprintf(h, "\x00unreadable\x00%s", name)
			return nil
		case d.Name() == ".git" && path != top, path == skip:
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		data := strings.Contains("/"+name, "/testdata/")
		inside := rel == "" || strings.HasPrefix(name, rel+"/")
		if !data && (!inside || strings.HasSuffix(name, ".go")) {
			return nil
		}
		fmt.Fprintf(h, "\x00%v\x00%s\x00", d.Type(), name)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			link, _ := os.Readlink(path)
			io.WriteString(h, link)
		case d.Type().IsRegular():
			if hashFile(h, path) != nil {
				io.WriteString(h, "\x00unreadable")
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

func hashFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	own := sha256.New()
	if _, err := io.Copy(own, f); err != nil {
		return err
	}
	_, err = w.Write(own.Sum(nil))
	return err
}
