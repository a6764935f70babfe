# bloomgate add and remove: add keys to filter files and remove keys from them.

$ seq 1000 > a; seq 1001 1500 > b
$ bloomgate build -q --items 2000 --generation 5 --note hello --trim f.bg a
$ bloomgate add f.bg b
! bloomgate add: f.bg: keys added: 500, definitely new: 499
! bloomgate add: f.bg: blocked, about 1,504 keys, 2.4 KiB, false-positive rate 0.269% (target 1%)
$ bloomgate check -c f.bg a b
1500
$ bloomgate info f.bg | grep -E 'generation|canaries|note|keys  '
  keys         trim
  generation   5
  canaries     yes
  note         hello
$ bloomgate canary -q f.bg

# One thread reads keys from a pipe. Keys that are already in the filter are not counted as
# new. The file specifies that keys are trimmed.
$ sed 's/$/   /' b | bloomgate add -t 1 f.bg
! bloomgate add: f.bg: keys added: 500, definitely new: 0
! bloomgate add: f.bg: blocked, about 1,504 keys, 2.4 KiB, false-positive rate 0.269% (target 1%)

# The result is identical to a filter built from all keys at once.
$ bloomgate build -q --items 2000 --generation 5 --trim all.bg a b; bloomgate diff -q f.bg all.bg

# The result can be written to another file.
$ echo new | bloomgate add -q -o g.bg f.bg
$ echo new | bloomgate check -c f.bg; echo new | bloomgate check -c g.bg
0
1
$ echo new | bloomgate add -q -o g.bg f.bg
! bloomgate add: g.bg: already exists; use -f to overwrite it
? 2
$ echo more | bloomgate add -q -f -o g.bg f.bg; echo new | bloomgate check -c g.bg
0
? 1

# If the generation changes, the file keeps its canaries.
$ bloomgate add -q -g 6 -o g6.bg f.bg /dev/null; bloomgate info g6.bg | grep -E 'generation|canaries'
  generation   6
  canaries     yes
$ bloomgate canary g6.bg | head -2
generation   5
present      16 of 16 found
$ seq 100 | bloomgate build -q -k blocked -n 100 -p 0.01 gens.bg; for g in 1 2 3 4 5; do echo 1 | bloomgate add -q -g $g gens.bg; done; bloomgate info --json gens.bg | grep -oE '"(generation|canaries|version|status)": [^,}]*'
"version": "1.2"
"generation": 5
"canaries": true
"status": "fine"
$ bloomgate info gens.bg | grep -E 'keys stored'
  keys stored  about 100 of 100 (95 to 105)
$ seq 100 | bloomgate build -q -k cuckoo -n 100 -p 0.01 full.bg; echo 1 | bloomgate add -q -g 1 full.bg; bloomgate canary full.bg | grep -E 'generation|present|verdict'
generation   0
present      16 of 16 found
verdict      passed
$ seq 100 | bloomgate build -q -k fuse sealed.bg; bloomgate convert -q --to bloomgate -g 1 sealed.bg sealed1.bg; bloomgate canary sealed1.bg | grep -E 'generation|present|verdict'
generation   0
present      16 of 16 found
verdict      passed
$ bloomgate add -g six f.bg b
! bloomgate add: --generation: found 'six', expected a whole number
! Try 'bloomgate add --help'.
? 2
$ echo 1 | bloomgate build -q --items 2000 --no-canaries bare.bg; bloomgate add -q -g 3 bare.bg b; bloomgate info bare.bg | grep canaries
  canaries     none

# The file mode is preserved, and a symbolic link remains a link.
$ chmod 640 f.bg; ln -s f.bg link.bg; echo linked | bloomgate add -q link.bg; stat -c %F link.bg; stat -c %a f.bg; echo linked | bloomgate check -c f.bg
symbolic link
640
1

