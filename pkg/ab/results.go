package ab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/tokpace/pkg/gate"
)

// unfinished is the folder below the output folder that holds the pairs of a
// comparison until it is finished.
const unfinished = "unfinished"

// results are the files in the output folder. The log has a temporary name until
// it is kept.
type results struct {
	dir  string
	made string   // topmost folder that openResults made; empty if none
	lock *os.File // the folder, held against other processes
	log  *os.File

	id         subject
	blocks     [2][]string // of base and head: what the files hold for each pair
	base, head *os.File    // those in the folder unfinished, nil before the first new pair
	continued  bool        // blocks are from the folder unfinished
	committed  bool
}

// openResults makes the folder, locks it, and begins a log. If the comparison is
// to be resumed, the old log is its beginning.
func openResults(dir string, resume bool) (*results, error) {
	r := &results{dir: dir, made: firstMissing(dir)}
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		r.lock, err = lockFolder(dir)
	}
	if err == nil {
		r.log, err = os.CreateTemp(dir, ".ab.log-*.tmp")
	}
	if err == nil {
		// CreateTemp's mode is for secrets; logs are for everybody.
		err = r.log.Chmod(0o644)
	}
	if err == nil && resume {
		err = appendFile(r.log, r.logPath())
	}
	if err != nil {
		return nil, errors.Join(err, r.discard())
	}
	return r, nil
}

func appendFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func (r *results) basePath() string { return filepath.Join(r.dir, "base.txt") }
func (r *results) headPath() string { return filepath.Join(r.dir, "head.txt") }
func (r *results) logPath() string  { return filepath.Join(r.dir, "ab.log") }

// len is the number of finished pairs.
func (r *results) len() int { return len(r.blocks[0]) }

// resumable reports whether there is anything to go on with.
func resumable(dir string) bool {
	return slices.ContainsFunc([]string{filepath.Join(dir, unfinished), dir}, hasResults)
}

