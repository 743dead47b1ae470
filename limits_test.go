package skerry_test

import (
	"math"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestTheZeroLimitsAreTheDefaults(t *testing.T) {
	if got := (skerry.Limits{}).OrDefaults(skerry.DefaultLimits); got != skerry.DefaultLimits {
		t.Errorf("got %+v", got)
	}
	if err := (skerry.Limits{}).Validate(); err != nil {
		t.Error(err)
	}
	all := skerry.Limits{1, 2, 3, 4, 5, 6, 7, 8}
	if got := all.OrDefaults(skerry.DefaultLimits); got != all {
		t.Errorf("got %+v, want %+v", got, all)
	}
}

func TestADefaultRequestIsNeverAboveItsLimit(t *testing.T) {
	l := skerry.Limits{MemoryBytes: 32 * skerry.MiB, MilliCPU: 20}
	got := l.OrDefaults(skerry.DefaultLimits)
	if got.MemoryRequestBytes != 32*skerry.MiB || got.MilliCPURequest != 20 {
		t.Errorf("requests are %d and %d", got.MemoryRequestBytes, got.MilliCPURequest)
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
}

func TestLimitsThatCanNotWorkAreInvalid(t *testing.T) {
	for name, set := range map[string]func(*skerry.Limits, int64){
		"memory":         func(l *skerry.Limits, n int64) { l.MemoryBytes = n },
		"cpu":            func(l *skerry.Limits, n int64) { l.MilliCPU = n },
		"memory request": func(l *skerry.Limits, n int64) { l.MemoryRequestBytes = n },
		"cpu request":    func(l *skerry.Limits, n int64) { l.MilliCPURequest = n },
		"pids":           func(l *skerry.Limits, n int64) { l.PIDs = n },
		"workspace":      func(l *skerry.Limits, n int64) { l.WorkspaceBytes = n },
		"tmp":            func(l *skerry.Limits, n int64) { l.TmpBytes = n },
		"shm":            func(l *skerry.Limits, n int64) { l.ShmBytes = n },
	} {
		for _, n := range []int64{-1, math.MinInt64, math.MaxInt64} {
			var l skerry.Limits
			set(&l, n)
			if err := l.Validate(); skerry.KindOf(err) != skerry.Invalid {
				t.Errorf("%s of %d gave %v, want invalid", name, n, err)
			}
		}
	}
	for _, l := range []skerry.Limits{
		{MemoryBytes: skerry.MiB}, {MilliCPU: 1}, {PIDs: 1}, {WorkspaceBytes: 1}, {TmpBytes: 1}, {ShmBytes: 1},
		{MemoryBytes: 64 * skerry.MiB, MemoryRequestBytes: 65 * skerry.MiB}, {MilliCPU: 100, MilliCPURequest: 101},
	} {
		if err := l.Validate(); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%+v gave %v, want invalid", l, err)
		}
	}
}
