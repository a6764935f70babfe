# bloomgate verify: checks files for damage.

$ seq 100000 > keys; bloomgate build -q --items 100000 --generation 3 whole.bg keys
$ bloomgate verify whole.bg
whole.bg: intact
$ bloomgate verify -q whole.bg
$ bloomgate verify --json whole.bg
{"schema": "bloomgate.verify.1", "file": "whole.bg", "format": "bloomgate", "whole": true, "canaries_asked": true, "blocks": 2, "bad_blocks": 0, "bad": 0}

# Damage to one block, two blocks, the header, the numbers section or the checksum table is
# reported, and so is a wrong file size.
$ cp whole.bg one.bg; printf 'x' | dd of=one.bg bs=1 seek=80000 conv=notrunc status=none
$ bloomgate verify one.bg
one.bg: damaged: block at byte 73728: found checksum ea075e99 in block 1, expected checksum fd551bfa; 1 of 2 blocks are damaged
? 1
$ bloomgate verify -q one.bg
one.bg: damaged: block at byte 73728: found checksum ea075e99 in block 1, expected checksum fd551bfa; 1 of 2 blocks are damaged
? 1
$ cp one.bg two.bg; printf 'x' | dd of=two.bg bs=1 seek=10000 conv=notrunc status=none
$ bloomgate verify two.bg
two.bg: damaged: block at byte 8192: found checksum 5a87b043 in block 0, expected checksum 4328ca3f; 2 of 2 blocks are damaged
? 1
$ bloomgate verify --json two.bg
{"schema": "bloomgate.verify.1", "file": "two.bg", "format": "bloomgate", "whole": false, "canaries_asked": true, "blocks": 2, "bad_blocks": 2, "bad": 2, "first": {"what": "block", "offset": 8192, "found": "checksum 5a87b043 in block 0", "expected": "checksum 4328ca3f", "error": "BG_ECHECKSUM"}}
? 1
$ cp whole.bg header.bg; printf 'xyz' | dd of=header.bg bs=1 seek=64 conv=notrunc status=none
$ bloomgate verify header.bg
header.bg: damaged: header at byte 0: found checksum ..., expected checksum ...
? 1
$ cp whole.bg numbers.bg; printf 'x' | dd of=numbers.bg bs=1 seek=5000 conv=notrunc status=none
$ bloomgate verify numbers.bg
numbers.bg: damaged: numbers at byte 4096: found checksum 502550d0, expected checksum 98f94189
? 1
$ cp whole.bg table.bg; printf 'xy' | dd of=table.bg bs=1 seek=$(($(stat -c %s whole.bg) - 2)) conv=notrunc status=none
$ bloomgate verify table.bg
table.bg: damaged: digest at byte 132352: found ..., expected ...
? 1
$ head -c 50000 whole.bg > short.bg; bloomgate verify short.bg
short.bg: damaged: file size at byte 50000: found 50000 bytes, expected 132360 bytes
? 1
$ head -c 100 whole.bg > stump.bg; bloomgate verify stump.bg
stump.bg: damaged: file size at byte 100: found 100 bytes, expected at least 4096 bytes
? 1
$ (cat whole.bg; echo more) > long.bg; bloomgate verify long.bg
long.bg: damaged: file size at byte 132360: found 132365 bytes, expected 132360 bytes
? 1

# If several files are passed, all are checked, and the highest exit code is returned.
$ bloomgate verify whole.bg one.bg whole.bg
whole.bg: intact
one.bg: damaged: block at byte 73728: found checksum ea075e99 in block 1, expected checksum fd551bfa; 1 of 2 blocks are damaged
whole.bg: intact
? 1
$ bloomgate verify whole.bg missing.bg one.bg
whole.bg: intact
one.bg: damaged: block at byte 73728: found checksum ea075e99 in block 1, expected checksum fd551bfa; 1 of 2 blocks are damaged
! bloomgate verify: missing.bg: No such file or directory
? 4

