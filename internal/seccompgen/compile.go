//go:build linux

// Command seccompgen compiles the seccomp profile that container engines use by
// default to the classic BPF programs in internal/seccompbpf, one for each
// architecture. Run it with go generate ./internal/seccompbpf.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	maxInstructions = 4096 // BPF_MAXINSNS
	x32Bit          = 0x40000000
	retErrno        = 0x00050000
	retAllow        = 0x7fff0000
	retKillProcess  = 0x80000000
	retKillThread   = 0x00000000
	retTrap         = 0x00030000
	retLog          = 0x7ffc0000
)

// Compile gives the program for profile in the form that bwrap --seccomp
// reads: an array of struct sock_filter in little-endian byte order. A system
// call of another architecture kills its process, whatever the profile says of
// sub-architectures: one table is all that is kept true. Names that the
// architecture does not have are left out.
func Compile(profile *specs.LinuxSeccomp, goarch string) ([]byte, error) {
	prog, err := assemble(profile, goarch)
	if err != nil {
		return nil, fmt.Errorf("compile seccomp profile: %w", err)
	}
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp profile: %w", err)
	}
	var out bytes.Buffer
	for _, i := range raw {
		// struct sock_filter has no padding: 2+1+1+4 bytes.
		if err := binary.Write(&out, binary.LittleEndian, i); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// call is what the profile says about one system call, in its order.
type call struct {
	number uint32
	rules  []rule
}

type rule struct {
	ret  uint32
	args []specs.LinuxSeccompArg
}

func assemble(profile *specs.LinuxSeccomp, goarch string) ([]bpf.Instruction, error) {
	if profile == nil {
		return nil, fmt.Errorf("there is none")
	}
	table, err := tableOf(goarch)
	if err != nil {
		return nil, err
	}
	fallback, err := returnOf(profile.DefaultAction, profile.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}
	plain, conditional, err := sortCalls(profile, table, fallback)
	if err != nil {
		return nil, err
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(table.ID), SkipTrue: 1},
		bpf.RetConstant{Val: retKillProcess},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	if goarch == "amd64" {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
			bpf.RetConstant{Val: retErrno | uint32(unix.ENOSYS)})
	}
	for _, r := range ranges(plain) {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: r.first, SkipFalse: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: r.last, SkipTrue: 1},
			bpf.RetConstant{Val: r.ret})
	}
	for _, c := range conditional {
		body, err := c.body(fallback)
		if err != nil {
			return nil, err
		}
		// The distance may not fit the 8 bits of a conditional jump.
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.number, SkipTrue: 1},
			bpf.Jump{Skip: uint32(len(body))})
		p = append(p, body...)
	}
	p = append(p, bpf.RetConstant{Val: fallback})
	if len(p) > maxInstructions {
		return nil, fmt.Errorf("it has %d instructions, Linux takes at most %d", len(p), maxInstructions)
	}
	return p, nil
}

// sortCalls parts what is decided by the number alone from what depends on
// arguments. For one system call the first rule that holds wins, as long as it
// differs from the fallback.
func sortCalls(profile *specs.LinuxSeccomp, table *arch.Info, fallback uint32) (plain map[uint32]uint32, conditional []call, err error) {
	byNumber := map[uint32]*call{}
	for _, s := range profile.Syscalls {
		ret, err := returnOf(s.Action, s.ErrnoRet)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range s.Names {
			n, ok := table.SyscallNames[name]
			if !ok {
				continue
			}
			c := byNumber[uint32(n)]
			if c == nil {
				c = &call{number: uint32(n)}
				byNumber[uint32(n)] = c
			}
			c.rules = append(c.rules, rule{ret: ret, args: s.Args})
		}
	}
	plain = map[uint32]uint32{}
	for n, c := range byNumber {
		if always := slices.IndexFunc(c.rules, func(r rule) bool { return len(r.args) == 0 }); always >= 0 {
			c.rules = c.rules[:always+1]
		}
		if len(c.rules[0].args) == 0 {
			if c.rules[0].ret != fallback {
				plain[n] = c.rules[0].ret
			}
			continue
		}
		conditional = append(conditional, *c)
	}
	slices.SortFunc(conditional, func(a, b call) int { return int(a.number) - int(b.number) })
	return plain, conditional, nil
}

type span struct{ first, last, ret uint32 }

