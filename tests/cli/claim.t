# Tests commands that change the same file concurrently (claim.h). `holder COMMAND...` in claim.sh
# starts a command that claims the file and then waits for its keys, `waiter` starts a command that
# waits for the file, and `release` lets the first command continue.
$ mkfifo pipe
$ seq 100 > base; echo a > a; echo b > b; bloomgate build -q --items 1000 f.bg base

# The second command waits until the first has exited, and no key is lost.
$ . $CLI_TESTS/claim.sh; holder add -q f.bg; waiter add f.bg b; echo a >&3; release; wait $waiting; sed q said; bloomgate check -c f.bg a b base
bloomgate add: f.bg: waiting for another bloomgate command to finish changing this file
102

# The second command also waits if it accesses the file through a link.
$ ln -s f.bg link.bg; . $CLI_TESTS/claim.sh; holder add -q f.bg; waiter add link.bg a; release; wait $waiting; sed q said
bloomgate add: link.bg: waiting for another bloomgate command to finish changing this file

# Every command that replaces a file is refused while the file is claimed, whether or not it reads
# the file first.
$ bloomgate build -q --items 1000 --kind counting c.bg base; bloomgate build -q --items 1000 --folds 1 --generation 2 g.bg a; bloomgate diff -q --patch p f.bg f.bg
$ export BLOOMGATE_LOCK_WAIT=0; . $CLI_TESTS/claim.sh; holder add -q c.bg; bloomgate remove c.bg base; echo $?; release
4
! bloomgate remove: c.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
$ . $CLI_TESTS/claim.sh; refused f.bg "add f.bg b" "merge -f f.bg f.bg g.bg" "fold -f f.bg g.bg" "convert -f --to bloomgate f.bg f.bg" "diff -f --apply p f.bg f.bg" "build -f -n 10 f.bg a" "dedup -q --state f.bg a" "add -f -o f.bg g.bg a" "join -f x 2 f.bg"
4 1 add f.bg b
4 1 merge -f f.bg f.bg g.bg
4 1 fold -f f.bg g.bg
4 1 convert -f --to bloomgate f.bg f.bg
4 1 diff -f --apply p f.bg f.bg
4 1 build -f -n 10 f.bg a
4 1 dedup -q --state f.bg a
4 1 add -f -o f.bg g.bg a
4 1 join -f x 2 f.bg

# split locks every file that it writes, not only the common prefix of their names.
$ export BLOOMGATE_LOCK_WAIT=0; cp f.bg part.1; . $CLI_TESTS/claim.sh; holder add -q part.1; bloomgate split -f $CLI_TESTS/../golden/files/shards.bg part; echo $?; release; ls part.*; bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part; ls part.*
4
part.1
part.0
part.1
part.2
! bloomgate split: part.1: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)

# All of split's locks share one file descriptor. If split is killed, it leaves several hard links
# to one lock file behind; the next split removes them.
$ (ulimit -n 9; bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part); touch part.bloomgate-lock; for i in 0 1 2; do ln part.bloomgate-lock part.$i.bloomgate-lock; done; (ulimit -n 9; bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part); ls part*
part.0
part.1
part.2

# If the input is replaced by a filter with more shards while split waits, split stops, because it
# has not checked the names of the additional files.
$ cp $CLI_TESTS/../golden/files/cuckoo_shards.bg many.bg; . $CLI_TESTS/claim.sh; holder build -q -n 10 piece.1; waiter split many.bg piece; cp $CLI_TESTS/../golden/files/shards.bg many.bg; echo mine > piece.2; kill $holding; release; wait $waiting; echo $?; cat said piece.2; ls piece.*
3
bloomgate split: piece.1: waiting for another bloomgate command to finish changing this file
bloomgate split: many.bg: the file was replaced during the split and now has 3 shards, not 2; run split again
mine
piece.2

# A link cannot be replaced while its target is being changed, and a target cannot be changed while
# a link to it is being replaced.
$ export BLOOMGATE_LOCK_WAIT=0; cp g.bg target.bg; ln -s target.bg over.bg; . $CLI_TESTS/claim.sh; holder add -q target.bg; bloomgate merge -f over.bg over.bg g.bg; release; holder add -q -f -o over.bg over.bg; bloomgate add target.bg b; bloomgate add over.bg b; release
! bloomgate merge: over.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
! bloomgate add: target.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
! bloomgate add: over.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)

# Files that do not exist yet can be claimed.
$ export BLOOMGATE_LOCK_WAIT=0; . $CLI_TESTS/claim.sh; holder dedup -q --state new.bg; bloomgate dedup -q --state new.bg b; bloomgate build -n 10 new.bg b; echo a >&3; release; bloomgate check -c new.bg a b
a
1
! bloomgate dedup: new.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
! bloomgate build: new.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
$ export BLOOMGATE_LOCK_WAIT=0; . $CLI_TESTS/claim.sh; holder build -q -n 10 out.bg; bloomgate build -n 10 out.bg b; release; bloomgate check -c out.bg b
0
! bloomgate build: out.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
? 1

