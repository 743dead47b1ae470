package config

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
)

// Bounds on single values; more is a slip of the keyboard.
const (
	maxBytes    = int64(1) << 50
	maxMilliCPU = 1024 * 1000
	maxPIDs     = int64(1) << 22 // the most that Linux can have
	maxWord     = 64             // characters of a number, a size or a duration
)

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"", 1},
}

// ParseBytes reads a size as Kubernetes writes it: 512Mi, 1.5Gi, 500M,
// 1000000. It is more than 0 and a whole number of bytes.
func ParseBytes(s string) (int64, error) {
	n, err := quantity(s, byteUnitFactor)
	if err != nil || n < 1 || n > maxBytes {
		return 0, skerry.Errorf(skerry.Invalid, "", "%q is not a size", s).WithHint("write bytes with a unit: 512Mi, 1Gi, 500M or 1000000; more than 0")
	}
	return n, nil
}

// ParseMilliCPU reads cores as Kubernetes writes them: 0.5, 500m, 2. It gives
// thousandths of a core.
func ParseMilliCPU(s string) (int64, error) {
	n, err := quantity(s, func(s string) (string, int64) {
		if number, ok := strings.CutSuffix(s, "m"); ok {
			return number, 1
		}
		return s, 1000
	})
	if err != nil || n < 1 || n > maxMilliCPU {
		return 0, skerry.Errorf(skerry.Invalid, "", "%q is not a number of cores", s).WithHint("write cores or thousandths of one: 0.5, 500m or 2; more than 0")
	}
	return n, nil
}

// ParseDuration reads a time: 90s, 2m, 1h30m, or a whole number of seconds. It
// is at least a millisecond and at most skerry.MaxDuration.
func ParseDuration(s string) (time.Duration, error) {
	bad := func(format string, args ...any) (time.Duration, error) {
		return 0, skerry.Errorf(skerry.Invalid, "", format, args...).WithHint("write a time with its unit, for example 90s, 2m or 1h30m; from 1ms to %s", FormatDuration(skerry.MaxDuration))
	}
	if len(s) > maxWord {
		return bad("a duration of %d characters is none", len(s))
	}
	d, err := time.ParseDuration(s)
	if seconds, e := strconv.ParseInt(s, 10, 64); e == nil {
		if seconds > int64(skerry.MaxDuration/time.Second) {
			return bad("%s seconds are too long", s)
		}
		d, err = time.Duration(seconds)*time.Second, nil
	}
	switch {
	case err != nil:
		return bad("%q is not a duration", s)
	case d < 0:
		return bad("%q is negative", s)
	case d == 0:
		return bad("%q is no time at all: 0 does not mean \"no limit\"", s)
	case d < time.Millisecond:
		return bad("%q is too short", s)
	case d > skerry.MaxDuration:
		return bad("%q is too long", s)
	}
	return d, nil
}

// parsePause is ParseDuration for settings where 0 is meant, as none.
func parsePause(s string) (time.Duration, error) {
	if s == "0" || s == "0s" {
		return 0, nil
	}
	return ParseDuration(s)
}

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxPIDs {
		return 0, skerry.Errorf(skerry.Invalid, "", "%q is not a number from 1 to %d", s, maxPIDs)
	}
	return n, nil
}

func byteUnitFactor(s string) (number string, factor int64) {
	for _, u := range byteUnits {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			return number, u.factor
		}
	}
	return s, 1
}

// quantity multiplies exactly, in rationals, so that 0.1 of a Gi is refused
// instead of being rounded.
func quantity(s string, unit func(string) (string, int64)) (int64, error) {
	if len(s) > maxWord {
		return 0, fmt.Errorf("%d characters", len(s))
	}
	number, factor := unit(s)
	for _, c := range number {
		if c != '.' && (c < '0' || c > '9') {
			return 0, fmt.Errorf("unexpected %q", c)
		}
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("not a number")
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, fmt.Errorf("not a whole number")
	}
	return r.Num().Int64(), nil
}

// FormatBytes writes n with the largest binary unit that keeps it whole.
func FormatBytes(n int64) string {
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"Gi", skerry.GiB}, {"Mi", skerry.MiB}, {"Ki", skerry.KiB}} {
		if n != 0 && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// FormatMilliCPU writes whole cores as such, else thousandths with an m.
func FormatMilliCPU(n int64) string {
	if n%1000 == 0 {
		return strconv.FormatInt(n/1000, 10)
	}
	return strconv.FormatInt(n, 10) + "m"
}

// FormatDuration writes d without units that are zero: 4h, 1m30s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
