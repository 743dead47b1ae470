//go:build linux

package supervise

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/skerry-run/skerry/internal/boxes"
)

// The users that root's sandboxes run as: 2^26 ids, 2013265920 to 2080374783.
// Nobody who documents the ids that they hand out by themselves has any of
// them: systemd (systemd.io/UIDS-GIDS) has 60001 to 65519 in parts, 524288 to
// 1879048191 for containers and 2147352576 to 2147418111 for foreign images,
// and SSSD (sssd-ldap(5), ldap_idmap_range_max) maps directories to 200000 to
// 2000200000. From 2147483648 on some programs trip on the sign bit.
const (
	firstUID = 0x78000000
	uidBits  = 26
)

// chooseUID gives the user for a sandbox: its volume's, or one of its own that
// no living sandbox, no volume, no account and no range of subordinate ids
// has. A shared one would let sandboxes use up each other's inotify instances
// and processes, and signal each other where namespaces fail.
func chooseUID(d boxes.Dirs, key string, others []boxes.Record) (int, error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	if uid, ok, err := d.VolumeUID(key); err != nil {
		return 0, err
	} else if ok {
		return uid, nil
	}
	taken, err := d.VolumeUIDs()
	if err != nil {
		return 0, err
	}
	for _, r := range others {
		taken[r.UID] = true
	}
	passwd, _ := os.ReadFile("/etc/passwd") // absent: no accounts
	subuid, _ := os.ReadFile("/etc/subuid")
	return pickUID(d.Run+" "+key, taken, accounts(passwd), ranges(subuid))
}

type idRange struct{ first, count int }

// pickUID starts at a number that name tells: of the installation, too, because
// several may have a sandbox of one key.
func pickUID(name string, taken, accounts map[int]bool, ranges []idRange) (int, error) {
	const tries = 1000
next:
	for i := range tries {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, i))
		uid := firstUID + int(binary.BigEndian.Uint32(sum[:])>>(32-uidBits))
		if taken[uid] || accounts[uid] {
			continue
		}
		for _, r := range ranges {
			if uid >= r.first && uid < r.first+r.count {
				continue next
			}
		}
		return uid, nil
	}
	return 0, fmt.Errorf("no free user id between %d and %d", firstUID, firstUID+1<<uidBits-1)
}

func accounts(passwd []byte) map[int]bool {
	out := map[int]bool{}
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(line, ":"); len(f) > 3 {
			if uid, err := strconv.Atoi(f[2]); err == nil {
				out[uid] = true
			}
		}
	}
	return out
}

func ranges(subuid []byte) []idRange {
	var out []idRange
	for line := range strings.Lines(string(subuid)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil {
			out = append(out, idRange{first, count})
		}
	}
	return out
}
