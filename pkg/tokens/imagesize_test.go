package tokens

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var testSizes = [][2]int{{1, 1}, {1, 300}, {255, 256}, {800, 1024}, {1280, 720}, {4099, 3}}

type encoder func(w io.Writer, m image.Image) error

var encoders = map[string]encoder{
	"png":  png.Encode,
	"jpeg": func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) },
	"gif":  func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) },
}

func encoded(tb testing.TB, format string, width, height int) []byte {
	tb.Helper()
	var b bytes.Buffer
	m := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	require.NoError(tb, encoders[format](&b, m))
	return b.Bytes()
}

// webp builds a container around one chunk.
func webp(kind string, body ...byte) []byte {
	b := []byte("RIFF\x00\x00\x00\x00WEBP" + kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, body...)
	if len(body)%2 == 1 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

func webpLossy(width, height int) []byte {
	body := []byte{0x10, 0, 0, 0x9d, 0x01, 0x2a} // key frame, version 0, shown; then the start code
	body = binary.LittleEndian.AppendUint16(body, uint16(width))
	return webp("VP8 ", binary.LittleEndian.AppendUint16(body, uint16(height))...)
}

func webpLossless(width, height int, alpha bool) []byte {
	bits := uint32(width-1) | uint32(height-1)<<14
	if alpha {
		bits |= 1 << 28
	}
	return webp("VP8L", binary.LittleEndian.AppendUint32([]byte{0x2f}, bits)...)
}

func webpExtended(width, height int) []byte {
	w, h := width-1, height-1
	return webp("VP8X", 0x10, 0, 0, 0, byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16))
}

func requireSize(t *testing.T, data []byte, width, height int) {
	t.Helper()
	w, h, err := ImageSize(data)
	require.NoError(t, err)
	require.Equal(t, [2]int{width, height}, [2]int{w, h})
}

