package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/skerry-run/skerry"
)

// Whatever pieces it comes in, a file holds what was written, and its zeros
// take none of the room.
func TestSparseWriterKeepsEveryByte(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var want []byte
		for range random.IntN(8) {
			part := make([]byte, random.IntN(3*holeBytes))
			if random.IntN(2) == 0 {
				for i := range part {
					part[i] = byte(random.IntN(256))
				}
			}
			want = append(want, part...)
		}
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := sparseWriter{file: f, room: newRoom(int64(len(want)))}
		for rest := want; len(rest) > 0; {
			k := 1 + random.IntN(min(len(rest), 2*holeBytes))
			if n, err := w.Write(rest[:k]); n != k || err != nil {
				t.Fatalf("write of %d bytes gave %d, %v", k, n, err)
			}
			rest = rest[k:]
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes are other than the %d that were written (%v)", len(got), len(want), err)
		}
	}
}

func TestRoomOfACopy(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := sparseWriter{file: f, room: newRoom(10)}
	if _, err := w.Write(make([]byte, 100*holeBytes)); err != nil {
		t.Errorf("zeros took room: %v", err)
	}
	if _, err := w.Write([]byte("0123456789")); err != nil {
		t.Errorf("what there is room for: %v", err)
	}
	if _, err := w.Write([]byte("x")); skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" {
		t.Errorf("one byte more gave %v", err)
	}
	w.room = &room{data: 10, limit: 10, length: holeBytes}
	if _, err := w.Write(make([]byte, 2*holeBytes)); skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" {
		t.Errorf("zeros without end gave %v", err)
	}
}
