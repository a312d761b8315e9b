package tokens

import (
	"fmt"
	"strconv"
	"strings"
)

// Vision says how a model turns an image into tokens: a model family and, where the family has them, its limits. The
// zero value is qwen2.5-vl with its default limits. Values are comparable with ==.
type Vision struct {
	// Family is qwen2-vl, qwen2.5-vl, qwen3-vl, llava-1.5, llava-next, internvl, phi3-v, phi3.5-v, gemma3 or fixed. Empty
	// means fixed if Fixed is set, else qwen2.5-vl.
	Family string

	// MaxPixels and MinPixels bound the area to which the qwen families scale an image, in pixels; 0 means the family's
	// default: 3,136 to 12,845,056 for qwen2-vl and qwen2.5-vl, 65,536 to 16,777,216 for qwen3-vl.
	MaxPixels, MinPixels int

	// MaxTiles is the most tiles that internvl (max_dynamic_patch) or phi (num_crops) cuts an image into, not counting the
	// overview; 0 means the family's default: 12 for internvl, 16 for phi3-v, 4 for phi3.5-v. At most 256.
	MaxTiles int

	// Fixed is the number of tokens of any image in the family fixed, at least 1.
	Fixed int
}

// ParseVision reads a family name with options, for example
//
//	qwen2.5-vl
//	qwen2.5-vl:max-pixels=1003520,min-pixels=3136
//	internvl:max-tiles=6
//	fixed:576
//
// The empty string gives the zero Vision. Unknown families, options that the family does not have, repeated options and
// values that are not positive decimal integers are errors.
func ParseVision(s string) (Vision, error) {
	if s == "" {
		return Vision{}, nil
	}
	name, rest, hasRest := strings.Cut(s, ":")
	v := Vision{Family: name}
	if _, ok := families[name]; !ok {
		return Vision{}, unknownFamily(name)
	}
	if name == familyFixed {
		n, err := parsePositive(rest)
		if err != nil {
			return Vision{}, fmt.Errorf("tokens: vision %q: tokens per image (as in fixed:576): %w", s, err)
		}
		v.Fixed = n
		return v, nil
	}
	if hasRest {
		for option := range strings.SplitSeq(rest, ",") {
			if err := v.setOption(option); err != nil {
				return Vision{}, fmt.Errorf("tokens: vision %q: %w", s, err)
			}
		}
	}
	if err := v.Validate(); err != nil {
		return Vision{}, err
	}
	return v, nil
}

// String returns the text from which [ParseVision] makes v; an empty family is spelled out.
func (v Vision) String() string {
	v.Family = v.family()
	if v.Family == familyFixed {
		return familyFixed + ":" + strconv.Itoa(v.Fixed)
	}
	var b strings.Builder
	b.WriteString(v.Family)
	sep := byte(':')
	for _, o := range v.options() {
		if *o.value != 0 {
			b.WriteByte(sep)
			b.WriteString(o.name + "=" + strconv.Itoa(*o.value))
			sep = ','
		}
	}
	return b.String()
}

// Validate reports what is wrong with v: an unknown family, a limit that the family does not have, a limit that is
// negative or too large, or a least area above the greatest. [Vision.Count] makes the same check.
func (v Vision) Validate() error {
	name := v.family()
	f, ok := families[name]
	if !ok {
		return unknownFamily(name)
	}
	if name == familyFixed && v.Fixed < 1 {
		return fmt.Errorf("tokens: vision fixed: %d tokens per image: must be at least 1", v.Fixed)
	}
	if name != familyFixed && v.Fixed != 0 {
		return fmt.Errorf("tokens: vision %s: a fixed count does not apply to this family", name)
	}
	for _, o := range v.options() {
		switch {
		case *o.value < 0:
			return fmt.Errorf("tokens: vision %s: %s=%d is negative", name, o.name, *o.value)
		case *o.value != 0 && !o.applies(f):
			return fmt.Errorf("tokens: vision %s: %s does not apply to this family", name, o.name)
		}
	}
	if v.MaxTiles > mostTiles {
		return fmt.Errorf("tokens: vision %s: max-tiles=%d is over %d", name, v.MaxTiles, mostTiles)
	}
	if low, high := v.pixelLimits(f); low > high {
		return fmt.Errorf("tokens: vision %s: min-pixels=%d is over max-pixels=%d", name, low, high)
	}
	return nil
}

