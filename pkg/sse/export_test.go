package sse

// Held is the number of bytes that r's buffers hold.
func Held(r *Reader) int { return cap(r.buf) + cap(r.data) }

// Types is the number of event types that r remembers.
func Types(r *Reader) int { return len(r.types) }
