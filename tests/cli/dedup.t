# bloomgate dedup: prints each line once, in order.

$ printf 'b\na\nb\nc\na\n' > lines
$ bloomgate dedup lines
b
a
c
! bloomgate dedup: 5 lines, 3 unique, 2 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ bloomgate dedup -q lines
b
a
c
$ bloomgate dedup -q < lines
b
a
c
$ bloomgate dedup -q -d lines
b
a
$ bloomgate dedup -d lines
b
a
! bloomgate dedup: 5 lines, 3 unique, 2 seen before; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ bloomgate dedup -q -c lines
3
$ bloomgate dedup -q -c -d lines
2

# Empty input produces empty output.
$ bloomgate dedup < /dev/null
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ bloomgate dedup -c < /dev/null
0
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB

# With two input files, the last line of each file need not end with a newline.
$ printf 'a\nx' > one; printf 'x\ny' > two
$ bloomgate dedup -q one two
a
x
y
$ bloomgate dedup -q -d one two
x

# The output is identical to awk's output for any number of threads, whether the input is a file or
# a pipe.
$ python3 -c "import random; r = random.Random(1); print('\n'.join(str(r.randrange(150000)) for _ in range(300000)))" > many
$ awk '!seen[$0]++' many > awk.out
$ for t in 1 2 8; do bloomgate dedup -q -t $t many | cmp - awk.out; done
$ cat many | bloomgate dedup -q | cmp - awk.out
$ bloomgate dedup -q -n 200k many | cmp - awk.out
$ bloomgate dedup -q -p 1e-12 -n 200k many | cmp - awk.out
$ bloomgate dedup -q -m 64M many | cmp - awk.out
$ bloomgate dedup -q --hash xxh64 many | cmp - awk.out
$ bloomgate dedup -q -d many | wc -l; awk 'seen[$0]++' many | wc -l
170464
170464
$ bloomgate dedup -q -d many | cmp - <(awk 'seen[$0]++' many)

# With --unordered, exactly one of several identical lines is printed.
$ bloomgate dedup -q --unordered -t 8 many | LC_ALL=C sort | cmp - <(LC_ALL=C sort -u many)
$ cat many | bloomgate dedup --unordered
! bloomgate dedup: --unordered requires --items or --memory if the input is not an uncompressed regular file
! Try 'bloomgate dedup --help'.
? 2
$ cat many | bloomgate dedup -q --unordered -n 150k -c
129536
$ cat many | bloomgate dedup --unordered -m 16M > /dev/null
! bloomgate dedup: 300,000 lines, 129,536 unique, 170,464 dropped; wrongly dropped: fewer than 0.01 expected; register filter, 15.3 MiB
$ bloomgate dedup --unordered --window 10 many
! bloomgate dedup: --window and --unordered are mutually exclusive
! Try 'bloomgate dedup --help'.
? 2

# The summary is printed as text or as JSON. If the filter is slightly too small, dedup prints a
# warning, and about as many lines as predicted are wrongly dropped.
$ bloomgate dedup many > /dev/null
! bloomgate dedup: 300,000 lines, 129,536 unique, 170,464 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ bloomgate dedup -q --stats stats.json -n 100k -p 1% many > most
! bloomgate dedup: warning: the filter holds more keys than its capacity of 100,000, so its false-positive rate is 2.78% (target 1%); new lines are wrongly dropped at that rate
$ cat stats.json
{"schema": "bloomgate.dedup.1", "lines": 300000, "unique": 128803, "duplicates": 171197, "without_key": 0, "wrongly_dropped_expected": 720.816, "wrongly_dropped_share": 0.00556513, "kind": "blocked", "filter_bytes": 124160, "filter_items": 129363, "filter_design_items": 100000, "filter_rate": 0.0278024, "overfull": true}
$ python3 -c "import json; s = json.load(open('stats.json')); w = 129536 - sum(1 for _ in open('most')); assert abs(w / s['wrongly_dropped_expected'] - 1) < 0.1, w; assert s['lines'] == s['unique'] + s['duplicates'] == 300000"
$ bloomgate dedup -q --stats /dev/stderr lines > /dev/null
! {"schema": "bloomgate.dedup.1", "lines": 5, "unique": 3, "duplicates": 2, "without_key": 0, "wrongly_dropped_expected": 1.08247e-14, "wrongly_dropped_share": 3.60822e-15, "kind": "scalable", "filter_bytes": 6178560, "filter_items": 3, "filter_design_items": 1048576, "filter_rate": 7.21645e-15, "overfull": false}
$ bloomgate dedup --stats - lines
! bloomgate dedup: --stats -: stdout is reserved for lines; use a file or /dev/stderr
! Try 'bloomgate dedup --help'.
? 2
$ seq 5 > precious; ln -s precious link; bloomgate dedup --stats link precious; bloomgate dedup -q -s kept.bg precious > /dev/null; bloomgate dedup -s kept.bg --stats kept.bg lines; bloomgate dedup --stats precious --window foo lines; wc -l < precious; bloomgate verify kept.bg
5
kept.bg: intact
! bloomgate dedup: --stats link: this file is also an input or the --state file; choose another file
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --stats kept.bg: this file is also an input or the --state file; choose another file
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --window: found 'foo', expected a number of keys, at least 8 (10k, 5M), or a time period (90s, 10m, 1d)
! Try 'bloomgate dedup --help'.
$ ln -s later soon; bloomgate dedup -s later --stats ./later lines; bloomgate dedup -s soon --stats later lines; bloomgate dedup -s ./later --stats soon lines
! bloomgate dedup: --stats ./later: this file is also an input or the --state file; choose another file
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --stats later: this file is also an input or the --state file; choose another file
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --stats soon: this file is also an input or the --state file; choose another file
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup --stats /nowhere/x lines
! bloomgate dedup: /nowhere/x: No such file or directory
? 4