func hasResults(dir string) bool {
	for _, name := range []string{"base.txt", "head.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// resume reads the pairs that there are: those of the folder unfinished, else
// those of the last finished comparison, which may have run out of time. It is
// called a second time when the digests of the sides are known.
func (r *results) resume(id subject) error {
	r.blocks = [2][]string{}
	left := filepath.Join(r.dir, unfinished)
	dir := left
	if !hasResults(dir) {
		dir = r.dir
	}
	file, blocks, err := readResults(dir)
	if err != nil {
		return inputError("cannot resume what is in %s: %v (start anew without -resume)", dir, err)
	}
	if what := id.differs(file); what != "" {
		return inputError("cannot resume what is in %s: %s (start anew without -resume)", dir, what)
	}
	r.id, r.blocks, r.continued = id, blocks, dir == left
	return nil
}

// replaced tells of unfinished pairs that a new comparison will replace.
func (r *results) replaced(id subject) string {
	file, blocks, err := readResults(filepath.Join(r.dir, unfinished))
	if n := len(blocks[0]); err == nil && n > 0 {
		if id.differs(file) == "" {
			return count(n, "finished pair") + " of this comparison, which -resume would keep"
		}
		return count(n, "finished pair") + " of another comparison"
	}
	return ""
}

// readResults reads the pairs that are complete in both files of a folder.
func readResults(dir string) (id subject, blocks [2][]string, err error) {
	for i, name := range []string{"base.txt", "head.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return id, blocks, err
		}
		line, rest, _ := strings.Cut(string(text), "\n")
		s, err := parseSubject(line)
		if err != nil {
			return id, blocks, fmt.Errorf("%s is no result of tokpace ab: %w", name, err)
		}
		if i > 0 && s != id {
			return id, blocks, errors.New("base.txt and head.txt are of different comparisons")
		}
		id, blocks[i] = s, splitBlocks(rest)
	}
	n := min(len(blocks[0]), len(blocks[1]))
	blocks[0], blocks[1] = blocks[0][:n], blocks[1][:n]
	return id, blocks, nil
}

// block is what a file holds for one sample of a pair, from its mark to the line
// that says that it is all there.
func block(pair int, out string) string {
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return fmt.Sprintf("# tokpace-pair %d %s\n%s%s", pair, order(pair), out, blockEnd(pair))
}

func blockEnd(pair int) string { return fmt.Sprintf("# tokpace-end %d\n", pair) }

// order is AB in pairs of odd numbers, BA in others.
func order(pair int) string {
	if pair%2 == 0 {
		return "BA"
	}
	return "AB"
}

// splitBlocks returns the blocks from pair 1 on as far as they are complete.
func splitBlocks(text string) (blocks []string) {
	for pair := 1; ; pair++ {
		if !strings.HasPrefix(text, fmt.Sprintf("# tokpace-pair %d %s\n", pair, order(pair))) {
			return blocks
		}
		i := strings.Index(text, "\n"+blockEnd(pair))
		if i < 0 {
			return blocks
		}
		end := i + 1 + len(blockEnd(pair))
		blocks = append(blocks, text[:end])
		text = text[end:]
	}
}

// add puts a pair's outputs on disk.
func (r *results) add(base, head string) error {
	if r.base == nil {
		if err := r.create(); err != nil {
			return err
		}
	}
	pair := r.len() + 1
	texts := [2]string{block(pair, base), block(pair, head)}
	files := [2]*os.File{r.base, r.head}
	for i, f := range files {
		if _, err := f.WriteString(texts[i]); err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
		r.blocks[i] = append(r.blocks[i], texts[i])
	}
	return nil
}

// create makes the files in the folder unfinished with all pairs so far, or cuts
// those that are there at the end of the last whole pair.
func (r *results) create() error {
	dir := filepath.Join(r.dir, unfinished)
	if !r.continued {
		if err := removeAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	for i, f := range []struct {
		file **os.File
		name string
	}{{&r.base, "base.txt"}, {&r.head, "head.txt"}} {
		var err error
		if *f.file, err = os.OpenFile(filepath.Join(dir, f.name), os.O_CREATE|os.O_RDWR, 0o666); err != nil {
			return err
		}
		text := r.id.line() + strings.Join(r.blocks[i], "")
		if r.continued {
			if err := (*f.file).Truncate(int64(len(text))); err != nil {
				return err
			}
			if _, err := (*f.file).Seek(0, io.SeekEnd); err != nil {
				return err
			}
		} else if _, err := (*f.file).WriteString(text); err != nil {
			return err
		}
	}
	for _, d := range []string{r.dir, dir} {
		if f, err := os.Open(d); err == nil {
			_ = f.Sync() // not every system can
			f.Close()
		}
	}
	return nil
}

// sets are the first n pairs as package gate reads them.
func (r *results) sets(n int) (base, head *gate.Set, err error) {
	base, head = &gate.Set{}, &gate.Set{}
	for i, s := range []*gate.Set{base, head} {
		name := []string{"base.txt", "head.txt"}[i]
		var texts []io.Reader
		for _, b := range r.blocks[i][:n] {
			texts = append(texts, strings.NewReader(b))
		}
		if err := s.Read(io.MultiReader(texts...), name); err != nil {
			return nil, nil, err
		}
	}
	return base, head, nil
}

// commit puts all files in place of older ones.
func (r *results) commit() error {
	if r.base == nil && r.continued {
		// It was interrupted after the last pair that it needed.
		if err := r.create(); err != nil {
			return err
		}
	}
	if r.base == nil { // no pair is new
		r.committed = true
		return r.keepLog()
	}
	// All are closed before the first is moved: a full disk shows there.
	if err := errors.Join(r.base.Close(), r.head.Close()); err != nil {
		return err
	}
	if err := r.keepLog(); err != nil {
		return err
	}
	// An older base comes back when head cannot be put in place.
	older := r.base.Name() + ".older"
	if err := os.Rename(r.basePath(), older); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := os.Rename(r.base.Name(), r.basePath())
	if err == nil {
		err = os.Rename(r.head.Name(), r.headPath())
	}
	if err != nil {
		// All goes back to where it was, so that it can be resumed.
		restored := os.Rename(r.basePath(), r.base.Name())
		if err := os.Rename(older, r.basePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			restored = errors.Join(restored, err)
		}
		return errors.Join(err, restored)
	}
	r.committed = true
	return removeAll(filepath.Join(r.dir, unfinished))
}

// keepLog puts the log alone in place.
func (r *results) keepLog() error {
	if err := r.log.Close(); err != nil {
		return err
	}
	return os.Rename(r.log.Name(), r.logPath())
}

// discard removes a log that was not kept, and folders that were made and hold
// nothing.
func (r *results) discard() error {
	var errs []error
	for _, f := range []*os.File{r.base, r.head} {
		if f != nil {
			f.Close() // a second time, if it was committed
		}
	}
	if r.base != nil && r.len() == 0 { // the first pair could not be written
		errs = append(errs, removeAll(filepath.Join(r.dir, unfinished)))
	}
	if r.log != nil {
		r.log.Close()
		if err := os.Remove(r.log.Name()); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if r.made != "" {
		// From the inside out, up to the first that holds something.
		for dir := r.dir; os.Remove(dir) == nil && dir != r.made; {
			dir = filepath.Dir(dir)
		}
	}
	if r.lock != nil {
		r.lock.Close()
	}
	return errors.Join(errs...)
}

// firstMissing returns the topmost folder on the way to dir that does not
// exist, or nothing.
func firstMissing(dir string) string {
	missing := ""
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return missing
		}
		missing = dir
		dir = filepath.Dir(dir)
	}
}
