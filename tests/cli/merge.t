# bloomgate merge, fold, split and join: create filters from other filters.

$ seq 1000 > a; seq 501 1500 > b
$ bloomgate build -q --items 2000 --folds 4 a.bg a
$ bloomgate build -q --items 2000 --folds 4 b.bg b
$ bloomgate merge ab.bg a.bg b.bg
! bloomgate merge: ab.bg: blocked, about 1,502 keys, 3.0 KiB, false-positive rate 0.0948% (target 1%)
$ seq 1500 | bloomgate check -c ab.bg
1500

# The result is identical to a filter built from the keys of both inputs.
$ cat a b | bloomgate build -q --items 2000 --folds 4 both.bg
$ bloomgate diff -q ab.bg both.bg

# Several filters can be merged, and the result can overwrite one of the inputs.
$ bloomgate merge -q abb.bg a.bg b.bg b.bg
$ bloomgate merge a.bg a.bg b.bg
! bloomgate merge: a.bg: already exists; use -f to overwrite it
? 2
$ bloomgate merge -q -f a.bg a.bg b.bg
$ seq 1500 | bloomgate check -c a.bg
1500

# The result has the note, generation and key conversion of the first filter.
$ seq 10 | bloomgate build -q --items 100 --generation 7 --note hello --lower l1.bg
$ seq 10 | bloomgate build -q --items 100 --generation 8 --note world --lower l2.bg
$ bloomgate merge -q l.bg l1.bg l2.bg
! bloomgate merge: warning: l2.bg: its notes differ from those of l1.bg and are discarded
$ bloomgate info l.bg | grep -E 'generation|canaries|note|keys'
  designed for 100 keys at a rate of 1%
  keys         lower
  generation   7
  canaries     yes
  note         hello
  keys stored  about 25 of 100 (24 to 27)
$ bloomgate merge -q --generation 9 l9.bg l1.bg l2.bg
! bloomgate merge: warning: l2.bg: its notes differ from those of l1.bg and are discarded
$ bloomgate info l9.bg | grep -E 'generation|canaries'
  generation   9
  canaries     yes
$ bloomgate canary l9.bg
generation   7
present      16 of 16 found
absent       0 of 4096 reported as "maybe": 0% (0% to 0.0937%), predicted below 0.01% (target 1%)
verdict      passed

# Filters that cannot be merged are reported.
$ seq 10 | bloomgate build -q --items 100 plain.bg
$ bloomgate merge no.bg l1.bg plain.bg
! bloomgate merge: l1.bg and plain.bg: keys were converted differently ('lower' and ''); build both filters with the same --trim, --lower and --as
? 3
$ seq 10 | bloomgate build -q --items 5000 large.bg
$ bloomgate merge no.bg plain.bg large.bg
! bloomgate merge: large.bg into plain.bg: k: found 7 and 6, expected the same in both filters
? 3
$ seq 10 | bloomgate build -q --items 100 --kind classic classic.bg
$ bloomgate merge no.bg plain.bg classic.bg
! bloomgate merge: classic.bg into plain.bg: kind: found classic, expected blocked
? 3
$ seq 10 | bloomgate build -q --items 100 --seed 1 seed.bg
$ bloomgate merge no.bg plain.bg seed.bg
! bloomgate merge: seed.bg into plain.bg: hash: found fast and fast, with different seeds, secrets or functions, expected the same in both filters
? 3
$ seq 10 | bloomgate build -q --kind fuse fuse.bg
$ bloomgate merge no.bg fuse.bg fuse.bg
! bloomgate merge: fuse.bg into fuse.bg: a fuse filter cannot be merged
? 2
$ seq 3000 | bloomgate build -q --items 3000 --kind cuckoo full.bg
$ bloomgate merge no.bg full.bg full.bg
! bloomgate merge: full.bg into full.bg: a cuckoo filter cannot be merged
? 2
$ seq 450 | bloomgate build -q --items 450 --kind quotient q1.bg; seq 1001 1450 | bloomgate build -q --items 450 --kind quotient q2.bg
$ bloomgate merge no.bg q1.bg q2.bg
! bloomgate merge: q2.bg into q1.bg: the filter has no space for the keys of both filters
? 5
$ ls no.bg
! ls: cannot access 'no.bg': No such file or directory
? 2

