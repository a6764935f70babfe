# bloomgate diff: compares filter files, and creates and applies patches.

$ seq 200000 > keys; bloomgate build -q --items 200000 a.bg keys
$ cp a.bg same.bg; bloomgate diff a.bg same.bg
filters    equal
layout     equal
blocks     4, of which 0 differ
patch      8,272 bytes
$ bloomgate diff -q a.bg same.bg
$ bloomgate diff --json a.bg same.bg
{"schema": "bloomgate.diff.1", "a": "a.bg", "b": "same.bg", "same": true, "same_layout": true, "blocks": 4, "different": 0, "patch_bytes": 8272, "header": ""}

# One additional key changes some of the blocks.
$ echo new | bloomgate add -q -o b.bg a.bg
$ bloomgate diff a.bg b.bg | grep -v header
filters    different
layout     equal
blocks     4, of which 1 differ
patch      73,816 bytes
$ bloomgate diff -q a.bg b.bg
? 1

# Compares two copies of a filter that have different metadata.
$ bloomgate build -q --items 200000 --note hello noted.bg keys
$ bloomgate diff a.bg noted.bg
filters    equal
layout     equal
blocks     4, of which 0 differ
patch      8,272 bytes
header     differs in: ...notes
$ bloomgate build -q --items 200000 --no-canaries --generation 4 g4.bg keys; bloomgate build -q --items 200000 --no-canaries --generation 5 g5.bg keys
$ bloomgate diff --json g4.bg g5.bg
{"schema": "bloomgate.diff.1", "a": "g4.bg", "b": "g5.bg", "same": true, "same_layout": true, "blocks": 4, "different": 0, "patch_bytes": 8272, "header": "...generation"}

# A different layout.
$ head -100000 keys | bloomgate build -q --items 100000 small.bg; bloomgate add -q small.bg keys
! bloomgate add: warning: the filter holds more keys than its capacity of 100,000, so its false-positive rate is 12.3% (target 1%); build a larger filter
$ bloomgate diff a.bg small.bg
filters    different
layout     different, so a patch contains all blocks
header     differs in: ...design items
? 1
$ bloomgate diff --json a.bg small.bg
{"schema": "bloomgate.diff.1", "a": "a.bg", "b": "small.bg", "same": false, "same_layout": false, "header": "...design items"}
? 1
$ bloomgate build -q --items 200000 --kind classic classic.bg keys; bloomgate diff -q a.bg classic.bg
? 1

# Patches.
$ bloomgate diff -q --patch p a.bg b.bg
? 1
$ test $(stat -c %s p) -lt $(stat -c %s b.bg) && echo smaller
smaller
$ bloomgate diff --apply p a.bg c.bg && cmp b.bg c.bg
$ bloomgate diff --patch p a.bg b.bg
! bloomgate diff: p: already exists; use -f to overwrite it
? 2
$ bloomgate diff -q -f --patch p a.bg b.bg
? 1
$ bloomgate diff --apply p a.bg c.bg
! bloomgate diff: c.bg: already exists; use -f to overwrite it
? 2
$ bloomgate diff -f --apply p a.bg c.bg && cmp b.bg c.bg
$ bloomgate diff --apply p b.bg d.bg
! bloomgate diff: p applied to b.bg: the patch was created from a different file: the digests differ
? 3
$ bloomgate diff --apply missing a.bg d.bg
! bloomgate diff: cannot open missing: No such file or directory
? 4
$ bloomgate diff --apply keys a.bg d.bg
! bloomgate diff: keys applied to a.bg: magic: found an invalid value, expected a Bloomgate patch file
? 3
$ cp p hurt; printf 'xyz' | dd of=hurt bs=1 seek=9000 conv=notrunc status=none; bloomgate diff --apply hurt a.bg d.bg
! bloomgate diff: hurt applied to a.bg: block: found checksum 78d0fb5e in block 1, expected checksum 1c0854aa
? 3
$ ls d.bg
! ls: cannot access 'd.bg': No such file or directory
? 2
$ bloomgate diff -q --patch across a.bg small.bg; bloomgate diff --apply across a.bg e.bg && cmp e.bg small.bg
$ (trap '' XFSZ; ulimit -f 16; bloomgate diff -f --apply p a.bg c.bg); cmp b.bg c.bg; ls *tmp* 2>/dev/null
! bloomgate diff: cannot write c.bg...: File too large
? 2

# Errors.
$ bloomgate diff a.bg
! bloomgate diff: expected two filters
! Try 'bloomgate diff --help'.
? 2
$ bloomgate diff --apply p a.bg
! bloomgate diff: expected A and OUT
! Try 'bloomgate diff --help'.
? 2
$ bloomgate diff --apply p --json a.bg x.bg
! bloomgate diff: --apply cannot be combined with --patch or --json
! Try 'bloomgate diff --help'.
? 2
$ bloomgate diff a.bg missing.bg
! bloomgate diff: missing.bg: No such file or directory
? 4
$ bloomgate diff missing.bg a.bg
! bloomgate diff: missing.bg: No such file or directory
? 4
$ bloomgate diff a.bg keys
! bloomgate diff: keys: not a bloomgate filter file
? 3
$ head -c 5000 a.bg > short.bg; bloomgate diff a.bg short.bg
! bloomgate diff: short.bg: file size: found 5000 bytes, expected 256464 bytes
? 3

# Filters with secrets can be compared without a keyring, but a keyring that is passed must contain
# the secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ seq 100 | bloomgate build -q --items 100 --hash keyed --keyring ring k1.bg; seq 100 | bloomgate build -q --items 100 --note x --hash keyed --keyring ring k2.bg
$ seq 100 | bloomgate build -q --items 100 --hash keyed --keyring other k3.bg
$ bloomgate diff -q k1.bg k2.bg
$ bloomgate diff -q --keyring ring k1.bg k2.bg
$ bloomgate diff --keyring other -q k1.bg k2.bg
! bloomgate diff: other: does not contain the secret for k1.bg
? 3
$ bloomgate diff k1.bg k3.bg
filters    different
layout     equal
blocks     1, of which 1 differ
patch      8,460 bytes
header     differs in: ...key id
? 1
