# bloomgate plan: recommends a filter. transcript.py describes a machine with caches of 32 KiB, 1 MiB
# and 32 MiB and 16 GiB of memory.

# By default, plan compares all kinds.
$ bloomgate plan -n 100M -p 0.1%
100,000,000 keys, false-positive rate at most 0.1%
|
                      bits          false     at 2x       at  fits    lines
kind            size  /key   k  positives  the keys      10x  into     read
classic      171 MiB  14.4  10    0.0999%     5.72%      99%  memory     10
partitioned  171 MiB  14.4  10    0.0999%     5.72%      99%  memory     10
blocked      185 MiB  15.6   9    0.0999%     3.84%    97.3%  memory      1
split        201 MiB  16.9   8    0.0999%     2.65%    93.2%  memory      1
register     276 MiB  23.2   7       0.1%     1.26%    71.7%  memory      1
counting     925 MiB  77.6   8       0.1%     1.96%      88%  memory      1
cuckoo       201 MiB  16.8  16    0.0116%      full     full  memory      2
quotient     195 MiB  16.4  10    0.0727%      full     full  memory      1
fuse         215 MiB  18.1  16   0.00153%         -        -  memory      3
ribbon       120 MiB  10.1  10    0.0977%         -        -  memory      3
scalable     240 MiB  20.1  12      0.02%   0.0201%  0.0488%  memory      1
window       335 MiB  28.1  11    0.0874%   0.0875%   0.402%  memory      8
|
Use blocked: a lookup reads 9 bits of one cache line; 185 MiB, 0.0999% false positives.
  bloomgate build --kind blocked --items 100000000 --rate 0.001 OUT KEYS
|
Alternatives if:
  - all keys are known in advance: ribbon needs 120 MiB, 35% less; no keys can be added later
  - memory matters more than speed: classic needs 171 MiB, 8% less; a lookup reads up to k cache
    lines
  - keys have to be deleted: quotient needs 195 MiB, 5% more
  - the number of keys is unknown: scalable needs 240 MiB, 29% more; it grows
  - keys have to expire: window needs 335 MiB, 80% more
  - there may be twice as many keys: plan for them (--growth 2); otherwise blocked has 3.84% false
    positives, 38 times as many

# --machine plans for another machine. Omitted parts default to this machine's values, which
# BLOOMGATE_MACHINE describes here.
$ bloomgate plan -n 100M -p 0.1% --machine l1=48Ki,l2=2Mi,l3=260Mi | awk '$1 == "blocked" || $1 == "counting" { print $1, $9 }'
blocked L3
counting memory
$ bloomgate plan -n 100M -p 0.1% --machine l3=0 | awk '$1 == "blocked" { print $1, $9 }'
blocked memory
$ bloomgate plan -n 5M -p 1% --machine l3=64MiB,memory=16Gi,cpus=64 --json | grep -o '"machine": {[^}]*}'
"machine": {"l1_bytes": 32768, "l2_bytes": 1048576, "l3_bytes": 67108864, "memory_bytes": 17179869184, "cpus": 64}
$ bloomgate plan -n 100M -p 0.1% --kind blocked --machine memory=128Mi
100,000,000 keys, false-positive rate at most 0.1%
|
                  bits         false     at 2x     at  fits  lines
kind        size  /key  k  positives  the keys    10x  into   read
blocked  185 MiB  15.6  9    0.0999%     3.84%  97.3%  none      1
|
Planned blocked: as requested; 185 MiB, 0.0999% false positives.
  bloomgate build --kind blocked --items 100000000 --rate 0.001 OUT KEYS
  The filter does not fit in the machine's memory (128 MiB); raise the rate, use ribbon, or split
  the filter.
|
Alternatives if:
  - there may be twice as many keys: plan for them (--growth 2); otherwise blocked has 3.84% false
    positives, 38 times as many

# A filter that exceeds the memory fits into none, even if a cache is larger than the filter.
$ bloomgate plan -n 100M -p 0.1% --kind ribbon --machine l3=1Gi,memory=64Mi | grep -E '^ribbon|memory'
ribbon  120 MiB  10.1  10    0.0977%         -    -  none      3
  The filter does not fit in the machine's memory (64.0 MiB); raise the rate or split the filter.
