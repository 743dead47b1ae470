//go:build linux

package initd

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The init and a keeper talk in packets over a socketpair (SOCK_SEQPACKET). A
// request to start travels in a memfd, because an environment is larger than
// a packet may be; everything else fits in one fixed packet.

// keepFD is where a keeper finds its end of the line.
const keepFD = 3

// maxStartFDs bounds the files of one start: three streams and what a shell
// needs. SCM_RIGHTS takes no more than 253 in one packet.
const maxStartFDs = 64

// keepRequest is what a keeper is to run. Descriptors travel beside it, after
// the memfd that holds it.
type keepRequest struct {
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

// opcode is the first byte of a packet.
type opcode byte

const (
	opStart  opcode = 's' // to the keeper, with descriptors
	opSignal opcode = 'g' // to the keeper: arg is the signal, flag 1 is the tree
	opKill   opcode = 'k' // to the keeper: KILL to the tree until it is empty

	opStarted opcode = 'S' // from the keeper: arg is the pid
	opFailed  opcode = 'F' // from the keeper: arg is the errno, flag the step
	opExited  opcode = 'X' // from the keeper: arg is the wait status
	opEmpty   opcode = 'E' // from the keeper, the command's last packet: nothing of the tree is left
)

// Steps that can fail between a request and a running program.
const (
	stepRequest = iota // the keeper could not read it
	stepDefence
	stepDir
	stepExec
)

// Flags of opExited.
const flagSignalled = 1 // the keeper had sent a signal before the program ended

// packet is one message. Which fields mean something depends on op.
type packet struct {
	op     opcode
	flag   uint32
	seq    int64 // of the command: a keeper serves one after another
	arg    int64
	at     int64 // CLOCK_MONOTONIC nanoseconds
	cpuNS  int64 // of the whole tree as far as it was waited for
	maxRSS int64 // bytes, the largest process
}

const packetBytes = 1 + 4 + 5*8

func (p packet) marshal() []byte {
	b := make([]byte, 0, packetBytes)
	b = append(b, byte(p.op))
	b = binary.LittleEndian.AppendUint32(b, p.flag)
	for _, v := range []int64{p.seq, p.arg, p.at, p.cpuNS, p.maxRSS} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func unmarshalPacket(b []byte) (packet, error) {
	if len(b) != packetBytes {
		return packet{}, fmt.Errorf("packet of %d bytes, want %d", len(b), packetBytes)
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[5+8*i:])) }
	return packet{
		op: opcode(b[0]), flag: binary.LittleEndian.Uint32(b[1:]),
		seq: word(0), arg: word(1), at: word(2), cpuNS: word(3), maxRSS: word(4),
	}, nil
}

// monotonic is CLOCK_MONOTONIC, which the init and its keepers share.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

func sinceMonotonic(start, end int64) time.Duration { return time.Duration(max(0, end-start)) }

// memfdOf gives an unlinked file in memory that holds data, read from its start.
func memfdOf(name string, data []byte) (*os.File, error) {
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

// sealedMemfd is memfdOf for user code, which can't change it.
func sealedMemfd(name string, data []byte) (*os.File, error) {
	f, err := memfdOf(name, data)
	if err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(rawFD(f)), unix.F_ADD_SEALS, seals); err != nil {
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
