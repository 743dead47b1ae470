package main

import (
	"crypto/rand"
	"strings"
)

// randomID gives 80 random bits as letters and digits.
func randomID() string { return strings.ToLower(rand.Text()[:16]) }
