//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ask runs the program for one system call.
func ask(t *testing.T, prog []bpf.Instruction, archID, nr uint32, args ...uint64) uint32 {
	t.Helper()
	// bpf.VM loads in network order; the kernel in its own. Words are laid out
	// where the program looks for them.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], nr)
	binary.BigEndian.PutUint32(data[offArch:], archID)
	for i, a := range args {
		low, high := offArgs+8*i, offArgs+8*i+4
		binary.BigEndian.PutUint32(data[low:], uint32(a))
		binary.BigEndian.PutUint32(data[high:], uint32(a>>32))
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// judge is what the profile says, read the slow way.
func judge(p *specs.LinuxSeccomp, name string, args []uint64) uint32 {
	for _, s := range p.Syscalls {
		for _, n := range s.Names {
			if n != name {
				continue
			}
			holds := true
			for _, a := range s.Args {
				v := args[a.Index]
				switch a.Op {
				case specs.OpEqualTo:
					holds = holds && v == a.Value
				case specs.OpNotEqual:
					holds = holds && v != a.Value
				case specs.OpLessThan:
					holds = holds && v < a.Value
				case specs.OpLessEqual:
					holds = holds && v <= a.Value
				case specs.OpGreaterThan:
					holds = holds && v > a.Value
				case specs.OpGreaterEqual:
					holds = holds && v >= a.Value
				case specs.OpMaskedEqual:
					holds = holds && v&a.Value == a.ValueTwo
				}
			}
			if holds {
				r, _ := returnOf(s.Action, s.ErrnoRet)
				return r
			}
		}
	}
	r, _ := returnOf(p.DefaultAction, p.DefaultErrnoRet)
	return r
}

func TestStandardProfileAgreesWithItsRules(t *testing.T) {
	interesting := []uint64{0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 38, 40, 44, 45, 46, 0x20000, 0x20008, 0xffffffff, 0x100000000, 0x10000001, 0x7E020000, 0x10000000, 1<<63 + 40}
	for _, goarch := range architectures {
		profile := standardProfile(goarch)
		table, err := tableOf(goarch)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := assemble(profile, goarch)
		if err != nil {
			t.Fatal(err)
		}
		for name, nr := range table.SyscallNames {
			for _, v := range interesting {
				args := []uint64{v, v, v, 0, 0, 0}
				if got, want := ask(t, prog, uint32(table.ID), uint32(nr), args...), judge(profile, name, args); got != want {
					t.Errorf("%s %s(%#x): got %#x, want %#x", goarch, name, v, got, want)
				}
			}
		}
		for _, name := range []string{"keyctl", "add_key", "mount", "unshare", "setns", "bpf", "perf_event_open", "init_module", "kexec_load", "userfaultfd", "open_by_handle_at", "reboot", "chroot"} {
			if nr, ok := table.SyscallNames[name]; ok {
				if got := ask(t, prog, uint32(table.ID), uint32(nr), 0, 0, 0, 0, 0, 0); got>>16 != retErrno>>16 {
					t.Errorf("%s: %s is not refused: %#x", goarch, name, got)
				}
			}
		}
		if got := ask(t, prog, uint32(arch.I386.ID), 1); got != retKillProcess {
			t.Errorf("%s: a call of another architecture: got %#x, want it killed", goarch, got)
		}
	}
	prog, _ := assemble(standardProfile("amd64"), "amd64")
	if got, want := ask(t, prog, uint32(arch.X86_64.ID), x32Bit|1), uint32(retErrno|uint32(unix.ENOSYS)); got != want {
		t.Errorf("an x32 call: got %#x, want %#x", got, want)
	}
}

// What stands here for every architecture is what the library itself decides
// on this one.
func TestStandardProfileIsTheLibrarys(t *testing.T) {
	if !slices.Contains(architectures, runtime.GOARCH) {
		t.Skip(runtime.GOARCH)
	}
	theirs, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		t.Fatal(err)
	}
	if ours := standardProfile(runtime.GOARCH); !reflect.DeepEqual(ours.Syscalls, theirs.Syscalls) || ours.DefaultAction != theirs.DefaultAction {
		t.Error("they differ")
	}
}

func TestGeneratedProgramsAreUpToDate(t *testing.T) {
	for _, goarch := range architectures {
		want, err := Compile(standardProfile(goarch), goarch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "seccompbpf", fileName(goarch)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is generated now (go generate ./internal/seccompbpf): %v", fileName(goarch), err)
		}
	}
}

func TestOperators(t *testing.T) {
	ops := []specs.LinuxSeccompOperator{specs.OpEqualTo, specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpGreaterThan, specs.OpGreaterEqual, specs.OpMaskedEqual}
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func() uint64 {
		edges := []uint64{0, 1, 0xffffffff, 0x100000000, 0x1ffffffff, 1 << 63, ^uint64(0)}
		if rnd.IntN(2) == 0 {
			return edges[rnd.IntN(len(edges))]
		}
		return rnd.Uint64()
	}
	for _, goarch := range []string{"amd64", "arm64"} {
		table, _ := tableOf(goarch)
		nr := uint32(table.SyscallNames["socket"])
		for range 300 {
			var rules []specs.LinuxSyscall
			for range 1 + rnd.IntN(3) {
				s := specs.LinuxSyscall{Names: []string{"socket", "no_such_call"}, Action: specs.ActAllow}
				for i := range 1 + rnd.IntN(3) {
					s.Args = append(s.Args, specs.LinuxSeccompArg{Index: uint(i), Op: ops[rnd.IntN(len(ops))], Value: word(), ValueTwo: word()})
				}
				rules = append(rules, s)
			}
			p := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: rules}
			prog, err := assemble(p, goarch)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				args := []uint64{word(), word(), word(), 0, 0, 0}
				if rnd.IntN(2) == 0 {
					args[0] = rules[0].Args[0].Value
				}
				if got, want := ask(t, prog, uint32(table.ID), nr, args...), judge(p, "socket", args); got != want {
					t.Fatalf("%s %+v args %#x: got %#x, want %#x", goarch, rules, args, got, want)
				}
			}
		}
	}
}

func TestRefusesWhatItCannotSay(t *testing.T) {
	bad := []*specs.LinuxSeccomp{
		nil,
		{DefaultAction: "SCMP_ACT_NOTIFY"},
		{DefaultAction: specs.ActErrno, DefaultErrnoRet: new(uint(5000))},
		{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"socket"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 6, Op: specs.OpEqualTo}}}}},
		{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"socket"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Op: "?"}}}}},
	}
	for _, p := range bad {
		if _, err := Compile(p, "amd64"); err == nil {
			t.Errorf("%+v was compiled", p)
		}
	}
	if _, err := Compile(&specs.LinuxSeccomp{DefaultAction: specs.ActAllow}, "mips"); err == nil {
		t.Error("an architecture without a table was compiled")
	}
}