# Runs that use the same window state share a single budget for wrongly dropped lines. If one run
# fills the window, later runs also stop because the filter is full.
$ for run in 1 2 3; do seq ${run}00000 ${run}40000 | bloomgate dedup -q -c -s full -w 1h -n 10k 2> said | awk '{ print ($1 > 10000) }'; grep -c "the filter is full" said; done; rm full
1
1
0
1
0
1

# No mode wrongly drops more lines than its rate allows. If a fixed-size filter is full, the run
# stops. The lines printed before the stop are correct, and lines that are already in the filter
# take up no additional space.
$ bloomgate dedup -n 10k -p 1% many > few
! bloomgate dedup: stopped after 15,774 lines: the filter is full (about 15,015 keys), and more than 1% of new lines would be dropped; use a larger --items, or omit it so that the filter grows
! bloomgate dedup: 15,774 lines, 14,848 unique, 926 dropped; wrongly dropped: 148 expected (0.99%); blocked filter, 12.1 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 4.81% (target 1%); new lines are wrongly dropped at that rate
? 5
$ awk '!seen[$0]++' <(head -15774 many) > head.out; python3 -c "few = list(open('few')); every = list(open('head.out')); assert set(few) <= set(every) and len(few) > 0.985 * len(every), (len(few), len(every))"
$ for options in "-n 1" "-n 10 -p 1%" "-n 1000" "-m 4k" "-n 100 -m 200" "--unordered -n 100" "--unordered -n 3k -t 8" "--unordered -m 8k"; do bloomgate dedup -q $options many > part 2> said; echo $?; grep -c 'filter is full' said; LC_ALL=C sort part | uniq -d | wc -l; done | sort | uniq -c
      8 0
      8 1
      8 5
$ (seq 100; for i in $(seq 50); do seq 100; done) | bloomgate dedup -q -n 100 | wc -l
100
$ (seq 1000; for i in $(seq 50); do seq 1000; done) | bloomgate dedup -q --unordered -n 1000 -c
1000
$ bloomgate dedup -q -c -n 100 <(seq 100000)
136
! bloomgate dedup: stopped after 136 lines: the filter is full (about 136 keys), and more than 0.0001% of new lines would be dropped; use a larger --items, or omit it so that the filter grows
? 5