# Files written by a newer version, files that are not filters, and directories cannot be checked.
$ cp whole.bg newer.bg; python3 $CLI_TESTS/set_header.py newer.bg 8 2
$ bloomgate verify newer.bg
! bloomgate verify: newer.bg: format version: found 2.2, expected 1.x
? 3
$ bloomgate verify keys
! bloomgate verify: keys: not a filter in any known format
? 3
$ bloomgate verify --format bloomgate keys
keys: damaged: magic at byte 0: found 31 0a 32 0a, expected 89 42 47 46 0d 0a 1a 0a: a filter file
? 1
$ mkdir folder; bloomgate verify folder
! bloomgate verify: folder: Is a directory
? 4
$ bloomgate verify
! bloomgate verify: missing argument FILTER
! Try 'bloomgate verify --help'.
? 2
$ bloomgate verify --keyring nothing whole.bg
whole.bg: intact

# Without the secret, a keyed filter's canaries cannot be checked.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ head -1000 keys | bloomgate build -q --items 1000 --hash keyed --keyring ring keyed.bg
$ bloomgate verify keyed.bg
keyed.bg: intact, but its canaries cannot be checked without --keyring
$ bloomgate verify --keyring ring keyed.bg
keyed.bg: intact
$ bloomgate verify --keyring ring --json keyed.bg
{"schema": "bloomgate.verify.1", "file": "keyed.bg", "format": "bloomgate", "whole": true, "canaries_asked": true, "blocks": 1, "bad_blocks": 0, "bad": 0}
$ bloomgate verify --keyring other keyed.bg
! bloomgate verify: other: does not contain the secret for keyed.bg
? 3
$ cp keyed.bg hurt.bg; printf 'x' | dd of=hurt.bg bs=1 seek=8200 conv=notrunc status=none
$ bloomgate verify hurt.bg
hurt.bg: damaged: block at byte 8192: found checksum 29e13293 in block 0, expected checksum 8fde1022; 1 of 1 blocks are damaged
? 1
$ bloomgate verify --keyring ring hurt.bg
hurt.bg: damaged: block at byte 8192: found checksum 29e13293 in block 0, expected checksum 8fde1022; 1 of 1 blocks are damaged
? 1

# A wrong secret with the right name is detected.
$ sed s/two/one/ other > wrong; chmod 600 wrong; bloomgate verify --keyring wrong keyed.bg
! bloomgate verify: keyed.bg: the secret is not the one that the filter was created with
? 3

# Filters created by other software can be verified too.
$ bloomgate convert -q --from-keys keys --items 100000 --to guava f.bf; bloomgate verify --format guava f.bf
f.bf: guava, its structure is valid; the format has no checksum
$ bloomgate verify --format guava --json f.bf
{"schema": "bloomgate.verify.1", "file": "f.bf", "format": "guava", "has_checksum": false, "structure_fits": true}
$ cp $CLI_TESTS/../golden/tables/rocksdb_xxh3.sst t.sst; bloomgate verify t.sst
t.sst: rocksdb, intact: its checksums match
$ bloomgate verify --json t.sst
{"schema": "bloomgate.verify.1", "file": "t.sst", "format": "rocksdb", "has_checksum": true, "whole": true}
$ printf 'x' | dd of=t.sst bs=1 seek=$(($(stat -c %s t.sst) - 2)) conv=notrunc status=none; bloomgate verify t.sst
! bloomgate verify: t.sst: not a filter in any known format
? 3

# Only regular files can be verified.
$ mkdir bare; printf 'bloomgate-pointer 1\nbare\n' > astray; bloomgate verify astray; echo $?; bloomgate verify --json --format bloomgate bare
3
! bloomgate verify: astray: path: found a different type of file, expected a regular file
! bloomgate verify: bare: path: found a different type of file, expected a regular file
? 3

# An intact file may contain a filter that holds too many keys. convert reports it as well.
$ bloomgate build -q -k split --hash xxh64 -n 1000 over.bg < /dev/null; bloomgate add -q over.bg keys 2> /dev/null; bloomgate verify over.bg; bloomgate verify - < over.bg; bloomgate convert -f --to parquet over.bg over.out; bloomgate verify -q over.bg
over.bg: intact
stdin: intact
! bloomgate verify: over.bg: holds more keys than its capacity of 1,000, so its false-positive rate is 100% (target 1%); build a larger filter
! bloomgate verify: stdin: holds more keys than its capacity of 1,000, so its false-positive rate is 100% (target 1%); build a larger filter
! bloomgate convert: over.bg: holds more keys than its capacity of 1,000, so its false-positive rate is 100% (target 1%); build a larger filter