$ bloomgate plan -n 1e15 -p 1% --machine memory=16Gi | grep 'not fit'; bloomgate plan -n 1G --bytes 1Gi --machine memory=512Mi | grep 'not fit'; bloomgate plan -n 1G --bits-per-key 10 -k fuse --machine memory=512Mi | grep 'not fit'
  The filter does not fit in the machine's memory (16.0 GiB); raise the rate or split the filter.
  The filter does not fit in the machine's memory (512 MiB); reduce the size or split the filter.
  The filter does not fit in the machine's memory (512 MiB); reduce the size or split the filter.
$ bloomgate plan -n 100M -p 0.1% --kind ribbon --machine l3=1Gi,memory=1Gi | grep -E '^ribbon|memory'
ribbon  120 MiB  10.1  10    0.0977%         -    -  L3        3

# The JSON output contains the same column.
$ for n in 1k 100k 1M 1G 1e15; do bloomgate plan -n $n -p 1% --kind blocked --machine l1=32Ki,l2=1Mi,l3=32Mi,memory=16Gi --json | grep -o '"fits_into": "[^"]*"'; done
"fits_into": "L1"
"fits_into": "L2"
"fits_into": "L3"
"fits_into": "memory"
"fits_into": "none"

# The environment variable BLOOMGATE_MACHINE has the same syntax. --machine takes precedence.
$ BLOOMGATE_MACHINE=l3=260Mi bloomgate plan -n 100M -p 0.1% | awk '$1 == "blocked" { print $1, $9 }'
blocked L3
$ BLOOMGATE_MACHINE=l3=260Mi bloomgate plan -n 100M -p 0.1% --machine l3=8Mi | awk '$1 == "blocked" { print $1, $9 }'
blocked memory
$ BLOOMGATE_MACHINE= bloomgate plan -n 1000 -p 1% --kind blocked | head -1
1,000 keys, false-positive rate at most 1%

# Invalid descriptions are refused, even by commands that do not plan.
$ bloomgate plan -n 1000 -p 1% --machine l4=1Mi
! bloomgate plan: --machine: found 'l4=1Mi', expected l1=SIZE, l2=SIZE, l3=SIZE, memory=SIZE and cpus=N, separated by commas, such as l2=1Mi,l3=32Mi,memory=16Gi,cpus=8
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1000 -p 1% --machine l3=huge
! bloomgate plan: --machine: found 'l3=huge', expected l3=SIZE, a whole number of bytes up to 64Gi, such as l3=32Mi
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1000 -p 1% --machine l3=1Mi,l3=2Mi
! bloomgate plan: --machine: found 'l3=2Mi', expected each part at most once
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1000 -p 1% --machine cpus=0
! bloomgate plan: --machine: found 'cpus=0', expected cpus=N, a whole number from 1 to 65536, such as cpus=8
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1000 -p 1% --machine memory=1Mi,
! bloomgate plan: --machine: found a trailing comma after 'memory=1Mi', expected another part
! Try 'bloomgate plan --help'.
? 2
$ BLOOMGATE_MACHINE=48K,2M,260M bloomgate plan -n 1000 -p 1%
! bloomgate plan: BLOOMGATE_MACHINE: found '48K', expected l1=SIZE, l2=SIZE, l3=SIZE, memory=SIZE and cpus=N, separated by commas, such as l2=1Mi,l3=32Mi,memory=16Gi,cpus=8
! Try 'bloomgate plan --help'.
? 2
$ echo pear | BLOOMGATE_MACHINE=cpus=8,l2=-1 bloomgate build -n 10 pear.bg
! bloomgate build: BLOOMGATE_MACHINE: found 'l2=-1', expected l2=SIZE, a whole number of bytes up to 64Gi, such as l2=1Mi
! Try 'bloomgate build --help'.
? 2
$ BLOOMGATE_MACHINE=nonsense bloomgate plan --help | head -1
usage: bloomgate plan [options] --items N --rate P

# No line is longer than 100 characters, even if all columns are shown and rates have many digits.
$ bloomgate plan -n 1G -p 1e-7 --queries-per-second 1234567890 --call-cost 1 --memory-cost 1 --call-time 5ms | awk 'length > 100'

# With a fixed number of bits per key, or a fixed total size, the kinds have different
# false-positive rates.
$ bloomgate plan --items 1M --bits-per-key 16
1,000,000 keys, 16 bits per key
|
                      bits          false     at 2x     at  fits  lines