# A state that holds too many keys, because states were merged or keys were added, ends the run at
# the first new line. Lines that it already contains are dropped, and the reported share of wrongly
# dropped lines is not above the rate of the filter.
$ for i in 1 2 3 4 5 6 7 8; do seq ${i}00000 ${i}09999 | bloomgate dedup -q -n 10k -s part$i > /dev/null; done; bloomgate merge -q eight part?; bloomgate merge -q both part1 part2; bloomgate build -q -t 1 -n 5k built <(seq 500000 505000); bloomgate add -q -t 1 built <(seq 505001 550000); rm part?
! bloomgate merge: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 54.4% (target 0.0001%); build a larger filter
! bloomgate merge: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 0.0368% (target 0.0001%); build a larger filter
! bloomgate add: warning: the filter holds more keys than its capacity of 5,000, so its false-positive rate is 98.7% (target 1%); build a larger filter
$ seq 910001 910100 > new; for state in eight both built; do bloomgate dedup -t 1 -s $state --stats stats.json new; echo $?; grep -o '"lines.*dupl[^,]*' stats.json; done
5
"lines": 0, "unique": 0, "duplicates": 0
5
"lines": 0, "unique": 0, "duplicates": 0
5
"lines": 0, "unique": 0, "duplicates": 0
! bloomgate dedup: stopped after 0 lines: the filter is full (about 79,890 keys), and more than 0.0001% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; blocked filter, 47.9 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 54.4% (target 0.0001%); new lines are wrongly dropped at that rate
! bloomgate dedup: stopped after 0 lines: the filter is full (about 20,024 keys), and more than 0.0001% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; blocked filter, 47.9 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 0.0368% (target 0.0001%); new lines are wrongly dropped at that rate
! bloomgate dedup: stopped after 0 lines: the filter is full (about 50,805 keys), and more than 1% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; blocked filter, 6.1 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 5,000, so its false-positive rate is 98.7% (target 1%); new lines are wrongly dropped at that rate
$ bloomgate build -q -t 1 -n 15k tight <(seq 15000); bloomgate add -q -t 1 tight <(seq 15001 30000); for state in both tight; do seq 100000 100099 | bloomgate dedup -d -s $state > /dev/null; done; seq 100 | bloomgate dedup -s tight; rm both eight built tight
! bloomgate add: warning: the filter holds more keys than its capacity of 15,000, so its false-positive rate is 12.2% (target 1%); build a larger filter
! bloomgate dedup: 100 lines, 0 unique, 100 seen before; wrongly dropped: fewer than 0.01 expected; blocked filter, 47.9 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 10,000, so its false-positive rate is 0.0368% (target 0.0001%); new lines are wrongly dropped at that rate
! bloomgate dedup: stopped after 0 lines: the filter is full (about 29,884 keys), and more than 1% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: 0 lines, 0 unique, 0 seen before; wrongly dropped: fewer than 0.01 expected; blocked filter, 18.2 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 15,000, so its false-positive rate is 12.2% (target 1%); new lines are wrongly dropped at that rate
! bloomgate dedup: 100 lines, 0 unique, 100 dropped; wrongly dropped: 0.14 expected (12.2%); blocked filter, 18.2 KiB
! bloomgate dedup: warning: the filter holds more keys than its capacity of 15,000, so its false-positive rate is 12.2% (target 1%); new lines are wrongly dropped at that rate

# The size of a state does not change, so a smaller --items has no effect. The note does not appear
# if all runs have the same --items, or with -q.
$ bloomgate dedup -q -c -n 1k -s sized lines; for n in 1k 100 "100 -q"; do bloomgate dedup -c -s sized -n $n lines; done; bloomgate dedup -q -c -s grown lines; bloomgate dedup -c -s grown -n 100 lines; rm sized grown
3
0
0
0
3
0
! bloomgate dedup: 5 lines, 0 unique, 5 dropped; wrongly dropped: fewer than 0.01 expected; blocked filter, 4.9 KiB
! bloomgate dedup: sized: --items has no effect: the state was created for 1,000 keys; omit --items, or start a new state
! bloomgate dedup: 5 lines, 0 unique, 5 dropped; wrongly dropped: fewer than 0.01 expected; blocked filter, 4.9 KiB
! bloomgate dedup: grown: --items has no effect: the state grows; omit --items, or start a new state
! bloomgate dedup: 5 lines, 0 unique, 5 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB

# Without --items, the lines in regular files are counted first, so the filter is large enough even
# if the first lines are long.
$ python3 -c "print(('h' * 4000 + '\n') * 64, end='')" > long; cat long many > mixed
$ for input in mixed "long many" "many long"; do bloomgate dedup -q --unordered -c $input; done
129537
129537
129537

