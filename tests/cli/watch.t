# Tests bloomgate watch when stdout is not a terminal; terminal.py tests it on a terminal.

$ seq 1000 > keys; bloomgate build -q -g 7 --note 'of today' seen.bg keys
$ bloomgate watch --once seen.bg
seen.bg
  kind        blocked, hash profile fast
  items       about 1,010 of 1,000 (994 to 1,027)
  fill        [####################....................] 50.4%
  rate        1%
  health      fine
  generation  7
  digest      ...
  created     ...
  file        9.3 KiB, changed ...
  note        of today

# If the path is a pointer file, watch shows the filter that the file points to.
$ cp seen.bg seen-1.bg; printf 'bloomgate-pointer 1\nseen-1.bg\n' > pointer; bloomgate watch --once pointer | head -4
pointer
  kind        blocked, hash profile fast
  items       about 1,010 of 1,000 (994 to 1,027)
  fill        [####################....................] 50.4%

# watch estimates the items in a scalable filter and in an overfull filter.
$ bloomgate build -q grown.bg < <(cat keys); bloomgate watch --once grown.bg | head -5
grown.bg
  kind        scalable, hash profile fast
  items       about 1,000 (999 to 1,000)
  fill        [........................................] 0.1%
  rate        below 0.01% (target 1%)
$ bloomgate build -q -n 200 full.bg < /dev/null; bloomgate add -q full.bg keys; bloomgate watch --once full.bg | head -6
full.bg
  kind        blocked, hash profile fast
  items       about 980 of 200 (932 to 1,029)
  fill        [#####################################...] 93.5%
  rate        62.5% (target 1%)
  health      act
! bloomgate add: warning: the filter holds more keys than its capacity of 200, so its false-positive rate is 62.5% (target 1%); build a larger filter

# For a keyed filter, watch shows only the header unless --keyring provides the secret.
$ echo 'now 000102030405060708090a0b0c0d0e0f' > ring; echo 'other 0f0e0d0c0b0a09080706050403020100' > rings; chmod 600 ring rings
$ bloomgate build -q --keyring ring keyed.bg keys; bloomgate watch --once keyed.bg | head -4
keyed.bg
  kind        blocked, hash profile keyed
  items       unknown without the secret; use --keyring FILE
  generation  0
$ bloomgate watch --once --keyring ring keyed.bg | head -5
keyed.bg
  kind        blocked, hash profile keyed
  items       about 1,013 of 1,000 (996 to 1,029)
  fill        [####################....................] 50.5%
  rate        1%
$ bloomgate watch --once --keyring rings keyed.bg | head -3
keyed.bg
  kind        blocked, hash profile keyed
  items       unknown without the secret; use --keyring FILE
$ bloomgate watch --once --keyring nowhere keyed.bg
! bloomgate watch: nowhere: No such file or directory
? 4

# Untrusted names.
$ cp seen.bg "$(printf 'a\033[31mb')"; bloomgate watch --once a*b | head -1
a?[31mb

# Damaged and missing files are reported.
$ (head -c 5000 seen.bg; printf X; tail -c +5002 seen.bg) > bad.bg; bloomgate watch --once bad.bg
! bloomgate watch: bad.bg: numbers: found checksum 3094009f, expected checksum 98f94189
? 3
$ bloomgate watch --once missing.bg
! bloomgate watch: missing.bg: No such file or directory
? 4
$ bloomgate watch --once keys
! bloomgate watch: keys: file size: found 3893, expected at least 4096 bytes
? 3
$ bloomgate watch --once .
! bloomgate watch: .: path: found a different type of file, expected a regular file
? 3

# Without --once, watch prints one line per change until a signal stops it.
$ touch log; cp seen.bg log.bg; bloomgate watch -i 20ms log.bg > log & wait_for() { until [ $(wc -l < log) = $1 ] || ! kill -0 $!; do sleep 0.02; done; }; wait_for 1; seq 5000 | bloomgate build -q -f -n 5k -g 8 log.bg; wait_for 2; rm log.bg; wait_for 3; cp bad.bg new; mv new log.bg; wait_for 4; cp seen.bg new; mv new log.bg; wait_for 5; kill -TERM $!; wait $!; echo $?; cat log
130
...Z log.bg: blocked, about 1,010 items, fill 50.4%, rate 1%, health fine, generation 7, digest ..., 9.3 KiB
...Z log.bg: blocked, about 5,010 items, fill 45.5%, rate 1%, health fine, generation 8, digest ..., 14.1 KiB
...Z log.bg: No such file or directory
...Z log.bg: numbers: found checksum 3094009f, expected checksum 98f94189
...Z log.bg: blocked, about 1,010 items, fill 50.4%, rate 1%, health fine, generation 7, digest ..., 9.3 KiB
$ bloomgate watch -i 20ms seen.bg | head -1; echo ${PIPESTATUS[0]}
...Z seen.bg: blocked, about 1,010 items, fill 50.4%, rate 1%, health fine, generation 7, digest ..., 9.3 KiB
141
$ bloomgate watch --once seen.bg > /dev/full
! bloomgate watch: stdout: No space left on device
? 4

# Errors.
$ bloomgate watch
! bloomgate watch: missing argument FILE
! Try 'bloomgate watch --help'.
? 2
$ bloomgate watch seen.bg keys
! bloomgate watch: expected only one FILE
! Try 'bloomgate watch --help'.
? 2
$ bloomgate watch -i 1ms seen.bg
! bloomgate watch: --interval must be from 10ms to 1d
! Try 'bloomgate watch --help'.
? 2
$ bloomgate watch -i soon seen.bg
! bloomgate watch: --interval: found 'soon', expected a time such as 30s, 5m or 1.5ms
! Try 'bloomgate watch --help'.
? 2

# The number of items in a saturated filter cannot be estimated.
$ bloomgate build -q -n 16 brim.bg < /dev/null; seq 100000 | bloomgate add -q brim.bg 2> /dev/null; bloomgate watch --once brim.bg | grep items
  items       too many to estimate, designed for 16

# The rate of a nearly empty filter, and of a filter that holds too many keys.
$ for i in 1 2 3 4; do seq ${i}00001 ${i}01000 | bloomgate build -q -n 1000 m$i.bg; done; bloomgate merge -q four.bg m?.bg 2> /dev/null; for f in grown.bg four.bg; do bloomgate watch -i 10ms $f | head -1; done; bloomgate canary four.bg
...Z grown.bg: scalable, about 1,000 items, fill 0.1%, rate below 0.01% (target 1%), health fine, generation 0, digest ..., 1.7 MiB
...Z four.bg: blocked, about 3,973 items, fill 93.5%, rate 62.5% (target 1%), health act, generation 0, digest ..., 9.3 KiB
generation   0
present      16 of 16 found
absent       2611 of 4096 reported as "maybe": 63.7% (62.3% to 65.2%), predicted 62.5% (target 1%)
verdict      failed: the filter answers "maybe" for almost all keys
? 1