kind            size  /key   k  positives  the keys    10x  into   read
classic      1.9 MiB  16.0  11    0.0459%     4.05%  98.9%  L3       11
partitioned  1.9 MiB  16.0  11    0.0459%     4.05%  98.9%  L3       11
blocked      1.9 MiB  16.0   9    0.0846%     3.38%  96.8%  L3        1
split        1.9 MiB  16.0   8     0.132%     3.32%  94.8%  L3        1
register     1.9 MiB  16.0   6      0.37%     3.76%  86.9%  L3        1
counting     1.9 MiB  16.0   3      15.2%     47.2%  99.8%  L3        1
cuckoo       1.9 MiB  16.0  12     0.146%      full   full  L3        2
fuse         1.9 MiB  16.0   8     0.391%         -      -  L3        3
ribbon       1.9 MiB  16.0  15   0.00305%         -      -  L3        4
|
Not possible:
  quotient     --bits-per-key: found 16, expected enough space for 1000000 items in a quotient
               filter
  scalable     --bits-per-key, --bytes: found 16, 0, expected 0, because a scalable filter requires
               a rate
  window       --bits-per-key, --bytes: found 16, 0, expected 0, because a window requires a rate
|
Use blocked: a lookup reads 9 bits of one cache line; 1.9 MiB, 0.0846% false positives.
  bloomgate build --kind blocked --items 1000000 --bits-per-key 16 OUT KEYS
|
Alternatives if:
  - all keys are known in advance: ribbon has a false-positive rate of 0.00305% in 1.9 MiB; no keys
    can be added later
  - memory matters more than speed: classic has a false-positive rate of 0.0459% in 1.9 MiB; a
    lookup reads up to k cache lines
  - keys have to be deleted: cuckoo has a false-positive rate of 0.146% in 1.9 MiB
  - there may be twice as many keys: plan for them (--growth 2); otherwise blocked has 3.38% false
    positives, 40 times as many
$ bloomgate plan -n 1k --bytes 2k | head -6
1,000 keys, 2.0 KiB
|
                      bits          false     at 2x     at  fits  lines
kind            size  /key   k  positives  the keys    10x  into   read
classic      2.0 KiB  16.0  11    0.0459%     4.05%  98.9%  L1       11
partitioned  2.0 KiB  16.0  10    0.0471%     3.42%  98.1%  L1       10

# A requested kind is compared with the kind that plan would otherwise select.
$ bloomgate plan -n 1M --bits-per-key 14 --kind cuckoo
1,000,000 keys, 14 bits per key
|
                 bits          false     at 2x    at  fits  lines
kind       size  /key   k  positives  the keys   10x  into   read
cuckoo  1.7 MiB  14.0  12     0.167%      full  full  L3        2
|
Planned cuckoo: as requested; 1.7 MiB, 0.167% false positives.
  bloomgate build --kind cuckoo --items 1000000 --bits-per-key 14 OUT KEYS
Without --kind, plan would choose blocked: 1.7 MiB, 0.185% false positives.
$ bloomgate plan -n 1M -p 1% -k blocked | tail -5
  bloomgate build --kind blocked --items 1000000 --rate 0.01 OUT KEYS
|
Alternatives if:
  - there may be twice as many keys: plan for them (--growth 2); otherwise blocked has 12.3% false
    positives, 12 times as many
$ bloomgate plan -n 1M -p 1% -k scalable --growth 4 --folds 2 | tail -4
Planned scalable: as requested; 3 layers of blocked filters, each 2 times as large as the previous
  one; 11.5 MiB, 0.36% false positives.
  bloomgate build --kind scalable --items 1000000 --rate 0.01 --folds 2 OUT KEYS
Without --kind, plan would choose blocked: 4.7 MiB, 1% false positives.
$ bloomgate plan -n 1M -p 1% -k split --bits 8 --folds 3 | tail -5
Without --kind, plan would choose blocked: 1.2 MiB, 0.997% false positives.
|
Alternatives if:
  - there may be twice as many keys: plan for them (--growth 2); otherwise split has 15.3% false
    positives, 15 times as many

# The blocked kind is not recommended if it would waste memory or exceed the limits. If the
# requested kind cannot meet the rate, plan fails.
$ bloomgate plan -n 1M -p 1e-8 | tail -15
|
Not possible:
  counting     --rate: 1e-08 for 1000000 items cannot be reached with 1024 bits per key