# A key can be one field of a record, and can be case-insensitive. Records can be NUL-terminated or
# CSV.
$ printf 'a\t1\nb\t1\nc\t2\n' | bloomgate dedup -q --field 2
a	1
c	2
$ printf 'A\na \nb\n' | bloomgate dedup -q --lower --trim
A
b
$ printf 'a\0b\0a\0' | bloomgate dedup -q -0 | tr '\0' ' '
a b 
$ printf '"a\nb",1\n"a\nb",2\nc,3\n' | bloomgate dedup -q --csv
"a
b",1
c,3
$ printf '1\n01\n2\n' | bloomgate dedup -q --as int64
1
2
$ printf '1\n01\nx\n' > numbers; bloomgate dedup -q --as int64 numbers
! bloomgate dedup: numbers: line 3: not valid int64: 'x'; to skip such records, use --skip-invalid
? 3

# A window covers a number of recent keys or a period of time.
$ (seq 100; seq 100) | bloomgate dedup -q -w 40 | wc -l
200
$ (seq 100; seq 100) | bloomgate dedup -q -w 200 | wc -l
100
$ mkfifo w.in w.out; bloomgate dedup -q -w 300ms -n 10 < w.in > w.out & exec 3> w.in 4< w.out; echo a >&3; read line <&4; echo $line; sleep 1; printf 'a\na\n' >&3; exec 3>&-; cat <&4
a
a
$ (echo a; echo a) | bloomgate dedup -q -w 10m -n 10
a
$ bloomgate dedup -w 10m lines
! bloomgate dedup: --window 10m requires --items, the number of distinct keys in that time
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -w 7 lines
! bloomgate dedup: --window: found '7', expected a number of keys, at least 8 (10k, 5M), or a time period (90s, 10m, 1d)
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -w soon lines
! bloomgate dedup: --window: found 'soon', expected a number of keys, at least 8 (10k, 5M), or a time period (90s, 10m, 1d)
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -w 1ms -n 10 lines
! bloomgate dedup: --window: found '1ms', expected a number of keys, at least 8 (10k, 5M), or a time period (90s, 10m, 1d)
! Try 'bloomgate dedup --help'.
? 2

# With a state file, the next run continues where the previous run stopped.
$ bloomgate dedup -q -s state.bg lines
b
a
c
$ printf 'c\nd\n' | bloomgate dedup -s state.bg
d
! bloomgate dedup: 2 lines, 1 unique, 1 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ printf 'a\nd\ne\n' | bloomgate dedup -q -s state.bg
e
$ printf 'a\nz\n' | bloomgate check state.bg
a
$ bloomgate dedup -q -s window.bg -w 1k lines | tail -1
c
$ bloomgate dedup -q -s window.bg lines | wc -l
0
$ bloomgate dedup -q -s time.bg -w 1h -n 1k lines | tail -1
c
$ bloomgate dedup -q -s time.bg -w 1h lines | wc -l
0
$ bloomgate dedup -q -s lower.bg --lower --as utf16 lines | wc -l
3
$ printf 'A\nd\n' | bloomgate dedup -q -s lower.bg
d
$ echo 'now 000102030405060708090a0b0c0d0e0f' > ring; chmod 600 ring
$ bloomgate dedup -q -s keyed.bg --keyring ring lines | wc -l
3
$ echo 'later 0f0e0d0c0b0a09080706050403020100' >> ring; bloomgate dedup -q -s keyed.bg --keyring ring lines | wc -l
0
$ bloomgate dedup -q -s register.bg --unordered -n 1k lines | wc -l
3
$ bloomgate dedup -q -s register.bg --unordered lines | wc -l
0

# A state file has extra space for its canaries. If a state file is full, dedup reports an error.
# The file then contains all lines that were printed.
$ for n in 1 2 5 10; do for i in $(seq 10); do rm -f small.bg; seq $((i*1000)) $((i*1000+n-1)) | bloomgate dedup -q -c -p 1e-6 -n $n -s small.bg; done; done | sort -n | uniq -c
     10 1
     10 2
     10 5
     10 10
