# Tests that filters are read from stdin and other pipes, and written to stdout.

$ seq 1000 > keys; bloomgate build -q -n 1000 --folds 1 f.bg keys; seq 500 1500 > other
$ bloomgate build -n 1000 --folds 1 - keys > out.bg
! bloomgate build: stdout: blocked, 1,000 keys, 1.2 KiB, false-positive rate 1%, ...
$ bloomgate diff -q f.bg out.bg; bloomgate verify out.bg
out.bg: intact
$ cat keys | bloomgate build -q -n 1000 --folds 1 - | bloomgate diff f.bg - | head -1
filters    equal
$ cat f.bg | bloomgate info - | head -2; bloomgate info - < f.bg | head -1; bloomgate info --json - < f.bg | grep -o '"file": "stdin"'
stdin
  format       bloomgate 1.2
stdin
"file": "stdin"
$ cat f.bg | bloomgate check -c - keys; bloomgate check -c - keys < f.bg; bloomgate check -c <(cat f.bg) keys; bloomgate check -c --also - f.bg other < f.bg
1000
1000
1000
504
$ cat f.bg | bloomgate verify -; cat f.bg | bloomgate canary - | tail -1; cat f.bg | bloomgate canary --keys - | wc -l
stdin: intact
verdict      passed
16
$ bloomgate build -q -n 1000 --folds 1 g.bg other; cat g.bg | bloomgate merge -q - f.bg - | bloomgate check -c - keys; cat f.bg | bloomgate fold -q - - | bloomgate info - | grep size
1000
  size         640 B, 5,120 bits, 5.12 bits/key
! bloomgate merge: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
! bloomgate check: stdin: holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
! bloomgate fold: warning: the filter has a false-positive rate of 13.9% (target 1%); fold it fewer times, or build a larger filter
$ cat f.bg | bloomgate add -q - other | bloomgate check -c - other; bloomgate add -q -o - f.bg other | bloomgate check -c - other; bloomgate check -c f.bg other
1001
1001
504
! bloomgate add: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
! bloomgate check: stdin: holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
! bloomgate add: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
! bloomgate check: stdin: holds more keys than its capacity of 1,000, so its false-positive rate is 5.39% (target 1%); build a larger filter
$ bloomgate build -q -k counting -n 1000 - keys | bloomgate remove - keys | bloomgate check -c - keys
0
! bloomgate remove: stdout: keys removed: 1,000, definitely not in the filter: 0
! bloomgate remove: stdout: counting, about 0 keys, 5.4 KiB, false-positive rate below 0.01% (target 1%)
? 1
$ cat f.bg | bloomgate diff - g.bg | head -1; cat f.bg | bloomgate diff -q --patch p - g.bg; cat p | bloomgate diff --apply - f.bg h.bg; cmp g.bg h.bg; cat f.bg | bloomgate diff -f --apply p - h.bg; cmp g.bg h.bg
filters    different
$ bloomgate convert -q --to go --from-keys keys -n 1000 - | bloomgate check -c - keys
1000
$ bloomgate build -q -k split --hash xxh64 - keys | bloomgate convert -q --to parquet - - | bloomgate convert -q --to bloomgate --format parquet - - | bloomgate check -c - keys
1000
$ bloomgate keyring -q --new k ring; bloomgate build -q --keyring ring - keys | bloomgate check -c --keyring ring - keys; bloomgate build -q --keyring ring - keys | bloomgate check -c - keys; bloomgate build -q --keyring ring - keys | bloomgate info - | head -1
1000
stdin
! bloomgate check: stdin: its keys are hashed with a secret; use --keyring FILE

# stdin can be used only once.
$ bloomgate check - < f.bg
! bloomgate check: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate check --help'.
? 2
$ bloomgate check - - < f.bg
! bloomgate check: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate check --help'.
? 2
$ bloomgate merge x.bg - - < f.bg
! bloomgate merge: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate merge --help'.
? 2
$ bloomgate diff - - < f.bg
! bloomgate diff: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate diff --help'.
? 2
$ bloomgate check --also - - keys < f.bg
! bloomgate check: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate check --help'.
? 2
$ bloomgate build x.bg - - < keys
! bloomgate build: stdin can be used only once; specify a file for the other input ('-', or no file at all, means stdin)
! Try 'bloomgate build --help'.
? 2

# Damaged and foreign data.
$ head -c 5000 f.bg | bloomgate check -c - keys
! bloomgate check: stdin: file size: found 5000 bytes, expected 9476 bytes
? 3
$ head -c 5000 f.bg | bloomgate verify -
stdin: damaged: file size at byte 5000: found 5000 bytes, expected 9476 bytes
? 1
$ echo text | bloomgate info -
! bloomgate info: stdin: not a filter in any known format
? 3
$ : | bloomgate info -
! bloomgate info: stdin: not a filter in any known format
? 3
$ gzip -c f.bg | bloomgate info -
! bloomgate info: stdin: not a filter in any known format: the file is compressed with gzip; decompress it first
? 3
$ printf 'bloomgate-pointer 1\nf.bg\n' | bloomgate info -
! bloomgate info: stdin: not a filter in any known format
? 3

# If the reader closes the pipe, the command ends without a message.
# Any other failed write is an error.
$ bloomgate build -q -n 10M - keys | head -c 10 | wc -c; echo ${PIPESTATUS[0]}
10
141
$ bloomgate build -q - keys > /dev/full
! bloomgate build: stdout: No space left on device
? 4
$ bloomgate convert -q --to go --from-keys keys -n 1000 - > /dev/full
! bloomgate convert: stdout: No space left on device
? 4
$ bloomgate build -q - keys >&-
! bloomgate build: stdout: Bad file descriptor
? 4

# Filters are not written to a terminal, or read from it.
$ script -qec 'bloomgate build -q - keys; bloomgate info -' /dev/null < /dev/null | grep terminal | tr -d '\r'
bloomgate build: a filter cannot be written to the terminal; redirect stdout, for example to a file
bloomgate info: a filter cannot be read from the terminal; specify a file, or redirect stdin

# Arguments that must be regular files.
$ bloomgate build --checkpoint 1m - keys > x
! bloomgate build: --checkpoint and --resume require a file as OUT, not stdout
! Try 'bloomgate build --help'.
? 2
$ bloomgate diff --patch - f.bg g.bg
! bloomgate diff: expected a file, not stdout; to write to a file named '-', use ./-
! Try 'bloomgate diff --help'.
? 2
$ bloomgate diff --apply p f.bg - > x
! bloomgate diff: expected a file, not stdout; to write to a file named '-', use ./-
! Try 'bloomgate diff --help'.
? 2
$ bloomgate join f 2 - > x
! bloomgate join: expected a file, not stdout; to write to a file named '-', use ./-
! Try 'bloomgate join --help'.
? 2
$ bloomgate watch -
! bloomgate watch: expected a file, not stdin
! Try 'bloomgate watch --help'.
? 2
$ bloomgate dedup --state - keys
! bloomgate dedup: --state -: expected a file, not stdin or stdout
! Try 'bloomgate dedup --help'.
? 2
