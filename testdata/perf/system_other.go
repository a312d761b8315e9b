//go:build !linux

package main

import (
	"errors"
	"time"
)

var errLinux = errors.New("speed is measured on Linux only: processes are held on one processor each, and their time and memory are read from /proc")

func cpus() ([]int, error)                  { return nil, errLinux }
func onCPU(int, func() error) error         { return errLinux }
func processorTime() (time.Duration, error) { return 0, errLinux }
func resident() (int64, error)              { return 0, errLinux }
func clock() int64                          { return 0 }
func loadAverage() string                   { return "unknown" }
func cpuModel() string                      { return "unknown" }
