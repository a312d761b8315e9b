package freelist

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestList(t *testing.T) {
	made := 0
	l := List[*int]{New: func() *int { made++; v := made; return &v }}
	a, b := l.Get(), l.Get()
	require.Equal(t, []int{1, 2}, []int{*a, *b})
	l.Put(a)
	l.Put(b)
	runtime.GC()
	runtime.GC()
	require.Same(t, b, l.Get(), "the last put, whatever the collector did")
	require.Same(t, a, l.Get())
	require.Equal(t, 3, *l.Get())
	for range 2 * max {
		l.Put(a)
	}
	require.Len(t, l.free, max)
}

func TestReserve(t *testing.T) {
	made := 0
	l := List[int]{New: func() int { made++; return made }}
	l.Reserve(3)
	l.Reserve(2)
	require.Equal(t, 3, made)
	l.Get()
	l.Reserve(3)
	require.Equal(t, 4, made)
	l.Reserve(10 * max)
	require.Len(t, l.free, max)
}

// No value has two users.
func TestListConcurrently(t *testing.T) {
	l := List[*sync.Mutex]{New: func() *sync.Mutex { return new(sync.Mutex) }}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m := l.Get()
				if !m.TryLock() {
					t.Error("somebody else has it")
				}
				m.Unlock()
				l.Put(m)
			}
		})
	}
	wg.Wait()
}
