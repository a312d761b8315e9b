package tokens

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrImageFormat is wrapped in the error of [ImageSize] for data that is neither PNG, JPEG, WebP nor GIF.
var ErrImageFormat = errors.New("unknown image format: want PNG, JPEG, WebP or GIF")

// ImageSize reads the size in pixels from the header of a PNG, JPEG, WebP or GIF image. It decodes nothing, so data may
// be just the beginning of a file (for JPEG up to the frame header, which stands behind metadata and an embedded preview).
// It is the size as stored; an orientation tag is not applied. For an animation it is the size of the canvas.
//
// Errors wrap [ErrImageFormat] for another format and [io.ErrUnexpectedEOF] for data that ends before the size; others
// say what is wrong with the header. A size of zero is an error too.
func ImageSize(data []byte) (width, height int, err error) {
	name, size := sniff(data)
	if size == nil {
		if beginsSignature(data) {
			err = fmt.Errorf("only %d bytes: %w", len(data), io.ErrUnexpectedEOF)
		} else {
			err = fmt.Errorf("%w: data begins with % x", ErrImageFormat, data[:min(len(data), 12)])
		}
		return 0, 0, fmt.Errorf("tokens: image size: %w", err)
	}
	w, h, err := size(data)
	if err == nil && (w == 0 || h == 0) {
		err = fmt.Errorf("empty image: %dx%d pixels", w, h)
	}
	if err == nil && (w > maxSide || h > maxSide) {
		err = fmt.Errorf("image of %dx%d pixels: a side is over %d", w, h, maxSide)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("tokens: image size: %s: %w", name, err)
	}
	return int(w), int(h), nil
}

// signatures are the first bytes by which a format is known; a dot stands for any byte.
var signatures = [...]struct {
	name, start string
	size        func(data []byte) (width, height uint32, err error)
}{
	{"png", "\x89PNG\r\n\x1a\n", pngSize},
	{"jpeg", "\xff\xd8\xff", jpegSize},
	{"webp", "RIFF....WEBP", webpSize},
	{"gif", "GIF87a", gifSize},
	{"gif", "GIF89a", gifSize},
}

func sniff(data []byte) (name string, size func([]byte) (uint32, uint32, error)) {
	for _, s := range signatures {
		if len(data) >= len(s.start) && matches(data, s.start) {
			return s.name, s.size
		}
	}
	return "", nil
}

// beginsSignature reports whether data is a signature cut short.
func beginsSignature(data []byte) bool {
	for _, s := range signatures {
		if len(data) < len(s.start) && matches(data, s.start) {
			return true
		}
	}
	return false
}

// matches compares data with start as far as both go.
func matches(data []byte, start string) bool {
	for i := range min(len(data), len(start)) {
		if start[i] != '.' && start[i] != data[i] {
			return false
		}
	}
	return true
}

// pngSize reads IHDR, which the standard (PNG, third edition, 5.6) wants as the first chunk.
func pngSize(data []byte) (width, height uint32, err error) {
	if len(data) < 24 {
		return 0, 0, truncated(data, 24)
	}
	if string(data[12:16]) != "IHDR" {
		return 0, 0, fmt.Errorf("the first chunk is %q, not IHDR", data[12:16])
	}
	if n := binary.BigEndian.Uint32(data[8:]); n != 13 {
		return 0, 0, fmt.Errorf("IHDR is %d bytes long, not 13", n)
	}
	return binary.BigEndian.Uint32(data[16:]), binary.BigEndian.Uint32(data[20:]), nil
}

// gifSize reads the logical screen descriptor (GIF89a, section 18).
func gifSize(data []byte) (width, height uint32, err error) {
	if len(data) < 10 {
		return 0, 0, truncated(data, 10)
	}
	w, h := binary.LittleEndian.Uint16(data[6:]), binary.LittleEndian.Uint16(data[8:])
	return uint32(w), uint32(h), nil
}

// JPEG markers (ITU-T T.81, table B.1).
const (
	jpegTEM  = 0x01
	jpegSOF0 = 0xc0 // to 0xcf: frame headers, but for the three below
	jpegDHT  = 0xc4
	jpegJPG  = 0xc8
	jpegDAC  = 0xcc
	jpegRST0 = 0xd0
	jpegSOI  = 0xd8
	jpegEOI  = 0xd9
	jpegSOS  = 0xda
	jpegDHP  = 0xde // size of a hierarchical image, in the form of a frame header
)

