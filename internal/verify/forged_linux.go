package verify

import (
	"context"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/probe"
)

// forgeries are programs that would pass for having ended in another way, with
// how each really ends.
var forgeries = []struct {
	what, script string
	timeout      time.Duration
	outcome      skerry.Outcome
	code, signal int
}{
	{"killed itself", "kill -KILL $$", attackTimeout, skerry.Signaled, 0, 9},
	{"exited with 137", "exit 137", attackTimeout, skerry.Exited, 137, 0},
	{"exited with 124", "echo 'skerry: error: timeout: command limit of 1s' >&2; exit 124", attackTimeout, skerry.Exited, 124, 0},
	{"said 0 when it was told to stop", `trap "exit 0" TERM; while :; do sleep 0.05; done`, time.Second, skerry.Timeout, 0, 0},
	{"printed a result", `echo '{"outcome":"exited","exit_code":0}'; exit 3`, attackTimeout, skerry.Exited, 3, 0},
	{"outlived a kill for memory", "tail /dev/zero & wait; exit 0", attackTimeout, skerry.Exited, 0, 0},
}

func forgedEnd(ctx context.Context, v *verifier) probe.Finding {
	var told string
	for _, f := range forgeries {
		c, err := v.box.Start(ctx, skerry.CommandSpec{ID: "forgery-" + randomHex(), Argv: []string{"sh", "-c", f.script}, Timeout: f.timeout, Grace: time.Second})
		if err != nil {
			return finding(probe.Unknown, "start the one that %s: %v", f.what, err)
		}
		exit, err := c.Wait(ctx)
		if err != nil {
			return finding(probe.Unknown, "wait for the one that %s: %v", f.what, err)
		}
		code := exit.ExitCode != nil && *exit.ExitCode == f.code
		if exit.Outcome != f.outcome || exit.Signal != f.signal || code != (f.outcome == skerry.Exited) {
			return finding(probe.Open, "one that %s was reported as %s %s", f.what, exit.Outcome, exit.Reason)
		}
		told += "; one that " + f.what + " is " + string(exit.Outcome)
	}
	return finding(probe.Blocked, "%s", told[len("; "):])
}