# Adding more keys than the filter was designed for causes a warning.
$ seq 5000 | bloomgate add -t 1 -o over.bg f.bg
! bloomgate add: over.bg: keys added: 5,000, definitely new: 3,173
! bloomgate add: over.bg: blocked, about 5,005 keys, 2.4 KiB, false-positive rate 27.2% (target 1%)
! bloomgate add: warning: the filter holds more keys than its capacity of 2,000, so its false-positive rate is 27.2% (target 1%); build a larger filter

# The warning is printed even with -q.
$ seq 3000 | bloomgate build -q -t 1 -n 2000 over2.bg; seq 5000 | bloomgate add -q -t 1 -o over3.bg f.bg
! bloomgate build: warning: the filter holds more keys than its capacity of 2,000, so its false-positive rate is 5.45% (target 1%); increase --items
! bloomgate add: warning: the filter holds more keys than its capacity of 2,000, so its false-positive rate is 27.2% (target 1%); build a larger filter

# Duplicates of a key do not fill a cuckoo filter. If a duplicate does not fit, the key can no
# longer be removed.
$ yes same | head -70000 > same; for options in "-n 1" "-n 1M" ""; do bloomgate build -qf -k cuckoo $options copies.bg same; bloomgate check -c copies.bg same; seq 20 > others; bloomgate check -c -v copies.bg others; cat same | bloomgate build -qf -k cuckoo $options copies.bg; bloomgate check -c copies.bg same; done
70000
20
70000
70000
20
70000
70000
20
70000
$ bloomgate build -qf -k cuckoo -n 100 copies.bg others; bloomgate add -q copies.bg same; for i in $(seq 12); do echo same; done | bloomgate remove -q copies.bg; bloomgate check -c copies.bg others; echo same | bloomgate check copies.bg
20
same
$ for kind in counting quotient; do bloomgate build -qf -k $kind -n 10 copies.bg same; bloomgate check -c copies.bg same; done
70000
70000

# The contents of a filter do not depend on the number of threads, even if they depend on the order of the keys.
$ seq 3000000 > ordered; for kind in scalable cuckoo quotient window; do for t in 1 4 4; do bloomgate build -qf -p 1e-3 -k $kind -n 3M -t $t $kind.$t.bg < ordered; bloomgate diff -q $kind.1.bg $kind.$t.bg || echo $kind $t; done; bloomgate check -v -c $kind.4.bg ordered; done; for t in 1 4 4; do bloomgate build -qf -t $t pipe.$t.bg < ordered; bloomgate diff -q pipe.1.bg pipe.$t.bg || echo pipe $t; done; rm ordered
0
0
0
0

# Copies share two buckets, and may leave no space for another key although the filter has space for all
# keys. So each key is added once before copies are added.
$ python3 -c "import random; random.seed(1); [print(int(random.random() * 12000)) for _ in range(15000)]" > repeated; bloomgate build -f -k cuckoo copies.bg repeated; bloomgate check -v -c copies.bg repeated; bloomgate build -qf -k cuckoo pipe.bg < repeated; bloomgate check -v -c pipe.bg repeated
0
0
! bloomgate build: copies.bg: cuckoo, 15,000 keys, ...
! bloomgate build: copies of repeated keys that did not fit: ...; removes may have no effect; if you remove keys, increase --items or use --kind quotient
? 1
$ bloomgate build -qf -k cuckoo -n 20k copies.bg repeated; bloomgate remove --strict -q copies.bg repeated; bloomgate check -c copies.bg repeated
0
? 1

# Duplicates are counted the same way in a file and in a pipe, and a key stays in the filter until
# it has been removed as many times as it was added.
$ (seq 100; seq 51 100) > twice; for kind in counting cuckoo quotient; do bloomgate build -qf -k $kind file.bg twice; cat twice | bloomgate build -qf -k $kind pipe.bg; cat /dev/null | bloomgate build -qf -k $kind none.bg; bloomgate canary none.bg | grep verdict; for f in file pipe; do seq 100 | bloomgate remove --strict -q $f.bg; seq 51 100 | bloomgate check -c $f.bg; bloomgate canary $f.bg | grep verdict; done; done
verdict      passed
50
verdict      passed
50
verdict      passed
verdict      passed
50
verdict      passed
50
verdict      passed
verdict      passed
50
verdict      passed
50
verdict      passed

