// Command library runs a program, and then two commands of a session, through
// the Go library. After make build, from the root of the repository:
//
//	go run ./examples/library
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/local"
)

func main() {
	ctx := context.Background()
	backend, err := local.New(local.Config{Init: "bin/skerry-init"})
	if err != nil {
		log.Fatal(err)
	}

	result := skerry.Run(ctx, backend, skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "library-run"}},
		Command: skerry.CommandSpec{Argv: []string{"python3", "-c", "print(6*7)"}},
	})
	fmt.Printf("%s %s", result.Outcome, result.Stdout)

	ref := skerry.Ref{Kind: skerry.SessionKind, Name: "library-session"}
	session, err := backend.Create(ctx, skerry.SandboxSpec{Ref: ref})
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Delete(ctx, ref, skerry.DeleteOptions{})
	defer session.Close()
	for i, script := range []string{"cd /tmp && export NAME=skerry", "pwd; echo $NAME"} {
		r := skerry.Exec(ctx, session, skerry.ExecSpec{Command: skerry.CommandSpec{ID: fmt.Sprint(i), Script: script}})
		fmt.Print(r.Stdout)
	}
}
