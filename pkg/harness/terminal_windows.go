package harness

import (
	"os"

	"golang.org/x/sys/windows"
)

// openTTY opens the console, and has it obey escape sequences.
func openTTY() (*os.File, error) {
	f, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	console := windows.Handle(f.Fd())
	var mode uint32
	if err = windows.GetConsoleMode(console, &mode); err == nil {
		err = windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ttyWidth is the number of columns of the console's window.
func ttyWidth(f *os.File) (columns int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
