// A command-line program that uses the bits-and-blooms filters, for interop.py.
//
//	go_filter make ITEMS RATE FILE < keys
//	go_filter ask FILE < keys                 prints how many it may contain
//
// Keys are lines of hexadecimal digits.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"

	"github.com/bits-and-blooms/bloom"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// count reads keys from standard input and returns the number of keys for which test is true.
func count(test func([]byte) bool) int {
	n := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		key, err := hex.DecodeString(lines.Text())
		must(err)
		if test(key) {
			n++
		}
	}
	return n
}

func main() {
	args := os.Args[1:]
	if args[0] == "make" {
		items, err := strconv.ParseUint(args[1], 10, 32)
		must(err)
		rate, err := strconv.ParseFloat(args[2], 64)
		must(err)
		filter := bloom.NewWithEstimates(uint(items), rate)
		count(func(key []byte) bool { filter.Add(key); return true })
		file, err := os.Create(args[3])
		must(err)
		_, err = filter.WriteTo(file)
		must(err)
		must(file.Close())
		return
	}
	file, err := os.Open(args[1])
	must(err)
	var filter bloom.BloomFilter
	_, err = filter.ReadFrom(bufio.NewReader(file))
	must(err)
	fmt.Println(count(filter.Test))
}
