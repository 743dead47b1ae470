package attach

import pb "github.com/skerry-run/skerry/internal/initproto"

// Prepare does now, for who has to wait anyway, what the first New and the
// first command of this process would do. Nothing depends on it.
func Prepare() { pb.Prepare() }
