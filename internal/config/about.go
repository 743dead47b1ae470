package config

// about says in a few words what each setting is.
var about = map[string]string{
	"backend": "where sandboxes live",
	"org":     "the tenant whose sandboxes these are",
	"profile": "the profile of the file that is used",
	"image":   "image of a sandbox, for backends with images",
	"network": "deny, internet or allow=CIDR[:PORT],…",

	"limits.memory":         "memory of a sandbox",
	"limits.cpu":            "cores of a sandbox",
	"limits.memory_request": "what a scheduler sets aside; local ignores it",
	"limits.cpu_request":    "what a scheduler sets aside; local ignores it",
	"limits.pids":           "processes and threads",
	"limits.workspace":      "files in /workspace and HOME",
	"limits.tmp":            "files in /tmp",
	"limits.shm":            "files in /dev/shm",

	"timeouts.run":       "of a run's program",
	"timeouts.command":   "of a session's command in the foreground",
	"timeouts.max":       "no timeouts.run and timeouts.command may be longer",
	"timeouts.max_ttl":   "the longest time to live, counted from the creation",
	"timeouts.ttl":       "time to live of a session",
	"timeouts.idle":      "of a session in which nothing happens",
	"timeouts.grace":     "between TERM and KILL",
	"timeouts.start":     "until a sandbox can be used",
	"timeouts.retention": "of a run with --detach after its program's end, 0 until its limit would have passed; any other is removed at once",
	"timeouts.remember":  "of the note how a run with --id, or a session, ended",

	"artifacts.each":  "one file under output/",
	"artifacts.total": "all files under output/",
	"inputs.total":    "all files of -f",
	"output.inline":   "each stream in a result object",

	"local.state_dir": "where the local backend keeps its sandboxes; empty is its own choice",
	"local.init":      "skerry-init; empty is the one beside skerry, else on PATH",
	"local.bwrap":     "bubblewrap; empty is the one on PATH",
}