func TestImageSizeOfEncodedImages(t *testing.T) {
	for format := range encoders {
		for _, s := range testSizes {
			data := encoded(t, format, s[0], s[1])
			requireSize(t, data, s[0], s[1])
			requireSize(t, append(data, "trailing"...), s[0], s[1])
		}
	}
	requireSize(t, []byte("GIF87a\x02\x01\x04\x03"), 0x102, 0x304)
	requireSize(t, []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x7f\xff\xff\xff\x00\x00\x00\x01"), maxSide, 1)
}

func TestImageSizeWebP(t *testing.T) {
	for _, s := range append(slices.Clone(testSizes), [2]int{16383, 16383}) {
		requireSize(t, webpLossy(s[0], s[1]), s[0], s[1])
		requireSize(t, webpLossless(s[0], s[1], false), s[0], s[1])
		requireSize(t, webpLossless(s[0], s[1], true), s[0], s[1])
		requireSize(t, webpExtended(s[0], s[1]), s[0], s[1])
	}
	requireSize(t, webpLossless(16384, 1, true), 16384, 1)
	requireSize(t, webpExtended(1<<24, 77777), 1<<24, 77777)
	requireSize(t, webpLossy(1280|1<<14, 720|3<<14), 1280, 720) // display scaling is not part of the size
}

// jpegOf builds a JPEG header: start of image and the given parts.
func jpegOf(parts ...string) []byte {
	b := []byte("\xff\xd8")
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func jpegSegment(marker byte, body string) string {
	n := len(body) + 2
	return "\xff" + string([]byte{marker, byte(n >> 8), byte(n)}) + body
}

const frame640x480 = "\x08\x01\xe0\x02\x80\x01\x01\x11\x00"

func TestImageSizeJPEGSegments(t *testing.T) {
	frame := jpegSegment(0xc0, frame640x480)
	decoy := jpegSegment(0xc0, "\x08\x00\x01\x00\x01\x01\x01\x11\x00")
	long := string(make([]byte, 65533))
	for name, parts := range map[string][]string{
		"frame at once":           {frame},
		"application data":        {jpegSegment(0xe0, "JFIF\x00"), jpegSegment(0xe1, "Exif\x00\x00"), frame},
		"preview inside metadata": {jpegSegment(0xe1, "\xff\xd8"+decoy), frame},
		"longest segment":         {jpegSegment(0xed, long), jpegSegment(0xfe, long), frame},
		"empty segment":           {jpegSegment(0xfe, ""), frame},
		"tables in front":         {jpegSegment(0xdb, "q"), jpegSegment(0xc4, decoy), jpegSegment(0xcc, decoy), jpegSegment(0xc8, decoy), jpegSegment(0xdd, "\x00\x01"), frame},
		"fill bytes":              {"\xff\xff\xff", jpegSegment(0xe0, "x"), "\xff", frame},
		"markers without segment": {"\xff\x01", "\xff\xd0\xff\xd7", frame},
		"stuffed and stray bytes": {"\xff\x00", "stray", frame},
		"first frame counts":      {frame, decoy},
		"hierarchical":            {jpegSegment(0xde, frame640x480), decoy},
	} {
		t.Run(name, func(t *testing.T) { requireSize(t, jpegOf(parts...), 640, 480) })
	}
	for marker := byte(0xc0); marker <= 0xcf; marker++ {
		if marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
			requireSize(t, jpegOf(jpegSegment(marker, frame640x480)), 640, 480)
		}
	}
	requireSize(t, jpegOf(jpegSegment(0xc2, "\x08\xff\xff\xff\xfe\x03")), 65534, 65535)
}

func TestImageSizeErrors(t *testing.T) {
	bad := func(data []byte, at int, b byte) []byte {
		data = slices.Clone(data)
		data[at] = b
		return data
	}
	pngData := encoded(t, "png", 640, 480)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"png other chunk", bad(pngData, 12, 'X'), `png: the first chunk is "XHDR", not IHDR`},
		{"png chunk length", bad(pngData, 11, 12), "png: IHDR is 12 bytes long, not 13"},
		{"png no width", bad(bad(pngData, 18, 0), 19, 0), "png: empty image: 0x480 pixels"},
		{"png no height", bad(bad(pngData, 22, 0), 23, 0), "png: empty image: 640x0 pixels"},
		{"png width over 31 bits", bad(pngData, 16, 0x80), "png: image of 2147484288x480 pixels: a side is over 2147483647"},
		{"gif empty", []byte("GIF89a\x00\x00\x05\x00"), "gif: empty image: 0x5 pixels"},
		{"jpeg end", jpegOf("\xff\xd9"), "jpeg: the image ends without a frame header"},
		{"jpeg scan", jpegOf(jpegSegment(0xda, "x")), "jpeg: a scan begins before the frame header"},
		{"jpeg twice", jpegOf("\xff\xd8"), "jpeg: a second start of image"},
		{"jpeg segment length", jpegOf("\xff\xe0\x00\x01"), "jpeg: segment ffe0 at byte 2: length 1 is less than 2"},
		{"jpeg frame length", jpegOf(jpegSegment(0xc0, "\x08\x01\xe0\x02\x80")), "jpeg: frame header of 7 bytes is too short"},
		{"jpeg later height", jpegOf(jpegSegment(0xc0, "\x08\x00\x00\x02\x80\x01")), "jpeg: the height is stated behind the first scan (DNL)"},
		{"jpeg empty", jpegOf(jpegSegment(0xc0, "\x08\x00\x05\x00\x00\x01")), "jpeg: empty image: 0x5 pixels"},
		{"webp chunk", webp("ALPH", make([]byte, 10)...), `webp: the first chunk is "ALPH"`},
		{"webp lossy chunk size", bad(webpLossy(8, 8), 16, 9), "webp: VP8 chunk of 9 bytes is too short"},
		{"webp lossless chunk size", bad(webpLossless(8, 8, false), 16, 4), "webp: VP8L chunk of 4 bytes is too short"},
		{"webp extended chunk size", bad(webpExtended(8, 8), 16, 0), "webp: VP8X chunk of 0 bytes is too short"},
		{"webp lossy later frame", bad(webpLossy(8, 8), 20, 0x11), "webp: VP8: the first frame is not a key frame"},
		{"webp lossy start code", bad(webpLossy(8, 8), 24, 2), "webp: VP8: start code 9d 02 2a is not 9d 01 2a"},
		{"webp lossy empty", webpLossy(0, 8), "webp: empty image: 0x8 pixels"},
		{"webp lossless signature", bad(webpLossless(8, 8, false), 20, 0x2e), "webp: VP8L: signature 0x2e is not 0x2f"},
		{"webp lossless version", bad(webpLossless(8, 8, false), 24, 0x20), "webp: VP8L: version 1 is not 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, h, err := ImageSize(c.data)
			require.ErrorContains(t, err, "tokens: image size: "+c.want)
			require.Zero(t, w)
			require.Zero(t, h)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NotErrorIs(t, err, ErrImageFormat)
		})
	}
}

