// Package initproto is the protocol between a client and skerry-init, the first
// process of every sandbox. init.proto is the source, the rest is generated.
package initproto

//go:generate protoc -I . --go_out=../.. --go_opt=module=github.com/skerry-run/skerry --go-grpc_out=../.. --go-grpc_opt=module=github.com/skerry-run/skerry init.proto

// Version is the protocol's number. Both ends refuse another.
const Version = 1

// NonceBytes and KeyBytes are the sizes of the fields of the handshake.
const (
	NonceBytes = 32
	KeyBytes   = 32
)

// MaxMessageBytes bounds one message in either direction: the largest field
// that a caller may send whole is a script.
const MaxMessageBytes = 20 << 20

// ChunkBytes is how much data one message of a stream carries at most.
const ChunkBytes = 256 << 10
