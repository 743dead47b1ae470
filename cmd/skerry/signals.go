package main

import (
	"strconv"
	"strings"

	"github.com/skerry-run/skerry"
)

// signalNames are Linux's: sandboxes are Linux whatever this machine is.
var signalNames = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "CHLD": 17, "CONT": 18,
	"STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26,
	"PROF": 27, "WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31,
}

const lastSignal = 64

func signalName(n int) string {
	for name, number := range signalNames {
		if number == n {
			return "SIG" + name
		}
	}
	return "signal " + strconv.Itoa(n)
}

// parseSignal reads TERM, SIGTERM or 15.
func parseSignal(s string) (int, error) {
	if n, ok := signalNames[strings.TrimPrefix(strings.ToUpper(s), "SIG")]; ok {
		return n, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= lastSignal {
		return n, nil
	}
	return 0, skerry.Errorf(skerry.Invalid, "--signal", "%q is no signal", s).WithHint("use a name or a number, for example TERM or 15")
}
