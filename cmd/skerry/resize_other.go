//go:build !unix

package main

// watchResize does nothing where no signal tells of a change: the terminal
// keeps the size that it had at the start.
func watchResize(func()) (stop func()) { return func() {} }