$ seq 100 | bloomgate dedup -q -c -n 100 -p 1% -s hundred.bg
100
$ seq 1000 11000 | bloomgate dedup -q -n 1M -p 1e-6 -s hundred.bg
! bloomgate dedup: hundred.bg: was created for 100 keys at a rate of 1%, with a size of 192 B, and does not satisfy the specified --items, --rate or --memory: omit them, or start a new state
? 3
$ seq 1000 11000 | bloomgate dedup -q -n 1M -s hundred.bg
! bloomgate dedup: hundred.bg: was created for 100 keys at a rate of 1%, with a size of 192 B, and does not satisfy the specified --items, --rate or --memory: omit them, or start a new state
? 3
$ seq 1000 11000 | bloomgate dedup -q -m 100 -s hundred.bg
! bloomgate dedup: hundred.bg: was created for 100 keys at a rate of 1%, with a size of 192 B, and does not satisfy the specified --items, --rate or --memory: omit them, or start a new state
? 3
$ seq 100 | bloomgate dedup -q -c -n 100 -p 1% -s hundred.bg
0
$ seq 1000 11000 | bloomgate dedup -q -s hundred.bg > more; wc -l < more; bloomgate verify hundred.bg
70
hundred.bg: intact
! bloomgate dedup: stopped after ... lines: the filter is full (about ... keys), and more than 1% of new lines would be dropped; start a new state with a larger --items
! bloomgate verify: hundred.bg: holds more keys than its capacity of 100, so its false-positive rate is ...% (target 1%); build a larger filter
$ bloomgate dedup -q -s grown.bg -p 1e-4 lines | wc -l; seq 200000 | bloomgate dedup -q -s grown.bg -n 10 -p 1e-3 | wc -l
3
200000
$ seq 10 | bloomgate dedup -q -s grown.bg -p 1e-5
! bloomgate dedup: grown.bg: was created for any number of keys at a rate of 0.01%, with a size of ... MiB, and does not satisfy the specified --items, --rate or --memory: omit them, or start a new state
? 3
$ bloomgate dedup -s new.bg --unordered lines
! bloomgate dedup: --unordered requires --items or --memory for a new --state; --items is the number of distinct keys in all runs
! Try 'bloomgate dedup --help'.
? 2

# A state file with far more keys than its capacity would report new lines as already seen. The run
# stops instead of dropping these lines.
$ bloomgate build -q -k register -n 1000 -p 0.1% over.bg < /dev/null; seq 100000 | bloomgate add -q over.bg 2> /dev/null
$ for options in "" "-d" "-t 1" "--unordered -t 4"; do seq 200001 300000 | bloomgate dedup -q $options -s over.bg > out; echo $?; cat out; done
5
5
5
5
! bloomgate dedup: stopped after 0 lines: the filter is full (about ... keys), and more than ...% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: stopped after 0 lines: the filter is full (about ... keys), and more than ...% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: stopped after 0 lines: the filter is full (about ... keys), and more than ...% of new lines would be dropped; start a new state with a larger --items
! bloomgate dedup: stopped after 0 lines: the filter is full (about ... keys), and more than ...% of new lines would be dropped; start a new state with a larger --items
$ seq 10 | bloomgate dedup -q -n 100 -s over2.bg > out; seq 100000 | bloomgate add -q over2.bg 2> /dev/null; seq 200001 300000 | bloomgate dedup -q -c -s over2.bg
0
! bloomgate dedup: stopped after 0 lines: the filter is full (about ... keys), and more than ...% of new lines would be dropped; start a new state with a larger --items
? 5

# The options must match those that the state file was created with.
$ bloomgate dedup -s state.bg --lower lines
! bloomgate dedup: state.bg: the file's keys were converted with different options ('', not 'lower'); use the same --trim, --lower and --as
? 3
$ bloomgate dedup -s state.bg --hash xxh64 lines
! bloomgate dedup: state.bg: its keys were hashed with different options; use the same --hash, --seed and --keyring
? 3
$ bloomgate dedup -s state.bg --hash fast-int lines
! bloomgate dedup: state.bg: its keys were hashed with different options; use the same --hash, --seed and --keyring
? 3
$ for i in 1 2; do seq 10 | bloomgate dedup -q -s fi.state --hash fast-int | wc -l; done
10
0
$ bloomgate dedup -s state.bg --seed 3 lines
! bloomgate dedup: state.bg: its keys were hashed with different options; use the same --hash, --seed and --keyring
? 3
$ bloomgate dedup -s state.bg --keyring ring lines
! bloomgate dedup: state.bg: its keys were hashed with different options; use the same --hash, --seed and --keyring
? 3
$ bloomgate dedup -s keyed.bg lines
! bloomgate dedup: keyed.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ bloomgate dedup -s state.bg -w 10 lines
! bloomgate dedup: state.bg: this state has no window; omit --window, or start a new state
? 3
$ bloomgate dedup -s window.bg -w 10 lines
! bloomgate dedup: window.bg: the window of this state is 1k, not 10; use the same --window, or start a new state
? 3
$ bloomgate dedup -s state.bg --unordered lines
! bloomgate dedup: state.bg: --unordered requires a filter of kind register, not scalable; omit --unordered, or start a new state
? 3
$ bloomgate build -q -n 100 --lower --note mine noted.bg lines; bloomgate dedup -q -s noted.bg lines; bloomgate info noted.bg | grep -E ' note| keys  '
  keys         lower
  note         mine
