//go:build linux

package keep

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The init and a keeper talk in packets over a socketpair (SOCK_SEQPACKET). A
// request to start travels in a memfd, because an environment is larger than
// a packet may be; everything else fits in one fixed packet.

// lineFD is where a keeper finds its end of the line.
const lineFD = 3

// MaxStartFDs bounds the files of one start: three streams and what a shell
// needs. SCM_RIGHTS takes no more than 253 in one packet.
const MaxStartFDs = 64

// Request is what a keeper is to run. Descriptors travel beside it, after
// the memfd that holds it.
type Request struct {
	Path string   `json:"path"` // of the program, found already
	Argv [][]byte `json:"argv"`
	Env  [][]byte `json:"env"`
	Dir  string   `json:"dir"`
	// FDs says at which number of the program each descriptor that was sent
	// appears; numbers that are not named are closed.
	FDs []int `json:"fds"`
	TTY bool  `json:"tty"` // descriptor 0 becomes the controlling terminal
	// Protect are the threads of other keepers, which the program may not
	// signal.
	Protect []int `json:"protect"`
}

// Opcode is the first byte of a packet.
type Opcode byte

// What a packet says.
const (
	OpStart  Opcode = 's' // to the keeper, with descriptors
	OpSignal Opcode = 'g' // to the keeper: arg is the signal, flag 1 is the tree
	OpKill   Opcode = 'k' // to the keeper: KILL to the tree until it is empty

	OpStarted Opcode = 'S' // from the keeper: arg is the pid
	OpFailed  Opcode = 'F' // from the keeper: arg is the errno, flag the step
	OpExited  Opcode = 'X' // from the keeper: arg is the wait status
	OpEmpty   Opcode = 'E' // from the keeper, the command's last packet: nothing of the tree is left
)

// Steps that can fail between a request and a running program.
const (
	StepRequest = iota // the keeper could not read it
	StepDefence
	StepDir
	StepExec
)

// Flags of OpExited.
const FlagSignalled = 1 // the keeper had sent a signal before the program ended

// Packet is one message. Which fields mean something depends on Op.
type Packet struct {
	Op     Opcode
	Flag   uint32
	Seq    int64 // of the command: a keeper serves one after another
	Arg    int64
	At     int64 // CLOCK_MONOTONIC nanoseconds
	CPUNS  int64 // of the whole tree as far as it was waited for
	MaxRSS int64 // bytes, the largest process
}

// PacketBytes is the size of every packet.
const PacketBytes = 1 + 4 + 5*8

// Marshal gives the packet as it travels.
func (p Packet) Marshal() []byte {
	b := make([]byte, 0, PacketBytes)
	b = append(b, byte(p.Op))
	b = binary.LittleEndian.AppendUint32(b, p.Flag)
	for _, v := range []int64{p.Seq, p.Arg, p.At, p.CPUNS, p.MaxRSS} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Unmarshal reads a packet.
func Unmarshal(b []byte) (Packet, error) {
	if len(b) != PacketBytes {
		return Packet{}, fmt.Errorf("packet of %d bytes, want %d", len(b), PacketBytes)
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[5+8*i:])) }
	return Packet{
		Op: Opcode(b[0]), Flag: binary.LittleEndian.Uint32(b[1:]),
		Seq: word(0), Arg: word(1), At: word(2), CPUNS: word(3), MaxRSS: word(4),
	}, nil
}

// Monotonic is CLOCK_MONOTONIC, which the init and its keepers share.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// Memfd gives an unlinked file in memory that holds data, read from its start.
func Memfd(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	for off := 0; off < len(data); {
		n, err := syscall.Pwrite(fd, data[off:], int64(off))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("memfd: %w", err)
		}
		off += n
	}
	return f, nil
}

// SealedMemfd is Memfd for user code, which can't change it.
func SealedMemfd(name string, data []byte) (*os.File, error) {
	f, err := Memfd(name, data)
	if err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd: %w", err)
	}
	return f, nil
}

// readMemfd reads all of a memfd that the init made.
func readMemfd(fd int, v any) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	data := make([]byte, st.Size)
	for off := 0; off < len(data); {
		n, err := syscall.Pread(fd, data[off:], int64(off))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("request cut short")
		}
		off += n
	}
	return json.Unmarshal(data, v)
}