# Other errors.
$ bloomgate merge out.bg a.bg
! bloomgate merge: expected OUT and at least two filters
! Try 'bloomgate merge --help'.
? 2
$ bloomgate merge out.bg a.bg missing.bg
! bloomgate merge: missing.bg: No such file or directory
? 4
$ bloomgate merge out.bg missing.bg a.bg
! bloomgate merge: missing.bg: No such file or directory
? 4
$ mkdir folder; bloomgate merge out.bg a.bg folder
! bloomgate merge: folder: not a bloomgate filter file
? 3
$ bloomgate merge -f folder a.bg b.bg
! bloomgate merge: folder: not a regular file, so it cannot be replaced
? 2
$ bloomgate merge -f /dev/null a.bg b.bg
! bloomgate merge: /dev/null: not a regular file, so it cannot be replaced
? 2
$ mkfifo queue; ln -s queue to-queue; ln -s folder to-folder; ln -s /dev/null to-null; for to in queue to-queue to-folder to-null; do bloomgate merge -f $to a.bg b.bg; done; stat -c %F queue to-queue to-folder to-null
fifo
symbolic link
symbolic link
symbolic link
! bloomgate merge: queue: not a regular file, so it cannot be replaced
! bloomgate merge: to-queue: not a regular file, so it cannot be replaced
! bloomgate merge: to-folder: not a regular file, so it cannot be replaced
! bloomgate merge: to-null: not a regular file, so it cannot be replaced

# -f replaces the file that a symbolic link leads to, and the link remains a link. Without -f, a link
# can create a file, but not replace one.
$ mkdir far; ln -s far/hop.bg near.bg; ln -s end.bg far/hop.bg; bloomgate merge -q near.bg a.bg b.bg; bloomgate merge -q near.bg a.bg b.bg; bloomgate merge -qf near.bg a.bg b.bg; readlink near.bg far/hop.bg; ls far; bloomgate verify -q far/end.bg
far/hop.bg
end.bg
end.bg
hop.bg
! bloomgate merge: near.bg: already exists; use -f to overwrite it
$ seq 10 | bloomgate build -qf near.bg; readlink near.bg far/hop.bg; seq 10 | bloomgate check -c far/end.bg; ls far
far/hop.bg
end.bg
10
end.bg
hop.bg
$ bloomgate merge no-folder/out.bg a.bg b.bg
! bloomgate merge: no-folder/out.bg: No such file or directory
? 4
$ bloomgate merge --generation x out.bg a.bg b.bg
! bloomgate merge: --generation: found 'x', expected a whole number
! Try 'bloomgate merge --help'.
? 2
$ bloomgate merge out.bg a.bg a
! bloomgate merge: a: not a bloomgate filter file
? 3
$ bloomgate merge --forse out.bg a.bg b.bg
! bloomgate merge: unknown option --forse; did you mean --force?
! Try 'bloomgate merge --help'.
? 2

# Secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ bloomgate build -q --items 2000 --hash keyed --keyring ring k1.bg a
$ bloomgate build -q --items 2000 --hash keyed --keyring ring k2.bg b
$ bloomgate build -q --items 2000 --hash keyed --keyring other k3.bg b
$ bloomgate merge k.bg k1.bg k2.bg
! bloomgate merge: k1.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ bloomgate merge --keyring other k.bg k1.bg k2.bg
! bloomgate merge: other: does not contain the secret for k1.bg
? 3
$ bloomgate merge -q --keyring ring k.bg k1.bg k2.bg
$ bloomgate check -c --keyring ring k.bg a b
2000
$ cat ring other > rings; chmod 600 rings
$ bloomgate merge --keyring rings kk.bg k1.bg k3.bg
! bloomgate merge: k1.bg and k3.bg: the keys were hashed with different secrets; build both filters with the same secret
? 3