$ bloomgate build -q -k cuckoo cuckoo.bg lines; bloomgate dedup -s cuckoo.bg lines
! bloomgate dedup: cuckoo.bg: dedup cannot add keys to a filter of kind cuckoo; start a new state
? 3
$ bloomgate build -q -k fuse fuse.bg lines; bloomgate dedup -s fuse.bg lines
! bloomgate dedup: fuse.bg: dedup cannot add keys to a filter of kind fuse; start a new state
? 3
$ bloomgate build -q -k window -n 100 other.bg lines; bloomgate dedup -s other.bg lines
! bloomgate dedup: other.bg: this filter was not created by dedup --window; start a new state
? 3
$ bloomgate dedup -s lines lines
! bloomgate dedup: lines: not a bloomgate filter file
? 3
$ bloomgate dedup -s /nowhere/x.bg lines > /dev/null
! bloomgate dedup: /nowhere/x.bg: No such file or directory
? 4
$ bloomgate dedup -s lines/x.bg lines
! bloomgate dedup: lines/x.bg: Not a directory
? 4

# A link to a state file remains a link.
$ mkdir there; seq 3 | bloomgate dedup -q -s there/s.bg; ln -s there/s.bg s.link; seq 5 | bloomgate dedup -q -s s.link; readlink s.link; seq 6 | bloomgate dedup -q -s there/s.bg
1
2
3
4
5
there/s.bg
6

# The state does not change if an error occurs or if the reader closes the pipe.
$ cp state.bg before.bg; printf '5\nx\n' | bloomgate dedup -q -s state.bg nothing; cmp state.bg before.bg
! bloomgate dedup: nothing: No such file or directory
$ seq 1000000 | bloomgate dedup -q -s state.bg | head -1; echo ${PIPESTATUS[1]}; cmp state.bg before.bg
1
141
$ bloomgate dedup -q -s state.bg many > /dev/full; cmp state.bg before.bg
! bloomgate dedup: stdout: No space left on device
$ bloomgate dedup -q -c -s state.bg many > /dev/full; cmp state.bg before.bg
! bloomgate dedup: stdout: No space left on device
$ bloomgate dedup -q -s state.bg --stats /dev/full many > out; echo $?; cmp state.bg before.bg
4
! bloomgate dedup: /dev/full: No space left on device

# Errors.
$ bloomgate dedup -m 1M -p 1e-3 lines
! bloomgate dedup: --memory and --rate are mutually exclusive
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup --hash keyed lines
! bloomgate dedup: --hash keyed requires a secret: use --keyring FILE
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup --uniq lines
! bloomgate dedup: unknown option --uniq
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -m 64k -w 1000 lines
! bloomgate dedup: --window and --memory are mutually exclusive: --items and --rate determine the size of a window
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup --field 0 lines
! bloomgate dedup: --field: found '0', expected a number of at least 1, or the name of a column
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -m 1 lines
! bloomgate dedup: --memory: too small for a filter; use a larger value
! Try 'bloomgate dedup --help'.
? 2

# A size that is too small for --items would drop many or all new lines.
$ for n in 50 70 5M; do seq 100000 | bloomgate dedup -q -c -m 64 -n $n; echo $?; done; seq 100 | bloomgate dedup --unordered -q -m 64 -n 5M -s new.state; ls new.state
72
5
2
2
! bloomgate dedup: stopped after 72 lines: the filter is full (about 70 keys), and more than 0.752% of new lines would be dropped; use a larger --memory
! bloomgate dedup: --memory is too small for 70 keys: up to 3.01% of new lines would be dropped; use a larger --memory, or replace it by a higher --rate
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --memory is too small for 5,000,000 keys: up to 100% of new lines would be dropped; use a larger --memory, or replace it by a higher --rate
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --memory is too small for 5,000,000 keys: up to 100% of new lines would be dropped; use a larger --memory, or replace it by a higher --rate
! Try 'bloomgate dedup --help'.
! ls: cannot access 'new.state': No such file or directory
? 2
$ seq 100000 | bloomgate dedup -c -p 99% -w 10m -n 1k 2>&1 | grep -o 'wrongly.*('
wrongly dropped: 97,... expected (
