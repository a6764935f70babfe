# bloomgate canary: looks up keys for which the correct answer is known.

$ seq 10000 > keys; bloomgate build -q --items 10000 --generation 7 f.bg keys
$ bloomgate canary f.bg
generation   7
present      16 of 16 found
absent       43 of 4096 reported as "maybe": 1.05% (0.78% to 1.41%), predicted 1%
verdict      passed
$ bloomgate canary -q f.bg
$ bloomgate canary --json f.bg
{"schema": "bloomgate.canary.1", "file": "f.bg", "generation": 7, "present": 16, "present_of": 16, "absent": 43, "absent_of": 4096, "rate": {"value": 0.010498, "low": 0.00780336, "high": 0.01411}, "predicted_rate": 0.0099102, "good": true}

# The check fails if the filter has no canaries, or only canaries from a different generation.
$ bloomgate build -q --items 10000 --no-canaries bare.bg keys; bloomgate canary bare.bg
generation   0
present      0 of 16 found
absent       44 of 4096 reported as "maybe": 1.07% (0.801% to 1.44%), predicted 1%
verdict      failed: the filter has no canaries of this generation
? 1
$ bloomgate canary -q bare.bg
? 1
$ bloomgate canary -g 8 f.bg | tail -1
verdict      failed: canaries are missing
$ bloomgate canary --json -g 8 f.bg
{"schema": "bloomgate.canary.1", "file": "f.bg", "generation": 8, "present": 1, "present_of": 16, "absent": 47, "absent_of": 4096, "rate": {"value": 0.0114746, "low": 0.00864029, "high": 0.0152244}, "predicted_rate": 0.0099102, "good": false, "fault": "canaries are missing"}
? 1

# Each canary key consists of "bloomgate:p:", the generation and a number.
$ bloomgate canary --keys -g 7 | head -2
626c6f6f6d676174653a703a070000000000000000000000
626c6f6f6d676174653a703a070000000000000001000000
$ bloomgate canary --keys f.bg | sort -u | wc -l
16
$ bloomgate canary --keys -g 7 > k7; bloomgate canary --keys f.bg | cmp - k7
$ bloomgate check --as hex -c f.bg k7
16

# Filters created by other software can contain canaries.
$ bloomgate convert -q --from-keys keys --items 10000 --to go g.bin; bloomgate canary -g 7 g.bin | tail -1
verdict      failed: the filter has no canaries of this generation
$ bloomgate add -q --format go --as hex g.bin k7; bloomgate canary -g 7 g.bin
generation   7
present      16 of 16 found
absent       39 of 4096 reported as "maybe": 0.952% (0.697% to 1.3%), predicted 1.03%
verdict      passed
$ bloomgate canary g.bin | head -2
generation   0
present      0 of 16 found

# In an overfull filter, finding the canaries proves nothing.
$ bloomgate build -q --items 1000 full.bg < /dev/null; bloomgate add -q full.bg keys; bloomgate canary full.bg
generation   0
present      16 of 16 found
absent       4050 of 4096 reported as "maybe": 98.9% (98.5% to 99.2%), predicted 99% (target 1%)
verdict      failed: the filter answers "maybe" for almost all keys
! bloomgate add: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 99% (target 1%); build a larger filter
? 1

# A damaged filter is refused; with --tolerate, it answers "maybe" for keys in damaged blocks.
$ cp f.bg hurt.bg; printf 'xyz' | dd of=hurt.bg bs=1 seek=9000 conv=notrunc status=none
$ bloomgate canary hurt.bg
! bloomgate canary: hurt.bg: block: found checksum 66e4939f in block 0, expected checksum 25b8c3b7
? 3
$ bloomgate canary --tolerate hurt.bg
generation   7
present      16 of 16 found
absent       4096 of 4096 reported as "maybe": 100% (99.9% to 100%), predicted 100% (target 1%)
verdict      failed: the filter is damaged, or had no space for some keys
! bloomgate canary: warning: hurt.bg: some blocks are damaged; lookups in them always return "maybe"
? 1

# A file whose header has been modified to claim that it has canaries is refused.
$ cp bare.bg lies.bg; python3 $CLI_TESTS/set_header.py lies.bg 168 16; bloomgate canary lies.bg
! bloomgate canary: lies.bg: digest: found ..., expected ...
? 3

# Secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ bloomgate build -q --items 10000 --hash keyed --keyring ring k.bg keys
$ bloomgate canary k.bg
! bloomgate canary: k.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ bloomgate canary --keyring ring k.bg
generation   0
present      16 of 16 found
absent       38 of 4096 reported as "maybe": 0.928% (0.677% to 1.27%), predicted 1%
verdict      passed
$ bloomgate canary --keys k.bg | head -1
626c6f6f6d676174653a703a000000000000000000000000

# Errors.
$ bloomgate canary
! bloomgate canary: missing argument FILTER
! Try 'bloomgate canary --help'.
? 2
$ bloomgate canary --keys
! bloomgate canary: expected FILTER or --generation
! Try 'bloomgate canary --help'.
? 2
$ bloomgate canary --keys keys
! bloomgate canary: keys: not a bloomgate filter file
? 3
$ bloomgate canary -g x f.bg
! bloomgate canary: --generation: found 'x', expected a whole number
! Try 'bloomgate canary --help'.
? 2
$ bloomgate canary f.bg k.bg
! bloomgate canary: expected one FILTER
! Try 'bloomgate canary --help'.
? 2
$ bloomgate canary missing.bg
! bloomgate canary: missing.bg: No such file or directory
? 4
$ bloomgate canary keys
! bloomgate canary: keys: not a filter in any known format
? 3
$ bloomgate canary --keys missing.bg
! bloomgate canary: missing.bg: No such file or directory
? 4

# A new filter passes no matter how small it is. Random false positives must not cause a failure.
$ for kind in blocked classic partitioned split register counting cuckoo quotient fuse ribbon scalable; do for rate in 1e-1 1e-2 1e-3 1e-4; do for n in 1 5 10 30 300; do seq $n | bloomgate build -qf -k $kind -n $n -p $rate small.bg; bloomgate canary -q small.bg || echo $kind $rate $n; done; done; done
