//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// at gives the value that the given part of all is below; 0.5 is the median.
func at(times []time.Duration, part float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

func median(times []time.Duration) time.Duration { return at(times, 0.5) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

// timed calls f and gives how long it took.
func timed(f func() error) (time.Duration, error) {
	t := time.Now()
	err := f()
	return time.Since(t), err
}
