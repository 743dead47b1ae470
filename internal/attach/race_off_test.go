//go:build !race

package attach

const raceDetector = false
