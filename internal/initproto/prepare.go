package initproto

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// Prepare builds what protobuf builds when it meets a message for the first
// time, for those of a run: together that takes longer than the calls.
var Prepare = sync.OnceFunc(func() {
	for _, m := range []proto.Message{
		&HelloRequest{}, &HelloReply{}, &StartRequest{}, &StartReply{}, &CommandInfo{}, &OutputRequest{}, &OutputReply{},
		&CommandRef{}, &Exit{}, &Usage{}, &PathRequest{}, &ListFilesRequest{}, &ListFilesReply{}, &FileInfo{}, &Empty{},
	} {
		_ = proto.Size(m)
	}
})