const (
	familyDefault = "qwen2.5-vl"
	familyFixed   = "fixed"

	mostTiles = 256 // the search for the best grid is quadratic in it
)

// family holds what distinguishes one model family: the formula and its constants.
type family struct {
	count func(v Vision, f family, width, height int) (tokens int, err error)

	markers   int  // start and end tokens around the placeholder tokens
	inRange   bool // the placeholder range, which usage details report, includes the markers
	factor    int  // qwen: side of the square that becomes one token, patch size times merge size
	minPixels int  // qwen: default limits
	maxPixels int
	maxTiles  int // internvl, phi: default limit
}

var families = map[string]family{
	"qwen2-vl":    {count: countQwen, markers: 2, factor: 14 * 2, minPixels: 3136, maxPixels: 12_845_056},
	familyDefault: {count: countQwen, markers: 2, factor: 14 * 2, minPixels: 3136, maxPixels: 12_845_056},
	"qwen3-vl":    {count: countQwen, markers: 2, factor: 16 * 2, minPixels: 65_536, maxPixels: 16_777_216},
	"llava-1.5":   {count: countLlava},
	"llava-next":  {count: countLlavaNext},
	"internvl":    {count: countInternVL, markers: 2, inRange: true, maxTiles: 12},
	"phi3-v":      {count: countPhi, maxTiles: 16},
	"phi3.5-v":    {count: countPhi, maxTiles: 4},
	"gemma3":      {count: countGemma, markers: 4, inRange: true},
	familyFixed:   {count: countFixed},
}

// familyNames lists the families in the order in which messages show them.
const familyNames = "qwen2-vl, qwen2.5-vl, qwen3-vl, llava-1.5, llava-next, internvl, phi3-v, phi3.5-v, gemma3, fixed:N"

func unknownFamily(name string) error {
	return fmt.Errorf("tokens: unknown vision family %q: want one of %s", name, familyNames)
}

func (v Vision) family() string {
	switch {
	case v.Family != "":
		return v.Family
	case v.Fixed != 0:
		return familyFixed
	}
	return familyDefault
}

func (v Vision) pixelLimits(f family) (low, high int) {
	return orDefault(v.MinPixels, f.minPixels), orDefault(v.MaxPixels, f.maxPixels)
}

// option is one NAME=VALUE of the text form.
type option struct {
	name    string
	value   *int
	applies func(f family) bool
}

func (v *Vision) options() []option {
	scaled := func(f family) bool { return f.factor != 0 }
	tiled := func(f family) bool { return f.maxTiles != 0 }
	return []option{
		{"max-pixels", &v.MaxPixels, scaled},
		{"min-pixels", &v.MinPixels, scaled},
		{"max-tiles", &v.MaxTiles, tiled},
	}
}

func (v *Vision) setOption(text string) error {
	name, value, _ := strings.Cut(text, "=")
	for _, o := range v.options() {
		if o.name != name {
			continue
		}
		if *o.value != 0 {
			return fmt.Errorf("%s is given twice", name)
		}
		n, err := parsePositive(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*o.value = n
		return nil
	}
	return fmt.Errorf("unknown option %q: want max-pixels=N, min-pixels=N or max-tiles=N", text)
}

func parsePositive(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, strconv.IntSize-1)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a positive integer", s)
	}
	return int(n), nil
}

func orDefault(value, standard int) int {
	if value != 0 {
		return value
	}
	return standard
}