# If the disk is full, the old file is kept, and no temporary file is left behind.
$ seq 100000 | bloomgate build -q --items 100000 big.bg; cp big.bg before.bg
$ (trap '' XFSZ; ulimit -f 16; bloomgate merge -f big.bg big.bg big.bg)
! bloomgate merge: big.bg: File too large
? 4
$ cmp big.bg before.bg; ls *tmp* .*tmp* 2>/dev/null
? 2

# A damaged filter is refused; with --tolerate, the result answers "maybe" for keys in damaged
# blocks.
$ cp b.bg damaged.bg; printf '\377\377' | dd of=damaged.bg bs=1 seek=8300 conv=notrunc status=none
$ bloomgate merge out.bg a.bg damaged.bg
! bloomgate merge: damaged.bg: block: found checksum c2d66b6b in block 0, expected checksum 0b32f603
? 3
$ bloomgate merge -q --tolerate tolerated.bg a.bg damaged.bg
! bloomgate merge: warning: damaged.bg: some blocks are damaged; lookups in them always return "maybe"
! bloomgate merge: warning: the filter holds more keys than its capacity of 2,000, so its false-positive rate is 100% (target 1%); build a larger filter
$ seq 1500 | bloomgate check -c tolerated.bg
1500
! bloomgate check: tolerated.bg: holds more keys than its capacity of 2,000, so its false-positive rate is 100% (target 1%); build a larger filter

# Folding.
$ bloomgate fold half.bg both.bg
! bloomgate fold: half.bg: blocked, about 1,504 keys, 1.5 KiB, false-positive rate 2.47% (target 1%)
! bloomgate fold: warning: the filter has a false-positive rate of 2.47% (target 1%); fold it fewer times, or build a larger filter
$ seq 1500 | bloomgate check -c half.bg
1500
! bloomgate check: half.bg: has a false-positive rate of 2.47% (target 1%); build a larger filter
$ bloomgate fold -q --times 2 quarter.bg both.bg; bloomgate fold -q quarter2.bg half.bg; bloomgate diff -q quarter.bg quarter2.bg
! bloomgate fold: warning: the filter has a false-positive rate of 25.9% (target 1%); fold it fewer times, or build a larger filter
! bloomgate fold: warning: the filter has a false-positive rate of 25.9% (target 1%); fold it fewer times, or build a larger filter
$ bloomgate fold --times 40 no.bg both.bg
! bloomgate fold: both.bg: the filter can be folded at most 4 times, not 40
? 2
$ bloomgate fold --times 64 no.bg both.bg
! bloomgate fold: --times: found 64, expected 1 to 63
! Try 'bloomgate fold --help'.
? 2
$ bloomgate fold no.bg fuse.bg
! bloomgate fold: fuse.bg: a fuse filter cannot be folded
? 2
$ bloomgate fold half.bg both.bg
! bloomgate fold: half.bg: already exists; use -f to overwrite it
? 2
$ bloomgate fold -f -q half.bg both.bg
! bloomgate fold: warning: the filter has a false-positive rate of 2.47% (target 1%); fold it fewer times, or build a larger filter
$ bloomgate fold half.bg
! bloomgate fold: expected OUT and one FILTER
! Try 'bloomgate fold --help'.
? 2
$ bloomgate fold no.bg missing.bg
! bloomgate fold: missing.bg: No such file or directory
? 4
$ bloomgate fold -q -g 5 half5.bg both.bg; bloomgate canary half5.bg
generation   0
present      16 of 16 found
absent       84 of 4096 reported as "maybe": 2.05% (1.66% to 2.53%), predicted 2.47% (target 1%)
verdict      passed
! bloomgate fold: warning: the filter has a false-positive rate of 2.47% (target 1%); fold it fewer times, or build a larger filter
! bloomgate canary: half5.bg: has a false-positive rate of 2.47% (target 1%); build a larger filter