# A link to a file that does not exist yet is followed, even through other links, and remains a
# link.
$ export BLOOMGATE_LOCK_WAIT=0; mkdir folder; ln -s folder/hop.bg soon.bg; ln -s to.bg folder/hop.bg; . $CLI_TESTS/claim.sh; holder dedup -q --state soon.bg; bloomgate dedup -q --state folder/to.bg b; echo a >&3; release; bloomgate check -c folder/to.bg a b; readlink soon.bg folder/hop.bg; ls folder
a
1
folder/hop.bg
to.bg
hop.bg
to.bg
! bloomgate dedup: folder/to.bg: another bloomgate command is changing this file; try again when that command has finished, or set a longer wait (for example, BLOOMGATE_LOCK_WAIT=5m)
$ ln -s nowhere/to.bg lost.bg; ln -s lost.bg round.bg; bloomgate dedup --state round.bg b
! bloomgate dedup: round.bg: No such file or directory
? 4

# Commands that only read do not wait.
$ export BLOOMGATE_LOCK_WAIT=0; . $CLI_TESTS/claim.sh; holder add -q f.bg; bloomgate check -c f.bg a; bloomgate verify -q f.bg; bloomgate add -q -o h.bg f.bg b; release
1

# A killed command does not block other commands. The next command removes the lock file that the
# killed command left behind, even if it then fails.
$ export BLOOMGATE_LOCK_WAIT=0; (. $CLI_TESTS/claim.sh; holder add -q f.bg; kill -9 $holding; wait $holding) 2> killed; ls *.bloomgate-lock; echo k | bloomgate add -q f.bg; ls | grep -c bloomgate-lock
f.bg.bloomgate-lock
0
? 1
$ bloomgate add f.bg missing; ls | grep -c bloomgate-lock
0
! bloomgate add: missing: No such file or directory
? 1

# If a command's lock file has been removed and another command has created a new one, the first
# command does not remove the new lock file when it exits.
$ . $CLI_TESTS/claim.sh; holder add -q f.bg; rm f.bg.bloomgate-lock; touch f.bg.bloomgate-lock; release; ls *.bloomgate-lock; rm *.bloomgate-lock
f.bg.bloomgate-lock

# A waiting command can be interrupted.
$ . $CLI_TESTS/claim.sh; holder add -q f.bg; waiter add f.bg b; kill $waiting; wait $waiting; echo $?; release
130

# If dedup --count is interrupted, it prints the number of unique lines that the saved state
# contains. The counts from this run and the next run therefore add up to the total number of unique
# lines.
$ . $CLI_TESTS/claim.sh; holder dedup -q -c --state count.bg > first; seq 5 >&3; kill $holding; wait $holding; echo $?; exec 3>&-; seq 5 | bloomgate dedup -q -c --state count.bg > second; wc -l < first; echo $(($(cat first) + $(cat second)))
130
1
5

$ BLOOMGATE_LOCK_WAIT= bloomgate add -q f.bg b
$ BLOOMGATE_LOCK_WAIT=soon bloomgate add f.bg b
! bloomgate add: BLOOMGATE_LOCK_WAIT: found 'soon', expected a time such as 60s
! Try 'bloomgate add --help'.
? 2
$ mkdir sealed; cp f.bg sealed; chmod 555 sealed; $([ $(id -u) != 0 ] || echo setpriv --bounding-set=-dac_override,-dac_read_search) bloomgate add sealed/f.bg b; chmod 755 sealed
! bloomgate add: sealed/f.bg: Permission denied

# Lock files are readable by all users even if the umask is 077, so that locking works between
# users.
$ umask 077; . $CLI_TESTS/claim.sh; holder add -q f.bg; ls -l f.bg.bloomgate-lock | cut -c1-10; release
-r--r--r--

# If a lock file cannot be opened, the error message names it.
$ ln -s nowhere f.bg.bloomgate-lock; bloomgate add f.bg b 2>&1 | sed 's|[^ ]*/||'; rm f.bg.bloomgate-lock
bloomgate add: f.bg.bloomgate-lock: Too many levels of symbolic links

# A link may be redirected to another file at any time. Even so, the file that is read is the file
# that is locked and replaced, and messages name that file.
$ echo no filter > other; ln -s other switched; bloomgate add --format bloomgate switched a; bloomgate dedup --state switched a
! bloomgate add: /.../other: not a bloomgate filter file
! bloomgate dedup: /.../other: not a bloomgate filter file
? 3
