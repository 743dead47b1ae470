//go:build linux

package initd

import (
	"github.com/skerry-run/skerry"
)

// prepareProgram fills the request: which program, with what environment,
// where.
func (s *Server) prepareProgram(p *prepared, spec skerry.CommandSpec) error {
	dir := s.resolveDir(spec.Dir)
	if err := checkDir(dir); err != nil {
		return err
	}
	env := mergeEnv(s.config.Env, envOf(spec.Env))
	if spec.Script != "" {
		return startFailed(skerry.Internal, "scripts are not supported")
	}
	path, err := lookPath(spec.Argv[0], dir, env)
	if err != nil {
		return programError(spec.Argv[0], err, spec.Missing)
	}
	p.req.Path, p.req.Argv, p.req.Env, p.req.Dir = path, bytesOf(spec.Argv), bytesOf(env), dir
	return nil
}

// capture is the state that a shell publishes at its end.
type capture struct{}

func (c *capture) discard() {}

// captured takes the state of a shell that has ended.
func (s *Server) captured(c *command, exit skerry.Exit) {}