|
Use classic, which reads up to 27 cache lines per lookup: a blocked filter would need over 1.5 times
  the memory; 4.6 MiB, 0.000001% false positives.
  bloomgate build --kind classic --items 1000000 --rate 1e-08 OUT KEYS
|
Alternatives if:
  - all keys are known in advance: ribbon needs 3.2 MiB, 29% less; no keys can be added later
  - keys have to be deleted: cuckoo needs 4.0 MiB, 12% less
  - the number of keys is unknown: scalable needs 10.8 MiB, 136% more; it grows
  - keys have to expire: window needs 6.6 MiB, 44% more
  - there may be twice as many keys: plan for them (--growth 2); otherwise classic has 0.0515% false
    positives, over 1000 times as many
$ bloomgate plan -n 1M -p 1e-12 --kind split
! bloomgate plan: --rate: 1e-12 for 1000000 items cannot be reached with 1024 bits per key
? 2
$ bloomgate plan -n 1M -p 1e-30
1,000,000 keys, false-positive rate at most 1e-30
|
                       bits          false     at 2x        at  fits  lines
kind             size  /key   k  positives  the keys       10x  into   read
classic      18.4 MiB   154  64   9.98e-31  1.23e-16     36.3%  L3       64
partitioned  18.4 MiB   154  64   9.92e-31  1.22e-16     36.2%  L3       64
window       24.7 MiB   207  64   8.73e-31  8.73e-31  3.07e-20  L3      512
|
Not possible:
  blocked      --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  split        --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  register     --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  counting     --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  cuckoo       --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  quotient     --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  fuse         --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  ribbon       --rate: 1e-30 for 1000000 items cannot be reached with 1024 bits per key
  scalable     --rate: 1.024e-31 for 1000000 items cannot be reached with 1024 bits per key
|
Use classic, which reads up to 64 cache lines per lookup: a blocked filter would exceed the limits;
  18.4 MiB, 9.98e-31 false positives.
  bloomgate build --kind classic --items 1000000 --rate 1e-30 OUT KEYS
|
Alternatives if:
  - keys have to expire: window needs 24.7 MiB, 34% more
  - there may be twice as many keys: plan for them (--growth 2); otherwise classic has 1.23e-16
    false positives, over 1000 times as many

# With --growth, the filter is sized for the final number of keys.
$ bloomgate plan -n 1M -p 1% --growth 2.5 | sed -n '1p;/^blocked/p;/build/p'
1,000,000 keys, growing to 2,500,000, false-positive rate at most 1%
blocked       3.0 MiB   9.9   6         1%     12.3%   98.6%  L3        1
  bloomgate build --kind blocked --items 2500000 --rate 0.01 OUT KEYS

# If a lookup rate is specified, plan shows how many calls to the backing store are avoided per
# second, and how many are wasted.
$ bloomgate plan -n 1G -p 1% --queries-per-second 50k --absent-share 90% | head -7
1,000,000,000 keys, false-positive rate at most 1%
|
                      bits          false     at 2x      at  fits    lines  calls/s  calls/s
kind            size  /key   k  positives  the keys     10x  into     read  avoided   wasted
classic      1.1 GiB   9.6   7         1%     15.7%   99.5%  memory      7    44.6k      450
partitioned  1.1 GiB   9.6   7         1%     15.7%   99.5%  memory      7    44.6k      450
blocked      1.2 GiB   9.9   6         1%     12.3%   98.6%  memory      1    44.6k      450
$ bloomgate plan -n 1G -p 1% --queries-per-second 10 --absent-share 1 | sed -n '7p'
blocked      1.2 GiB   9.9   6         1%     12.3%   98.6%  memory      1     9.90     0.10
$ bloomgate plan -n 1G -p 1% --queries-per-second 10 --absent-share 100% | sed -n '7p'
blocked      1.2 GiB   9.9   6         1%     12.3%   98.6%  memory      1     9.90     0.10

# If costs are specified but no false-positive rate is, plan finds the cheapest rate.
$ bloomgate plan -n 1G --queries-per-second 50k --call-cost 1e-7 --memory-cost 1e-6 | head -8
1,000,000,000 keys, at the cheapest rate
|
                     bits        false    at 2x      at fits   lines calls/s calls/s     cost
