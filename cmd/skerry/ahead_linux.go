package main

import _ "github.com/skerry-run/skerry/internal/launch/early" // starts what a run needs first