# Filters of a kind that can fill up reject keys when full, and the file stays unchanged.
$ seq 100 | bloomgate build -q --items 100 --kind cuckoo c.bg; cp c.bg before.bg
$ seq 1001 9000 | bloomgate add -t 1 c.bg
! bloomgate add: c.bg: the filter is full after 18 more keys, and the file is unchanged; build a larger filter
? 5
$ cmp c.bg before.bg
$ seq 101 120 | bloomgate add c.bg
! bloomgate add: c.bg: the filter is full after 18 more keys, and the file is unchanged; build a larger filter
? 5
$ seq 100 | bloomgate build -q --items 100 --kind quotient q.bg; seq 1001 9000 | bloomgate add -q -t 1 q.bg
! bloomgate add: q.bg: the filter is full after 132 more keys, and the file is unchanged; build a larger filter
? 5
$ seq 100000 | bloomgate build -q -k quotient crowded.bg; seq 100001 400000 > further; for i in 1 2 3 4 5; do bloomgate add -q -t 4 crowded.bg further; done
! bloomgate add: crowded.bg: the filter is full after ... more keys, and the file is unchanged; build a larger filter
! bloomgate add: crowded.bg: the filter is full after ... more keys, and the file is unchanged; build a larger filter
! bloomgate add: crowded.bg: the filter is full after ... more keys, and the file is unchanged; build a larger filter
! bloomgate add: crowded.bg: the filter is full after ... more keys, and the file is unchanged; build a larger filter
! bloomgate add: crowded.bg: the filter is full after ... more keys, and the file is unchanged; build a larger filter
? 5

# info explains the number of saturated counters, copies and keys.
$ yes a | head -1000 | bloomgate build -q -k counting -n 10 sat1.bg; yes a | head -90 | bloomgate build -q -k cuckoo -n 100 sat2.bg; seq 10 | bloomgate build -q -k window -n 10 sat3.bg; bloomgate add -q -o sat4.bg sat3.bg further; for i in 1 2 3 4; do bloomgate info sat$i.bg | grep -E 'health|saturated'; done
  health       fine
  saturated    7 counters at their maximum, so their keys cannot be removed
  health       fine
  saturated    82 copies of keys that did not fit
  health       fine
  health       act: holds more keys than its capacity of 10, so its false-positive rate is 100% (target 1%)
  saturated    ... keys beyond the capacity of their layer
! bloomgate add: warning: the filter holds more keys than its capacity of 10, so its false-positive rate is 100% (target 1%); build a larger filter

# Static filters accept no more keys after they are built; scalable filters accept any number of
# keys.
$ seq 100 | bloomgate build -q --kind fuse fuse.bg; echo x | bloomgate add fuse.bg
! bloomgate add: fuse.bg: a filter of kind fuse is built from all keys at once and cannot be extended; build a new filter
? 2
$ seq 100 | bloomgate build -q --kind ribbon ribbon.bg; echo x | bloomgate add ribbon.bg
! bloomgate add: ribbon.bg: a filter of kind ribbon is built from all keys at once and cannot be extended; build a new filter
? 2
$ seq 2000000 | bloomgate build -qf --kind scalable -p 1% s.bg; seq 2000000 | bloomgate check -v -c s.bg; rm s.bg
0
$ seq 100 | bloomgate build -q --kind window w.bg
! bloomgate build: a window filter requires --items (the number of distinct keys) if the input is not an uncompressed regular file
! Try 'bloomgate build --help'.
? 2

# A window keeps its rate when all of its keys arrive in one period, with the number of keys counted
# or set as plan recommends. A window with far too many keys is not written.
$ seq 30000 > w; for n in "" "-n 30000" "-n 20000"; do bloomgate build -qf -t 1 -k window -p 1% $n w.bg w; bloomgate info w.bg | grep -E 'current rate|health'; done; bloomgate build -f -t 1 -k window -p 1% -n 10000 w.bg w
  current rate 0.119% (target 1%)
  health       fine
  current rate 0.119% (target 1%)
  health       fine
  current rate 0.486% (target 1%)
  health       fine
