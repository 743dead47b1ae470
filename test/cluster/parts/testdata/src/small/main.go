// Command small stands for a part in the tests of building: it is built in a
// second and says what it was built as.
package main

import (
	"fmt"
	"os"
)

var version = "unset"

func main() { fmt.Println(os.Args[0], version) }
