package local

import (
	"fmt"
	"testing"

	"github.com/skerry-run/skerry"
)

// BenchmarkCreateDelete is what a sandbox costs without anything run in it.
func BenchmarkCreateDelete(b *testing.B) {
	backend := newBackend(b)
	for i := 0; b.Loop(); i++ {
		ref := skerry.Ref{Kind: skerry.RunKind, Name: fmt.Sprint("bench-", i)}
		s, err := backend.Create(b.Context(), skerry.SandboxSpec{Ref: ref})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
		if err := backend.Delete(b.Context(), ref, skerry.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