func TestImageSizeUnknownFormat(t *testing.T) {
	for _, data := range []string{
		"hello", "x", "BM6\x00\x00\x00", "GIF90a\x01\x00\x01\x00", "RIFF\x04\x00\x00\x00AVI ", "\x89PNG\n\n", "\xff\xd9\xff",
		"<svg xmlns='http://www.w3.org/2000/svg'/>", "%PDF-1.7", "II*\x00", "\x00\x00\x00\x1cftypavif",
	} {
		_, _, err := ImageSize([]byte(data))
		require.ErrorIs(t, err, ErrImageFormat, "%q", data)
	}
}

// Cut anywhere, a file gives its size or says that it is cut; the more there is of it, the more is known.
func TestImageSizeTruncated(t *testing.T) {
	_, _, err := ImageSize(nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for name, c := range map[string]struct {
		data []byte
		need int // bytes after which the size is known
	}{
		"png":           {encoded(t, "png", 31, 17), 24},
		"gif":           {encoded(t, "gif", 31, 17), 10},
		"jpeg":          {jpegOf("\xff", jpegSegment(0xe0, "JFIF"), jpegSegment(0xc0, "\x08\x00\x11\x00\x1f\x01\x01\x11\x00")), 20},
		"webp lossy":    {webpLossy(31, 17), 30},
		"webp lossless": {webpLossless(31, 17, true), 25},
		"webp extended": {webpExtended(31, 17), 30},
	} {
		for n := range c.data {
			if n < c.need {
				_, _, err := ImageSize(c.data[:n])
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s cut at %d", name, n)
			} else {
				requireSize(t, c.data[:n], 31, 17)
			}
		}
		requireSize(t, c.data, 31, 17)
	}
}

func TestImageSizeDoesNotAllocate(t *testing.T) {
	for _, data := range [][]byte{encoded(t, "png", 9, 9), encoded(t, "jpeg", 9, 9), encoded(t, "gif", 9, 9), webpLossy(9, 9)} {
		require.Zero(t, testing.AllocsPerRun(20, func() { _, _, _ = ImageSize(data) }))
	}
}

func FuzzImageSize(f *testing.F) {
	for format := range encoders {
		f.Add(encoded(f, format, 31, 17))
	}
	f.Add(webpLossy(31, 17))
	f.Add(webpLossless(31, 17, true))
	f.Add(webpExtended(31, 17))
	f.Add(jpegOf("\xff\xff", jpegSegment(0xe1, "Exif"), "\xff\x01", jpegSegment(0xc2, frame640x480)))
	f.Add([]byte{})
	f.Add([]byte("RIFF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, h, err := ImageSize(data)
		if config, _, stdErr := image.DecodeConfig(bytes.NewReader(data)); stdErr == nil && config.Width > 0 && config.Height > 0 {
			require.NoError(t, err, "the standard library reads it")
			require.Equal(t, [2]int{config.Width, config.Height}, [2]int{w, h})
		}
		if err != nil {
			require.Zero(t, w)
			require.Zero(t, h)
			return
		}
		require.Positive(t, w)
		require.Positive(t, h)
		requireSize(t, append(slices.Clone(data), 0xff, 0xc0, 0, 8, 8, 0, 1, 0, 1), w, h)
	})
}
