# Everything a developer runs. `make demo` and `make test` set up a fresh
# machine themselves (Go, and root or sudo, given).
export CGO_ENABLED ?= 0
LDFLAGS     := -s -w
# Without gRPC's own tracing pages, which bring templates, and with them every
# method of every type: the programs are a quarter smaller, and start sooner.
TAGS        := grpcnotrace
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: build setup demo test test-fast test-cluster test-long lint vuln fuzz bench generate clean cluster-up cluster-down

build:   ; go build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/ ./cmd/skerry ./cmd/skerry-init
setup:   ; ./scripts/setup.sh test
demo:    ; ./scripts/setup.sh run && $(MAKE) -s build && ./scripts/demo.sh
test: test-fast test-cluster
# Everything but what needs the Kubernetes cluster.
test-fast: setup build lint ; CGO_ENABLED=1 go test -race -timeout 40m ./...
# One package after the other, telling what it is doing: the first time builds a
# Kubernetes, which takes minutes.
test-cluster: ; ./scripts/setup.sh cluster && ./scripts/lint.sh $(STATICCHECK) test/cluster && cd test/cluster && go test -v -p 1 -timeout 60m ./...
# What takes hours: kills at random moments, many runs in a row, clusters that
# come and go, and every fuzz target.
test-long: test
	CGO_ENABLED=1 go test -race -timeout 3h -count 10 -run 'Kill|Random|Many|Leak' ./local ./cmd/skerry ./internal/attach ./internal/initd
	cd test/cluster && go test -v -p 1 -timeout 3h -count 5 . ./proof
	go run ./bench -only leftovers -runs 10000
	$(MAKE) fuzz
lint:    ; ./scripts/lint.sh $(STATICCHECK)
vuln:    ; go run $(GOVULNCHECK) ./...
fuzz:    ; ./scripts/fuzz.sh $(or $(FUZZTIME),5m)
bench: build ; go run ./bench
generate:; go generate ./internal/initproto ./internal/seccompbpf
# A real Kubernetes cluster on this machine; the last line of cluster-up on
# stdout is the command that makes kubectl use it.
cluster-up:   ; @./scripts/setup.sh cluster && cd test/cluster && go run ./cmd/cluster up
cluster-down: ; @cd test/cluster && go run ./cmd/cluster down
clean:   ; rm -rf bin