kind            size /key  k positives the keys     10x into    read avoided  wasted       /s
classic      2.4 GiB 20.7 14  0.00492%    1.54%   98.4% memory    14   50.0k    2.46 2.65e-06
partitioned  2.4 GiB 20.7 14  0.00492%    1.54%   98.4% memory    14   50.0k    2.46 2.65e-06
blocked      2.7 GiB 23.1 12   0.0073%   0.805%   93.6% memory     1   50.0k    3.65 3.05e-06
split        3.0 GiB 25.7  8   0.0114%   0.392%     70% memory     1   50.0k    5.72 3.56e-06
$ bloomgate plan -n 1G -p 1% --memory-cost 2 | sed -n '3,7p'
                      bits          false     at 2x      at  fits    lines  cost
kind            size  /key   k  positives  the keys     10x  into     read    /s
classic      1.1 GiB   9.6   7         1%     15.7%   99.5%  memory      7  2.23
partitioned  1.1 GiB   9.6   7         1%     15.7%   99.5%  memory      7  2.23
blocked      1.2 GiB   9.9   6         1%     12.3%   98.6%  memory      1  2.31

# The rate that plan finds is the cheapest: doubling or halving it increases the cost.
$ cost() { bloomgate plan -n 1G -k blocked --queries-per-second 50k --call-cost 1e-7 --memory-cost 1e-6 --json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["kinds"][0]["cost_per_second"])'; }; python3 -c 'import sys; a, b, c = map(float, sys.argv[1:]); print(a < b, a < c)' $(cost) $(cost -p 1.5e-4) $(cost -p 3.5e-5)
True True

# If a call takes 5 ms, a latency objective of 10 us requires a false-positive rate of 0.2%.
$ bloomgate plan -n 1M --call-time 5ms --latency 10us | sed -n '1p;/^blocked/p;/calls delay/p'
1,000,000 keys, mean delay at most 10 us per absent key
blocked      1.6 MiB  13.8   9       0.2%     6.41%    98.7%  L3        1
  Unnecessary calls delay lookups of absent keys by 10 us on average.
$ bloomgate plan -n 1M -p 0.1% --call-time 1s | grep delay
  Unnecessary calls delay lookups of absent keys by 999 us on average.

# JSON.
$ bloomgate plan -n 1M -p 1% --json | python3 -m json.tool > plan.json
$ bloomgate plan -n 1M -p 1e-8 --growth 2 --queries-per-second 1k --absent-share 0.5 --call-cost 2 --memory-cost 3 --call-time 1s --latency 1ms --folds 1 --json > all.json
$ python3 -c 'import json; p = json.load(open("all.json")); print(p["schema"], p["request"], *p["recommended"].values(), sep="\n"); print([k["kind"] for k in p["kinds"] if k["possible"]]); print(*(k for k in p["kinds"] if not k["possible"]), sep="\n")'
bloomgate.plan.1
{'kind': 'auto', 'items': 1000000, 'rate': 1e-08, 'folds': 1, 'growth': 2, 'queries_per_second': 1000, 'absent_share': 0.5, 'call_cost': 2, 'memory_cost': 3, 'call_seconds': 1, 'latency_seconds': 0.001}
classic
classic, which reads up to 27 cache lines per lookup: a blocked filter would need over 1.5 times the memory
['classic', 'partitioned', 'blocked', 'split', 'register', 'scalable']
{'kind': 'counting', 'possible': False, 'why': '--folds: found 1 for a counting filter, expected 0, because this kind cannot be folded'}
{'kind': 'cuckoo', 'possible': False, 'why': '--folds: found 1 for a cuckoo filter, expected 0, because this kind cannot be folded'}
{'kind': 'quotient', 'possible': False, 'why': '--folds: found 1 for a quotient filter, expected 0, because this kind cannot be folded'}
{'kind': 'fuse', 'possible': False, 'why': '--folds: found 1 for a fuse filter, expected 0, because this kind cannot be folded'}
{'kind': 'ribbon', 'possible': False, 'why': '--folds: found 1 for a ribbon filter, expected 0, because this kind cannot be folded'}
{'kind': 'window', 'possible': False, 'why': '--folds: found 1, 0, expected 0 for a window'}
$ python3 -c 'import json; p = json.load(open("plan.json")); print(*p["kinds"][2]); print({k["kind"]: (k["rate"], k["rate_2x"]) for k in p["kinds"]}); print(p["hints"])'
kind possible items bytes bits_per_key k units layers rate rate_2x rate_10x fill target cache_level fits_into lines_per_lookup
{'classic': (0.00999745, 0.157027), 'partitioned': (0.00999967, 0.157049), 'blocked': (0.00999777, 0.123354), 'split': (0.00999973, 0.153024), 'register': (0.00999673, 0.0782742), 'counting': (0.00999958, 0.104149), 'cuckoo': (0.0018545, None), 'quotient': (0.00742289, None), 'fuse': (0.00390625, None), 'ribbon': (0.0078125, None), 'scalable': (0.00199993, 0.0020395), 'window': (0.00872809, 0.00873135)}
['all keys are known in advance: ribbon needs 863 KiB, 29% less; no keys can be added later', 'keys have to be deleted: cuckoo needs 1.5 MiB, 27% more', 'the number of keys is unknown: scalable needs 1.6 MiB, 39% more; it grows', 'keys have to expire: window needs 2.3 MiB, 98% more', 'there may be twice as many keys: plan for them (--growth 2); otherwise blocked has 12.3% false positives, 12 times as many']
$ bloomgate plan -n 1k --bytes 2k --bits 8 -k classic --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["request"])'
{'kind': 'classic', 'items': 1000, 'bytes': 2000, 'k': 8}

