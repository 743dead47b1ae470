//go:build linux

package initd

import (
	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/shellstate"

	"github.com/skerry-run/skerry/internal/keep"
)

// prepareProgram fills the request: which program, with what environment,
// where. Both kinds of command start from the session's state as it is now.
func (s *Server) prepareProgram(p *prepared, spec skerry.CommandSpec) error {
	state := s.shell.current()
	dir, err := s.workdir(p, spec.Dir, state.Dir)
	if err != nil {
		return err
	}
	p.req.Dir = dir
	if spec.Script != "" {
		return s.prepareScript(p, spec, state)
	}
	env := mergeEnv(state.Env, envOf(spec.Env))
	path, err := lookPath(spec.Argv[0], dir, env)
	if err != nil {
		return programError(spec.Argv[0], err, spec.Missing)
	}
	p.req.Path, p.req.Argv, p.req.Env = path, bytesOf(spec.Argv), bytesOf(env)
	return nil
}

// workdir gives the folder that a command starts in. One that was asked for
// must be there; the session's own falls back to the workspace with a notice.
func (s *Server) workdir(p *prepared, asked, sessions string) (string, error) {
	if asked != "" {
		dir := s.resolveDir(asked)
		return dir, checkDir(dir)
	}
	dir, notice := shellstate.UsableDir(sessions, s.config.Workspace)
	if notice != "" {
		p.notices = append(p.notices, notice)
	}
	return dir, nil
}

// prepareScript makes the shell that runs a script.
func (s *Server) prepareScript(p *prepared, spec skerry.CommandSpec, state shellstate.State) error {
	capture := &capture{before: state.Dir}
	if spec.Dir != "" {
		capture.asked = p.req.Dir
	}
	state.Dir = p.req.Dir
	inv, notices, err := shellstate.Prepare(state, []byte(spec.Script), mergeEnv(envOf(spec.Env)))
	if err != nil {
		return skerry.Errorf(skerry.Invalid, startOp, "%w", err).WithOutcome(skerry.StartFailed)
	}
	p.notices = append(p.notices, notices...)
	// The shell comes from the sandbox, wherever the session's PATH points.
	path, err := lookPath(inv.Argv[0], p.req.Dir, s.config.Env)
	if err != nil {
		missing := spec.Missing
		if missing == "" {
			missing = "a script needs bash in the sandbox: install it, or start a program by its arguments"
		}
		return programError(inv.Argv[0], err, missing)
	}
	p.req.Path, p.req.Argv, p.req.Env = path, bytesOf(inv.Argv), bytesOf(inv.Env)
	for i, data := range inv.Files {
		f, err := keep.SealedMemfd("script", data)
		if err != nil {
			return startFailed(skerry.Busy, "%w", err).WithHint("the sandbox is out of memory or open files; end something in it")
		}
		p.give(f, shellstate.FileFD0+i)
	}
	ours, theirs, err := stateMemfd()
	if err != nil {
		return startFailed(skerry.Busy, "%w", err).WithHint("the sandbox is out of memory or open files; end something in it")
	}
	capture.file, capture.nonce = ours, inv.Nonce
	p.state = capture
	p.give(theirs, inv.StateFD)
	return nil
}
