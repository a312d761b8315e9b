//go:build !unix

package h1

import "syscall"

func (s *socket) useRaw(syscall.Conn) {}

func (s *socket) peek() (pending, ended bool) { return false, false }

type kernelStamp struct{}

func (s *socket) askKernel() {}