# By default, each chart has twelve lines, one for each kind.
$ bloomgate plan -q -n 100M -p 0.1% --plot plan.svg > table; head -1 table
100,000,000 keys, false-positive rate at most 0.1%
$ python3 $CLI_TESTS/svg.py plan.svg
Planned filters
False-positive rate by number of keys: 12 of class series
Bits per key by false-positive rate: 12 of class series
blocked classic counting cuckoo fuse partitioned quotient register ribbon scalable split window
$ bloomgate plan -n 1k -p 10% --plot plan.svg
! bloomgate plan: plan.svg: already exists; use -f to overwrite it
? 2
$ bloomgate plan -n 1k -p 10% -k classic --plot plan.svg -f | head -1; python3 $CLI_TESTS/svg.py plan.svg
1,000 keys, false-positive rate at most 10%
Planned filters
False-positive rate by number of keys: 1 of class series
Bits per key by false-positive rate: 1 of class series
classic
$ bloomgate plan -n 1k -p 10% --plot no/such/folder.svg > table
! bloomgate plan: no/such/folder.svg: No such file or directory
? 4
$ bloomgate plan -n 1G --bytes 1Gi --plot bytes.svg > table; python3 $CLI_TESTS/svg.py bytes.svg; ls *.svg*
Planned filters
False-positive rate by number of keys: 8 of class series
Bits per key by false-positive rate: 12 of class series
blocked classic counting cuckoo fuse partitioned quotient register ribbon scalable split window
bytes.svg
plan.svg

# --calibrate measures every kind that can meet the request.
$ bloomgate plan -n 10k -p 1% --calibrate -q | sed -n '/Measured/,$p'
Measured on this machine with one thread and integer keys: lookups per second of CPU time, median
of 5 passes. Filters are built as planned, but with at most 64 MiB and 8M keys (static kinds: 4M).
|
...build...batches,...one
kind          keys      size...ns/key ...
classic      10.0k  11.7 KiB...
partitioned  10.0k  11.8 KiB...
blocked      10.0k  12.1 KiB...
split        10.0k  12.9 KiB...
register     10.0k  14.5 KiB...
counting     10.0k  53.3 KiB...
cuckoo       10.0k  15.4 KiB...
quotient     10.0k  16.8 KiB...
fuse         10.0k  12.5 KiB...
ribbon       10.0k   9.5 KiB...
scalable     10.0k  16.9 KiB...
window       10.0k  23.6 KiB...
|
Hashing with a secret (--hash keyed) takes ... ns more per 16-byte key.
$ bloomgate plan -n 10k --bits-per-key 10 --calibrate --json | python3 -c 'import json, sys; p = json.load(sys.stdin); print(p["keyed_hash_ns"] >= 0); print(*(k["kind"] for k in p["kinds"] if k["possible"] and min(k["measured"].values()) > 0))'
True
classic partitioned blocked split register counting cuckoo ribbon

