//go:build race

package attach

// raceDetector makes everything ten times slower: fewer cuts are made under it.
const raceDetector = true
