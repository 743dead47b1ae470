package skerry

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrSame is the cause in Create's Conflict when the live run of that Ref has
// the same Digest: it is the same request, made before.
var ErrSame = errors.New("the same run exists")

// IsSame says whether err is Create's Conflict with the same request.
func IsSame(err error) bool { return KindOf(err) == Conflict && errors.Is(err, ErrSame) }

// digest identifies the whole request, defaults filled in: sandbox, command and
// the contents of the input files. Backends keep it keyed, never as it is.
func (r *runner) digest() (string, error) {
	d := newDigester()
	s, c := r.spec.Sandbox, r.spec.Command
	for _, text := range []string{s.Key(), s.Profile, s.Image, s.Network.String(), r.spec.Language} {
		d.text(text)
	}
	fmt.Fprintf(d, "%d", s.Limits.OrDefaults(DefaultLimits))
	d.env(s.Env)
	if c.Dir == "" {
		c.Dir = "." // a run has no other place to begin in
	}
	command := c.Digest()
	d.Write(command[:])
	d.number(len(r.spec.Inputs))
	for _, in := range r.spec.Inputs {
		d.text(in.Path)
		fmt.Fprintf(d, "%d,%d;", orDefault(in.Mode, DefaultFileMode), in.Size)
		src, err := in.Open()
		if err != nil {
			return "", Errorf(Invalid, "input files", "%w", err)
		}
		_, err = io.Copy(d, io.LimitReader(src, in.Size))
		src.Close()
		if err != nil {
			return "", Errorf(Invalid, "input files", "%w", err)
		}
	}
	sum := d.sum()
	return hex.EncodeToString(sum[:]), nil
}

// join follows the command of a run that another caller made. It starts
// nothing: while that caller still uploads there is no command to follow yet.
func (r *runner) join(ctx context.Context, s Sandbox) error {
	r.joined = true
	waiting, cancel := context.WithTimeout(ctx, DefaultStartTimeout)
	defer cancel()
	r.tell("provision", "waiting for the caller that made the run")
	command, err := awaitCommand(waiting, s)
	if err != nil {
		return err
	}
	r.tell("run", "following the program")
	t := time.Now()
	exit, err := r.follow(ctx, command)
	r.phase("run", t)
	if err != nil {
		return err
	}
	r.end(ctx, s, exit)
	return nil
}

// awaitCommand waits until the run's maker has started its command.
func awaitCommand(ctx context.Context, s Sandbox) (Command, error) {
	const step = 20 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		c, err := s.Command(ctx, RunCommandID)
		if KindOf(err) != NotFound {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, Errorf(Unavailable, "follow run", "the caller that made it has not started its program: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
