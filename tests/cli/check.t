# bloomgate check: filters lines like grep.

$ seq 1000 > numbers
$ bloomgate build -q numbers.bg numbers
$ printf 'x\n1\n2\n' | bloomgate check numbers.bg
1
2

# If the last line has no newline, one is added.
$ printf 'x\n1\n2' | bloomgate check numbers.bg
1
2
$ printf 'x\n1\n2' | bloomgate check -v numbers.bg
x
$ printf 'x\n1\n2' | bloomgate check -a numbers.bg
no	x
maybe	1
maybe	2
$ printf 'x\n1\n2' | bloomgate check -c numbers.bg
2

# The exit code is 1 if no line was selected.
$ echo x | bloomgate check numbers.bg
? 1
$ bloomgate check -q numbers.bg numbers

# The filter file records how keys are converted. A different --as is refused, because integers of a
# different size would never be found.
$ seq 100 | bloomgate build -q --items 100 --as int64 int64.bg; seq 100 | bloomgate check -c --as int64 int64.bg
100
$ seq 100 | bloomgate check -c --as int32 int64.bg
! bloomgate check: int64.bg: its keys are converted with 'int64'; use the same --as, or omit it
! Try 'bloomgate check --help'.
? 2

# A filter that holds too many keys is reported, except with -q.
$ seq 5000 > many; head -1000 many | bloomgate build -q -t 1 -n 1000 over.bg; bloomgate add -q -t 1 over.bg many 2> /dev/null; bloomgate check -c over.bg many; bloomgate check -q over.bg many; bloomgate build -q fits.bg many; bloomgate check -c fits.bg many
5000
5000
! bloomgate check: over.bg: holds more keys than its capacity of 1,000, so its false-positive rate is 80.2% (target 1%); build a larger filter

# With -c, -q prints the number of all selected lines. Without -c, it prints nothing.
$ seq 1000000 > million; bloomgate build -q million.bg million; bloomgate check -q -c million.bg million; bloomgate check -q million.bg million
1000000