// ranges joins neighbours of the same fate, in ascending order.
func ranges(plain map[uint32]uint32) []span {
	numbers := make([]uint32, 0, len(plain))
	for n := range plain {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var out []span
	for _, n := range numbers {
		if k := len(out) - 1; k >= 0 && out[k].last+1 == n && out[k].ret == plain[n] {
			out[k].last = n
			continue
		}
		out = append(out, span{n, n, plain[n]})
	}
	return out
}

// body decides one call; it always returns.
func (c call) body(fallback uint32) ([]bpf.Instruction, error) {
	var p []bpf.Instruction
	for _, r := range c.rules {
		var tests []bpf.Instruction
		for i := len(r.args) - 1; i >= 0; i-- { // from the last, so that the distance to the end is known
			t, err := compare(r.args[i], len(tests)+1)
			if err != nil {
				return nil, err
			}
			tests = append(t, tests...)
		}
		p = append(append(p, tests...), bpf.RetConstant{Val: r.ret})
	}
	return append(p, bpf.RetConstant{Val: fallback}), nil
}

// compare falls through when a holds and else skips rest more instructions.
func compare(a specs.LinuxSeccompArg, rest int) ([]bpf.Instruction, error) {
	const words = 6
	if a.Index >= words {
		return nil, fmt.Errorf("argument %d: a system call has %d", a.Index, words)
	}
	lowOff, highOff := offArgs+8*uint32(a.Index), offArgs+8*uint32(a.Index)+4
	high, low := uint32(a.Value>>32), uint32(a.Value&math.MaxUint32)
	load := func(off uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: 4} }
	// Each form is written with labels: yes is the end, no is rest further.
	type jump struct {
		cond    bpf.JumpTest
		val     uint32
		yes, no string // "", "yes" or "no"; "" is the next instruction
	}
	var seq []any
	switch a.Op {
	case specs.OpEqualTo:
		seq = []any{load(highOff), jump{bpf.JumpEqual, high, "", "no"}, load(lowOff), jump{bpf.JumpEqual, low, "yes", "no"}}
	case specs.OpNotEqual:
		seq = []any{load(highOff), jump{bpf.JumpEqual, high, "", "yes"}, load(lowOff), jump{bpf.JumpEqual, low, "no", "yes"}}
	case specs.OpMaskedEqual: // Value is the mask, ValueTwo what must be left
		seq = []any{
			load(highOff), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: high}, jump{bpf.JumpEqual, uint32(a.ValueTwo >> 32), "", "no"},
			load(lowOff), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: low}, jump{bpf.JumpEqual, uint32(a.ValueTwo & math.MaxUint32), "yes", "no"}}
	case specs.OpGreaterThan, specs.OpGreaterEqual:
		last := bpf.JumpGreaterThan
		if a.Op == specs.OpGreaterEqual {
			last = bpf.JumpGreaterOrEqual
		}
		seq = []any{load(highOff), jump{bpf.JumpGreaterThan, high, "yes", ""}, jump{bpf.JumpEqual, high, "", "no"}, load(lowOff), jump{last, low, "yes", "no"}}
	case specs.OpLessThan, specs.OpLessEqual:
		last := bpf.JumpGreaterOrEqual
		if a.Op == specs.OpLessEqual {
			last = bpf.JumpGreaterThan
		}
		seq = []any{load(highOff), jump{bpf.JumpGreaterThan, high, "no", ""}, jump{bpf.JumpEqual, high, "", "yes"}, load(lowOff), jump{last, low, "no", "yes"}}
	default:
		return nil, fmt.Errorf("unknown operator %q", a.Op)
	}
	out := make([]bpf.Instruction, len(seq))
	for i, s := range seq {
		j, ok := s.(jump)
		if !ok {
			out[i] = s.(bpf.Instruction)
			continue
		}
		left := len(seq) - 1 - i
		skip := func(label string) (uint8, error) {
			n := map[string]int{"": 0, "yes": left, "no": left + rest}[label]
			if n > math.MaxUint8 {
				return 0, fmt.Errorf("a rule has too many conditions")
			}
			return uint8(n), nil
		}
		yes, err := skip(j.yes)
		if err != nil {
			return nil, err
		}
		no, err := skip(j.no)
		if err != nil {
			return nil, err
		}
		out[i] = bpf.JumpIf{Cond: j.cond, Val: j.val, SkipTrue: yes, SkipFalse: no}
	}
	return out, nil
}

func returnOf(a specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	switch a {
	case specs.ActAllow:
		return retAllow, nil
	case specs.ActErrno:
		n := uint32(unix.EPERM)
		if errno != nil {
			if *errno > 4095 {
				return 0, fmt.Errorf("error number %d is above 4095", *errno)
			}
			n = uint32(*errno)
		}
		return retErrno | n, nil
	case specs.ActKill, specs.ActKillThread:
		return retKillThread, nil
	case specs.ActKillProcess:
		return retKillProcess, nil
	case specs.ActTrap:
		return retTrap, nil
	case specs.ActLog:
		return retLog, nil
	}
	return 0, fmt.Errorf("action %q is not supported", a)
}

func tableOf(goarch string) (*arch.Info, error) {
	switch goarch {
	case "amd64":
		return arch.X86_64, nil
	case "arm64":
		return arch.AARCH64, nil
	}
	return nil, fmt.Errorf("there is no table of system calls for %s", goarch)
}