# A size that is too small for a static kind is refused.
$ bloomgate plan -n 10k --bits-per-key 10 -k fuse
! bloomgate plan: --bits-per-key: too small for 10000 keys in a fuse filter
? 2

# Error messages name the options.
$ bloomgate plan
! bloomgate plan: missing option --items
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -p 1%
! bloomgate plan: missing option --items
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M
! bloomgate plan: specify --rate, --bits-per-key or --bytes; or --queries-per-second, --call-cost and --memory-cost to find the cheapest rate
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --bytes 1M
! bloomgate plan: --rate, --bits-per-key and --bytes are mutually exclusive
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1
! bloomgate plan: --rate: found '1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M --bits-per-key 2000
! bloomgate plan: --bits-per-key: found 2000, expected 1 .. 1024
? 2
$ bloomgate plan -n 1M --bytes 0.5
! bloomgate plan: --bytes: found '0.5', expected a number of bytes such as 64k, 512M or 2Gi
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --growth 0.5
! bloomgate plan: --growth: found 0.5, expected 1 .. 1000000
? 2
$ bloomgate plan -n 1M -p 1% --folds 30
! bloomgate plan: --folds: found 30, expected 0 .. 20
? 2
$ bloomgate plan -n 1M -p 1% --bits 100
! bloomgate plan: --bits: found 100, expected 3 .. 16 for a blocked filter
? 2
$ bloomgate plan -n 1e17 -p 1%
! bloomgate plan: --items: found 100000000000000000, expected 1 .. 2^56
? 2
$ bloomgate plan -n 1M -p 1% --absent-share 0.5
! bloomgate plan: --absent-share requires --queries-per-second
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --call-cost 1
! bloomgate plan: --call-cost requires --queries-per-second
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --queries-per-second 1 --absent-share 1.5
! bloomgate plan: --absent-share: found '1.5', expected a share above 0 and at most 1, such as 0.9 or 90%
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --queries-per-second 1 --absent-share 0
! bloomgate plan: --absent-share: found '0', expected a share above 0 and at most 1, such as 0.9 or 90%
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M --latency 1ms
! bloomgate plan: --latency requires --call-time
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M --latency 2ms --call-time 1ms
! bloomgate plan: --latency: found 0.002, expected less than --call-time (otherwise no filter is needed)
? 2
$ bloomgate plan -n 1M --bits-per-key 2 --latency 1us --call-time 1ms
! bloomgate plan: the latency objective of 1e-06 seconds cannot be met: with the specified size, an absent key takes 0.000469679 seconds on average
? 2
$ bloomgate plan -n 1M -p 1% keys.txt
! bloomgate plan: unexpected argument 'keys.txt'; plan accepts only options
! Try 'bloomgate plan --help'.
? 2
$ bloomgate plan -n 1M -p 1% --kind bloked
! bloomgate plan: --kind: found 'bloked', expected one of auto, classic, partitioned, blocked, split, register, counting, cuckoo, quotient, fuse, ribbon, scalable, window; did you mean blocked?
! Try 'bloomgate plan --help'.
? 2

# A rate far below the requested rate is shown as a limit, not with an exponent.
$ bloomgate plan -n 100 -p 1% | grep -E '^(scalable|window) '
scalable     2.0 KiB   164   8     <0.01%    <0.01%  0.0788%  L1        1
window         576 B  46.1  10     <0.01%    <0.01%   <0.01%  L1        8
$ seq 1000 | bloomgate dedup -q -c --memory 1k
257
! bloomgate dedup: stopped after 257 lines: the filter is full (about 255 keys), and more than 0.000102% of new lines would be dropped; use a larger --memory
? 5

# For a window, plan states the size if all keys arrive in one period, which is what its command creates from a file.
$ bloomgate plan -n 30k -p 1% -k window | grep -A1 '^Note'
Note: this plan assumes that keys arrive evenly over the window. If all keys arrive in one period,
  the window grows to about 160 KiB, and with twice as many keys, its rate may be too high.
$ seq 30000 > keys; bloomgate build -q -k window -n 30000 -p 0.01 -t 1 w.bg keys; bloomgate info w.bg | grep -o 'size.*KiB'; rm keys
size         149 KiB
