package harness

import (
	"time"

	"golang.org/x/sys/windows"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// processTime is the processor time of this process so far, user and system. Windows
// counts it in ticks of the scheduler, some 15 ms.
func processTime() client.Dur {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return client.Dur{}
	}
	span := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
	}
	return api.Some(span(kernel) + span(user))
}