! bloomgate build: the filter would have a false-positive rate of 27.8% (target 1%), because it was planned for 10,000 keys, and 30,000 were read; increase --items to the number of distinct keys, or omit it
? 5

# A scalable filter grows with its keys, so there is no warning.
$ seq 1200000 | bloomgate build s.bg; rm s.bg
! bloomgate build: s.bg: scalable, 1,200,000 keys, 5.2 MiB, false-positive rate 0.2% (target 1%), ...
$ seq 100 | bloomgate build -q --kind scalable --items 100 s.bg; seq 20000 | bloomgate add -t 1 s.bg
! bloomgate add: s.bg: keys added: 20,000, definitely new: 19,810
! bloomgate add: s.bg: scalable, about 19,953 keys, 62.0 KiB, false-positive rate 0.597% (target 1%)
$ seq 20000 | bloomgate check -c s.bg
20000

# A full disk, invalid keys or missing input leaves the file unchanged.
$ seq 100000 | bloomgate build -q --items 100000 big.bg; cp big.bg before.bg
$ (trap '' XFSZ; ulimit -f 16; echo x | bloomgate add big.bg) 2>&1 | sed 's/: .*big/: big/'
bloomgate add: big.bg: File too large
$ cmp big.bg before.bg; ls *tmp* 2>/dev/null
? 2
$ seq 10 | bloomgate build -q --items 10 --as int64 i.bg; cp i.bg before.bg; echo word | bloomgate add i.bg
! bloomgate add: stdin: line 1: not valid int64: 'word'; to skip such records, use --skip-invalid
? 3
$ bloomgate add i.bg missing
! bloomgate add: missing: No such file or directory
? 4
$ cmp i.bg before.bg

# Damaged, truncated and newer files are refused, and so are files that are not filters, directories
# and missing files.
$ cp big.bg hurt.bg; printf 'xyz' | dd of=hurt.bg bs=1 seek=9000 conv=notrunc status=none; echo x | bloomgate add hurt.bg
! bloomgate add: hurt.bg: block: found checksum 1a83733a in block 0, expected checksum ac7d2e96
? 3
$ echo x | bloomgate add --tolerate -o healed.bg hurt.bg
! bloomgate add: warning: hurt.bg: some blocks are damaged; lookups in them always return "maybe"
! bloomgate add: healed.bg: keys added: 1, definitely new: 1
! bloomgate add: healed.bg: blocked, about 223,778 keys, 121 KiB, false-positive rate 17% (target 1%)
! bloomgate add: warning: the filter holds more keys than its capacity of 100,000, so its false-positive rate is 17% (target 1%); build a larger filter
$ head -c 9000 big.bg > short.bg; echo x | bloomgate add short.bg
! bloomgate add: short.bg: file size: found 9000 bytes, expected 132360 bytes
? 3
$ cp big.bg newer.bg; python3 $CLI_TESTS/set_header.py newer.bg 8 2; echo x | bloomgate add newer.bg
! bloomgate add: newer.bg: format version: found 2.2, expected 1.x
? 3
$ echo x | bloomgate add a
! bloomgate add: a: not a filter in any known format
? 3
$ mkdir folder; echo x | bloomgate add folder
! bloomgate add: folder: not a regular file, so it cannot be replaced
? 2
$ echo x | bloomgate add missing.bg
! bloomgate add: missing.bg: No such file or directory
? 4
$ echo x | bloomgate add -o folder f.bg
! bloomgate add: folder: not a regular file, so it cannot be replaced
? 2
$ bloomgate add
! bloomgate add: missing argument FILTER
! Try 'bloomgate add --help'.
? 2
$ printf 'bloomgate-pointer 1\nf.bg\n' > pointer; echo x | bloomgate add pointer
! bloomgate add: pointer: points to a published file, which must not change; use -o to write to another file
? 2
$ echo pointed | bloomgate add -q -o pointed.bg pointer; echo pointed | bloomgate check -c pointed.bg
1
$ cp $CLI_TESTS/../golden/files/blocked.bg odd.bg; echo x | bloomgate add odd.bg
! bloomgate add: odd.bg: unknown key conversion 'URL, lower case'; the file may be from a newer version
? 3
$ for note in 'keys: lower' "$(printf 'mine\nkeys: of customers')"; do seq 3 | bloomgate build -q --items 10 --note "$note" note.bg; done; ls note.bg
! bloomgate build: --note: must not contain a line that starts with 'keys: ', which is reserved for --trim, --lower and --as
! Try 'bloomgate build --help'.
! bloomgate build: --note: must not contain a line that starts with 'keys: ', which is reserved for --trim, --lower and --as
! Try 'bloomgate build --help'.
! ls: cannot access 'note.bg': No such file or directory
? 2

# Secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ seq 10 | bloomgate build -q --items 100 --hash keyed --keyring ring k.bg
$ echo x | bloomgate add k.bg
! bloomgate add: k.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ echo x | bloomgate add --keyring other k.bg
! bloomgate add: other: does not contain the secret for k.bg
? 3
$ echo x | bloomgate add -q --keyring ring k.bg; echo x | bloomgate check -c --keyring ring k.bg; bloomgate info k.bg | grep 'key id'
1
  key id       one

# Keys can be added to filters created by other software.
$ bloomgate convert -q --from-keys a --items 2000 --to guava g.bf; bloomgate add --format guava g.bf b
! bloomgate add: g.bf: keys added: 500, definitely new: 500
$ bloomgate check -c --format guava g.bf a b
1500
$ bloomgate convert -q --from-keys a --from-keys b --items 2000 --to guava all.bf; cmp g.bf all.bf
$ bloomgate add --format guava -g 1 g.bf b
! bloomgate add: --generation requires a bloomgate file
! Try 'bloomgate add --help'.
? 2
$ echo x | bloomgate add $CLI_TESTS/../golden/tables/leveldb_plain.ldb 2>&1 | sed 's/: .*leveldb_/: leveldb_/'
bloomgate add: leveldb_plain.ldb: filters in leveldb format are read-only
$ cp g.bf before.bf; (trap '' XFSZ; ulimit -f 1; echo x | bloomgate add --format guava g.bf) 2>&1 | sed 's/: .*g.bf/: g.bf/'; cmp g.bf before.bf; ls *tmp 2>/dev/null
bloomgate add: g.bf: File too large
? 2
$ seq 10 | bloomgate convert -q --from-keys - --items 10 --rate 0.1 --to bip158 --block-key 000102030405060708090a0b0c0d0e0f b158; echo x | bloomgate add --format bip158 --block-key 000102030405060708090a0b0c0d0e0f b158
! bloomgate add: b158: cannot add keys to a loaded bip158 filter, because the format does not store the hashes of the keys; create a new filter
? 2
$ seq 100 | bloomgate convert -q --from-keys - --as int64 --items 100 --to guava i.bf; echo 7 | bloomgate add --format guava --as int64 i.bf
! bloomgate add: i.bf: keys added: 1, definitely new: 0
# The file does not record that the keys are integers.
$ seq 1000 1100 > absent; echo 0 > none; bloomgate check --format guava i.bf none; bloomgate check --format guava i.bf none absent -q; seq 100 | bloomgate check -c --format guava --as int64 i.bf; echo x | bloomgate check --format guava i.bf
100
! bloomgate check: i.bf: all keys are numbers, and the guava format does not record the form of keys; if they were added as integers, use --as int64 or int32
? 1