// jpegSize walks over the segments up to the first frame header. Like libjpeg it steps over stray bytes between segments.
func jpegSize(data []byte) (width, height uint32, err error) {
	for i := 2; ; {
		for i < len(data) && data[i] != 0xff {
			i++
		}
		for i < len(data) && data[i] == 0xff { // any number of fill bytes may stand before a marker
			i++
		}
		if i >= len(data) {
			return 0, 0, fmt.Errorf("no frame header in %d bytes: %w", len(data), io.ErrUnexpectedEOF)
		}
		marker := data[i]
		i++
		switch {
		case marker == 0 || marker == jpegTEM || jpegRST0 <= marker && marker < jpegSOI:
			continue // stands alone, without a segment
		case marker == jpegSOI:
			return 0, 0, errors.New("a second start of image before the frame header")
		case marker == jpegEOI:
			return 0, 0, errors.New("the image ends without a frame header")
		case marker == jpegSOS:
			return 0, 0, errors.New("a scan begins before the frame header")
		}
		if len(data)-i < 2 {
			return 0, 0, fmt.Errorf("segment ff%02x at byte %d: no length: %w", marker, i-2, io.ErrUnexpectedEOF)
		}
		length := int(binary.BigEndian.Uint16(data[i:]))
		if length < 2 {
			return 0, 0, fmt.Errorf("segment ff%02x at byte %d: length %d is less than 2", marker, i-2, length)
		}
		if isFrameHeader(marker) {
			return jpegFrame(data[i:], length)
		}
		if length > len(data)-i {
			return 0, 0, fmt.Errorf("segment ff%02x at byte %d: %d of %d bytes: %w", marker, i-2, len(data)-i, length, io.ErrUnexpectedEOF)
		}
		i += length
	}
}

func isFrameHeader(marker byte) bool {
	switch marker {
	case jpegDHT, jpegJPG, jpegDAC:
		return false
	case jpegDHP:
		return true
	}
	return jpegSOF0 <= marker && marker < jpegRST0
}

// jpegFrame reads length, precision, height and width from a frame header.
func jpegFrame(seg []byte, length int) (width, height uint32, err error) {
	if length < 8 {
		return 0, 0, fmt.Errorf("frame header of %d bytes is too short", length)
	}
	if len(seg) < 7 {
		return 0, 0, fmt.Errorf("frame header: %d of %d bytes: %w", len(seg), length, io.ErrUnexpectedEOF)
	}
	h, w := binary.BigEndian.Uint16(seg[3:]), binary.BigEndian.Uint16(seg[5:])
	if h == 0 && w != 0 {
		return 0, 0, errors.New("the height is stated behind the first scan (DNL), which is not supported")
	}
	return uint32(w), uint32(h), nil
}

// webpSize reads the header of the first chunk: a lossy or lossless bitstream, or the canvas of the extended format.
// Sources: RFC 9649 (container and VP8L), RFC 6386 section 9.1 (VP8 key frame).
func webpSize(data []byte) (width, height uint32, err error) {
	if len(data) < 20 {
		return 0, 0, truncated(data, 20)
	}
	kind, size, body := string(data[12:16]), binary.LittleEndian.Uint32(data[16:]), data[20:]
	need := 10
	switch kind {
	case "VP8 ", "VP8X":
	case "VP8L":
		need = 5
	default:
		return 0, 0, fmt.Errorf("the first chunk is %q, not VP8, VP8L or VP8X", data[12:16])
	}
	if size < uint32(need) {
		return 0, 0, fmt.Errorf("%s chunk of %d bytes is too short", bytes.TrimSpace(data[12:16]), size)
	}
	if len(body) < need {
		return 0, 0, truncated(data, 20+need)
	}
	switch kind {
	case "VP8 ":
		if body[0]&1 != 0 {
			return 0, 0, errors.New("VP8: the first frame is not a key frame")
		}
		if string(body[3:6]) != "\x9d\x01\x2a" {
			return 0, 0, fmt.Errorf("VP8: start code % x is not 9d 01 2a", body[3:6])
		}
		w, h := binary.LittleEndian.Uint16(body[6:]), binary.LittleEndian.Uint16(body[8:])
		return uint32(w & 0x3fff), uint32(h & 0x3fff), nil // the upper two bits ask for scaling on display
	case "VP8L":
		if body[0] != 0x2f {
			return 0, 0, fmt.Errorf("VP8L: signature %#02x is not 0x2f", body[0])
		}
		bits := binary.LittleEndian.Uint32(body[1:])
		if version := bits >> 29; version != 0 {
			return 0, 0, fmt.Errorf("VP8L: version %d is not 0", version)
		}
		return bits&0x3fff + 1, bits>>14&0x3fff + 1, nil
	default: // VP8X: flags, three reserved bytes, both sides less one in 24 bits
		return uint24(body[4:]) + 1, uint24(body[7:]) + 1, nil
	}
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

func truncated(data []byte, need int) error {
	return fmt.Errorf("%d of %d header bytes: %w", len(data), need, io.ErrUnexpectedEOF)
}