# Shards.
$ bloomgate split $CLI_TESTS/../golden/files/shards.bg part
! bloomgate split: part.0 to part.2: 3 shards
$ ls part.*
part.0
part.1
part.2
$ bloomgate join part 3 joined.bg
! bloomgate join: joined.bg: 3 shards
$ bloomgate diff joined.bg $CLI_TESTS/../golden/files/shards.bg
filters    equal
layout     different, so a patch contains all blocks
header     differs in: created, design items
$ bloomgate verify joined.bg part.0
joined.bg: intact
part.0: intact
$ bloomgate split $CLI_TESTS/../golden/files/shards.bg part
! bloomgate split: part.0: already exists; use -f to overwrite it
? 2
$ bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part
$ bloomgate merge no.bg $CLI_TESTS/../golden/files/shards.bg part.1 2>&1 | sed 's| [^ ]*/| |'
bloomgate merge: shards.bg and part.1: different numbers of shards: 3 and 1; run bloomgate join to create the whole filter from its shards
$ bloomgate split both.bg part
! bloomgate split: both.bg: not a sharded filter
? 2
$ bloomgate split both.bg
! bloomgate split: expected FILTER and PREFIX
! Try 'bloomgate split --help'.
? 2
$ bloomgate split missing.bg part
! bloomgate split: missing.bg: No such file or directory
? 4
$ bloomgate join part 2 joined2.bg
! bloomgate join: part: shard: found a different shard, expected bloomgate-shard: 0 of 2
? 3
$ bloomgate join part 3 joined.bg
! bloomgate join: joined.bg: already exists; use -f to overwrite it
? 2
$ bloomgate join -f -q part 3 joined.bg
$ bloomgate join part 1 no.bg
! bloomgate join: number of shards: found '1', expected 2 to 65536
! Try 'bloomgate join --help'.
? 2
$ bloomgate join part many no.bg
! bloomgate join: number of shards: found 'many', expected 2 to 65536
! Try 'bloomgate join --help'.
? 2
$ bloomgate join part 3
! bloomgate join: expected PREFIX, the number of shards, and OUT
! Try 'bloomgate join --help'.
? 2
$ bloomgate join nothing 3 no.bg
! bloomgate join: nothing.0: No such file or directory
? 4
$ bloomgate convert -g 9 --to bloomgate $CLI_TESTS/../golden/files/shards.bg more.bg; bloomgate split -q more.bg more; cp more.1 part.1; bloomgate join part 3 no.bg
! bloomgate join: part: part.1 and part.0 are not from the same split
? 3
$ bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part; rm part.2; bloomgate join part 3 no.bg; bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part
! bloomgate join: cannot open part.2: No such file or directory
$ mv part.1 part.x; mv part.2 part.1; mv part.x part.2; bloomgate join part 3 no.bg
! bloomgate join: part: shard: found a different shard, expected bloomgate-shard: 1 of 3
? 3
$ cp a.bg part.0; bloomgate join part 3 no.bg
! bloomgate join: part: shard: found a file that is not a shard, expected bloomgate-shard: 0 of 3
? 3
# A shard accepts no keys, because keys that belong to other shards would not be found after join.
$ bloomgate split -q $CLI_TESTS/../golden/files/shards.bg alone; cp alone.0 kept; for change in 'add alone.0 a' 'add -o out.bg alone.0 a' 'remove alone.0 a' 'dedup --state alone.0 a'; do bloomgate $change; echo $?; done; cmp alone.0 kept
2
2
2
2
! bloomgate add: alone.0: a single shard of a split filter cannot be changed; run bloomgate join, and change the result
! bloomgate add: alone.0: a single shard of a split filter cannot be changed; run bloomgate join, and change the result
! bloomgate remove: alone.0: a single shard of a split filter cannot be changed; run bloomgate join, and change the result
! bloomgate dedup: alone.0: a single shard of a split filter cannot be changed; run bloomgate join, and change the result
$ (trap '' XFSZ; ulimit -f 1; bloomgate split $CLI_TESTS/../golden/files/shards.bg nospace)
! bloomgate split: nospace: File too large
? 4
$ ls nospace.*
! ls: cannot access 'nospace.*': No such file or directory
? 2