# Removing.
$ seq 100 > c; for kind in counting cuckoo quotient; do bloomgate build -q --items 200 --kind $kind $kind.bg c; seq 51 100 | bloomgate remove $kind.bg; bloomgate check -c $kind.bg c; bloomgate canary -q $kind.bg || echo canaries; done
50
50
50
! bloomgate remove: counting.bg: keys removed: 50, definitely not in the filter: 0
! bloomgate remove: counting.bg: counting, about 51 keys, 1.2 KiB, false-positive rate below 0.01% (target 1%)
! bloomgate remove: cuckoo.bg: keys removed: 50, definitely not in the filter: 0
! bloomgate remove: cuckoo.bg: cuckoo, about 50 keys, 384 B, false-positive rate 0.0508% (target 1%)
! bloomgate remove: quotient.bg: keys removed: 50, definitely not in the filter: 0
! bloomgate remove: quotient.bg: quotient, about 50 keys, 640 B, false-positive rate 0.201% (target 1%)
$ seq 51 60 | bloomgate remove quotient.bg
! bloomgate remove: quotient.bg: keys removed: 0, definitely not in the filter: 10
! bloomgate remove: quotient.bg: quotient, about 50 keys, 640 B, false-positive rate 0.201% (target 1%)
$ cp quotient.bg before.bg; seq 41 60 | bloomgate remove --strict quotient.bg
! bloomgate remove: quotient.bg: keys that are definitely not in the filter: 10; the file is unchanged
? 1
$ cmp quotient.bg before.bg
$ seq 41 50 | bloomgate remove --strict -o after.bg quotient.bg
! bloomgate remove: after.bg: keys removed: 10, definitely not in the filter: 0
! bloomgate remove: after.bg: quotient, about 40 keys, 640 B, false-positive rate 0.171% (target 1%)
$ bloomgate check -c after.bg c; bloomgate check -c quotient.bg c
40
50
$ bloomgate remove f.bg b
! bloomgate remove: f.bg: a filter of kind blocked does not support removal; kinds that do: counting, cuckoo, quotient
? 2
$ bloomgate remove fuse.bg b
! bloomgate remove: fuse.bg: a filter of kind fuse does not support removal; kinds that do: counting, cuckoo, quotient
? 2
$ bloomgate remove --format guava g.bf b
! bloomgate remove: g.bf: keys cannot be removed from filters in other formats
? 2
$ bloomgate remove
! bloomgate remove: missing argument FILTER
! Try 'bloomgate remove --help'.
? 2
$ bloomgate remove missing.bg b
! bloomgate remove: missing.bg: No such file or directory
? 4
$ bloomgate remove -o after.bg quotient.bg b
! bloomgate remove: after.bg: already exists; use -f to overwrite it
? 2
$ bloomgate remove quotient.bg missing
! bloomgate remove: missing: No such file or directory
? 4
$ seq 100 | bloomgate build -q --items 200 --kind counting --hash keyed --keyring ring kc.bg; bloomgate remove kc.bg c
! bloomgate remove: kc.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ bloomgate remove -t 1 --keyring ring kc.bg c
! bloomgate remove: kc.bg: keys removed: 100, definitely not in the filter: 0
! bloomgate remove: kc.bg: counting, about 0 keys, 1.2 KiB, false-positive rate below 0.01% (target 1%)

# A key that is converted differently from the file's other keys might never be found, so add prints
# a warning or refuses the keys.
$ echo Bob | bloomgate build -q --items 100 plain.bg; echo Eve | bloomgate add -q --lower plain.bg
! bloomgate add: warning: plain.bg: the file does not record how keys are converted; use the same conversion ('lower') for lookups
$ seq 9 | bloomgate build -q --items 100 --as int64 int64.bg; seq 9 | bloomgate add -q --as int32 int64.bg
! bloomgate add: int64.bg: its keys are converted with 'int64'; use the same --as, or omit it
! Try 'bloomgate add --help'.
? 2
$ echo ' 34' | bloomgate add --trim int64.bg
! bloomgate add: int64.bg: the file's keys were converted with different options ('int64', not 'trim,int64'); use the same --trim, --lower and --as
? 3
