# Tests that keys are read reliably from unusual and interrupted input. All subcommands read keys
# with the same code; these tests use build, check and dedup.

# ---- Lines ----

# Empty lines are keys.
$ printf '\n\na\n\n' > empty; bloomgate build -q empty.bg empty; printf '\nb\n' | bloomgate check empty.bg | od -An -c
  \n
$ bloomgate dedup -q empty | od -An -c
  \n   a  \n
$ : > nothing; bloomgate build nothing.bg nothing; echo a | bloomgate check nothing.bg
! bloomgate build: nothing.bg: classic, 0 keys, 24 B, false-positive rate 0.318% (target 1%), ...
? 1

# A line can be 100 MB long, whether it is read from a file or from a pipe.
$ (echo a; head -c 100000000 /dev/zero | tr '\0' x; echo; echo a; echo b) > long
$ bloomgate dedup -q long | wc; cat long | bloomgate dedup -q | wc
      3       3 100000005
      3       3 100000005
$ bloomgate build -q -n 10 long.bg long; bloomgate check -c long.bg < long; rm long
4

# Lines may contain NUL bytes and invalid UTF-8, and the last line may be missing its newline.
$ printf 'a\0b\na\0c\na\0b\n\xff\xfe\n\xc3\n\xff\xfe' > bytes
$ bloomgate dedup -q bytes | od -An -c
   a  \0   b  \n   a  \0   c  \n 377 376  \n 303  \n
$ bloomgate build -q bytes.bg bytes; bloomgate check -c bytes.bg bytes; printf 'a\n\xff\n' | bloomgate check bytes.bg
6
? 1

# CR LF.
$ printf 'a\r\nb\r\na\nb' > crlf; bloomgate dedup -q crlf | od -An -c
   a  \r  \n   b  \r  \n   a  \n   b  \n
$ bloomgate dedup -q --crlf crlf | od -An -c
   a  \r  \n   b  \r  \n

# ---- Files ----

$ bloomgate dedup .
! bloomgate dedup: .: Is a directory
? 4
$ bloomgate build -q x.bg missing
! bloomgate build: missing: No such file or directory
? 4
$ bloomgate check empty.bg empty missing
|
|
a
|
! bloomgate check: missing: No such file or directory
? 4
$ touch secret; chmod 0 secret; $([ $(id -u) != 0 ] || echo setpriv --bounding-set=-dac_override,-dac_read_search) bloomgate dedup secret
! bloomgate dedup: secret: Permission denied
? 4
$ bloomgate dedup empty > /dev/full
! bloomgate dedup: stdout: No space left on device
? 4
$ bloomgate check empty.bg empty > /dev/full
! bloomgate check: stdout: No space left on device
? 4
$ bloomgate check -c empty.bg empty > /dev/full
! bloomgate check: stdout: No space left on device
? 4
$ seq 100000 > self; bloomgate build -q self.bg self; (ulimit -f 10000; bloomgate check self.bg self >> self); wc -l < self; bloomgate dedup -q self 1<> self; wc -l < self; rm self.bg
100000
100000
! bloomgate check: self: this input file is also the output; write to another file
$ (ulimit -f 1; bloomgate build -q limit.bg empty); echo $?; ls limit.bg*
4
! bloomgate build: limit.bg: File too large
! ls: cannot access 'limit.bg*': No such file or directory
? 2
$ bloomgate build -q /dev/full/x.bg empty
! bloomgate build: /dev/full/x.bg: Not a directory
? 4
$ ls *.bg | tr '\n' ' '
bytes.bg empty.bg long.bg nothing.bg 

# ---- Compression ----

$ seq 20000 > numbers; gzip -k numbers; zstd -q numbers; bloomgate build -q numbers.bg numbers
$ bloomgate check -c numbers.bg numbers.gz; bloomgate check -c numbers.bg numbers.zst; zstd -qc numbers | bloomgate check -c numbers.bg
20000
20000
20000
$ bloomgate build -q packed.bg numbers.gz; bloomgate check -c packed.bg numbers
20000
$ cat numbers.gz numbers.gz | bloomgate check -c numbers.bg
40000
$ cat numbers.zst numbers.zst > twice.zst; bloomgate check -c numbers.bg twice.zst
40000
$ (printf '\x53\x2a\x4d\x18\4\0\0\0abcd'; cat numbers.zst) > skipped.zst; bloomgate check -c numbers.bg skipped.zst; (head -c 1 skipped.zst; sleep 0.2; tail -c +2 skipped.zst) | bloomgate check -c numbers.bg
20000
20000
$ (head -c 1 numbers.gz; sleep 0.2; tail -c +2 numbers.gz) | bloomgate check -c numbers.bg
20000
$ (printf '('; sleep 0.2; printf 'x\n(\n') | bloomgate dedup -q
(x
(
$ head -c 20000 numbers.gz > cut.gz; bloomgate build -q cut.bg cut.gz; ls cut.bg
! bloomgate build: cut.gz: cannot be decompressed: it is truncated
! ls: cannot access 'cut.bg': No such file or directory
? 2
$ head -c 20000 numbers.zst > cut.zst; bloomgate build -q cut.bg cut.zst
! bloomgate build: cut.zst: cannot be decompressed: it is truncated
? 3
$ head -c 30 numbers.gz | bloomgate check numbers.bg
! bloomgate check: stdin: cannot be decompressed: it is truncated
? 3
$ (head -c 9000 numbers.gz; printf XXXXXXXX; tail -c +9009 numbers.gz) > bad.gz; bloomgate check -c numbers.bg bad.gz
! bloomgate check: bad.gz: cannot be decompressed: invalid distance too far back
? 3
$ (head -c 9000 numbers.zst; printf XXXXXXXX; tail -c +9009 numbers.zst) > bad.zst; bloomgate check -c numbers.bg bad.zst
! bloomgate check: bad.zst: cannot be decompressed: Restored data doesn't match checksum
? 3
# Frames with one raw block ("1\n2\n") that declare a window of 128 MiB, 144 MiB and 2 GiB, and 2 GiB of content.
$ printf '\x28\xb5\x2f\xfd\x00\x88\x21\x00\x001\n2\n' | bloomgate check -c numbers.bg
2
$ for declared in '\x00\x89' '\x00\xa8' '\xa0\x00\x00\x00\x80'; do printf "\x28\xb5\x2f\xfd$declared\x21\x00\x001\n2\n" > wide.zst; bloomgate check -c numbers.bg wide.zst; done
! bloomgate check: wide.zst: cannot be decompressed: its zstd window exceeds 128 MiB; pipe it through 'zstd -dc --long=31'
! bloomgate check: wide.zst: cannot be decompressed: its zstd window exceeds 128 MiB; pipe it through 'zstd -dc --long=31'
! bloomgate check: wide.zst: cannot be decompressed: its zstd window exceeds 128 MiB; pipe it through 'zstd -dc --long=31'
? 3
$ (cat numbers.zst; printf '\x28\xb5\x2f\xfd\x00\xa8\x21\x00\x001\n2\n') > wide.zst; bloomgate check -c numbers.bg wide.zst
! bloomgate check: wide.zst: cannot be decompressed: its zstd window exceeds 128 MiB; pipe it through 'zstd -dc --long=31'
? 3
$ bloomgate dedup -q --raw numbers.gz | head -c 3 | od -An -tx1
 1f 8b 08
$ printf '' | gzip | bloomgate dedup -q

# ---- Pipes and signals ----

# No message is printed if the reader closes the pipe.
$ seq 2000000 > big; bloomgate build -q -n 10 big.bg empty
$ bloomgate check -v big.bg big | head -1; echo ${PIPESTATUS[0]}
1
141
$ bloomgate dedup -q big | head -1; echo ${PIPESTATUS[0]}
1
141
$ bloomgate check empty.bg empty >&-
! bloomgate check: stdout: Bad file descriptor
? 4
$ bloomgate dedup -q <&-
! bloomgate dedup: stdin: Bad file descriptor
? 4
$ bloomgate dedup -q empty >&- 2>&-
? 4
$ bloomgate build closed.bg empty <&- >&- 2>&-; bloomgate check -c closed.bg empty
4

# check answers each line before the next line arrives.
$ mkfifo in out; bloomgate check -t 4 numbers.bg < in > out & exec 3> in 4< out; for i in 1 2 3 4 5; do echo $i >&3; read -t 300 line <&4; echo got $line; done; exec 3>&-; wait $!; echo $?
got 1
got 2
got 3
got 4
got 5
0

# If a signal stops a build that is waiting for input from a pipe, the old filter file is kept, and
# no temporary file is left behind.
$ mkdir stop; seq 5 > stop/keys; bloomgate build -q stop/old.bg stop/keys; cp stop/old.bg kept.bg
$ . $CLI_TESTS/signals.sh; for s in INT TERM HUP XCPU; do mkfifo $s; bloomgate build -f -t 4 stop/old.bg < $s & exec 3> $s; seq 100 >&3; catches $! $s; kill -$s $!; wait $!; echo $?; exec 3>&-; done
130
130
130
130
$ mkfifo KILL; bloomgate build -f stop/old.bg < KILL & exec 3> KILL; seq 100 >&3; until [ -e stop/old.bg.bloomgate-lock ]; do sleep 0.01; done; kill -KILL $!; wait $! 2> /dev/null; echo $?
137
# A killed command leaves its lock file behind, but the file is no longer locked (see claim.t).
$ ls stop; cmp stop/old.bg kept.bg
keys
old.bg
old.bg.bloomgate-lock
$ . $CLI_TESTS/signals.sh; mkfifo CHECK; bloomgate check -t 4 numbers.bg < CHECK > /dev/null & exec 3> CHECK; seq 100 >&3; catches $! INT; kill -INT $!; wait $!; echo $?
130
$ . $CLI_TESTS/signals.sh; cp numbers.bg added.bg; mkfifo ADD; bloomgate add added.bg < ADD & exec 3> ADD; seq -f 'new %.0f' 100 >&3; catches $! INT; kill -INT $!; wait $!; echo $?; cmp added.bg numbers.bg; ls added.bg*
130
added.bg

# On SIGINT, SIGTERM, SIGHUP or SIGXCPU, dedup saves the lines it has already printed before it
# exits. The test sends the signal after reading a printed line.
$ for s in INT TERM HUP XCPU; do mkfifo in.$s out.$s; bloomgate dedup -q -s stop/$s.bg < in.$s > out.$s & exec 3> in.$s 4< out.$s; echo line >&3; read -t 300 line <&4; kill -$s $!; wait $!; echo $? $line; exec 3>&- 4<&-; echo line | bloomgate dedup -q -c -s stop/$s.bg; rm stop/$s.bg; done
130 line
0
130 line
0
130 line
0
130 line
0
$ ls stop
keys
old.bg
old.bg.bloomgate-lock

# If SIGHUP is ignored at startup, as under nohup, it stays ignored.
$ mkfifo in.nohup out.nohup; (trap '' HUP; exec bloomgate dedup -q) < in.nohup > out.nohup & exec 3> in.nohup 4< out.nohup; echo a >&3; read -t 300 line <&4; echo $line; kill -HUP $!; echo b >&3; read -t 300 line <&4; echo $line; exec 3>&-; wait $!; echo $?
a
b
0

# ---- Parts ----

# Line lengths vary, so parts can start at any position within a line; each line is in exactly one
# part.
$ python3 -c "for i in range(3000): print(str(i) * (i % 40 + 1))" > parts
$ for i in 1 2 3; do bloomgate build -q -n 3000 -p 1e-6 --shard $i/3 part$i.bg parts; done; bloomgate check -c part1.bg --also part2.bg --also part3.bg parts
3000
$ for i in 1 2 3; do bloomgate check -c part$i.bg parts; done | awk '{ n += $1; few += $1 < 500 } END { print n, few + 0 }'
3000 0
$ for i in 1 2 3 4 5 6 7; do bloomgate build -q -n 3000 -p 1e-6 --shard $i/7 seventh.bg parts -f; bloomgate check -c seventh.bg parts; done | awk '{ n += $1 } END { print n }'
3000
$ printf 'a\nb' > tiny; for i in 1 2 3 4 5; do bloomgate build -qf -n 3000 --shard $i/5 tiny.bg tiny; bloomgate check tiny.bg tiny; done
a
b
$ for i in 1 2; do bloomgate build -qf -n 20000 -p 1e-6 --shard $i/2 packed$i.bg numbers.gz numbers.zst; bloomgate check -c packed$i.bg numbers; done
20000
20000
$ bloomgate build -qf -n 10 --shard 0/3 x.bg parts
! bloomgate build: --shard: found '0/3', expected I/N such as 1/8, with I at most N, and N at most 65536
! Try 'bloomgate build --help'.
? 2
$ bloomgate build -qf -n 10 --shard 1/2 x.bg < <(cat parts)
! bloomgate build: stdin: a pipe cannot be divided into parts; use regular files
? 2
$ bloomgate build -qf --shard 1/2 x.bg parts
! bloomgate build: --shard requires --items for the whole input, so that all parts have the same size and can be merged
! Try 'bloomgate build --help'.
? 2

# Parts can be merged only if they are built from the same input or from copies of it. Missing
# parts are reported.
$ cp parts copy; for i in 1 2 3; do bloomgate build -qf -n 3000 -p 1e-6 --shard $i/3 part$i.bg $([ $i = 2 ] && echo copy || echo parts); done; bloomgate merge -q all.bg part1.bg part2.bg part3.bg; bloomgate check -c all.bg parts; bloomgate info all.bg | grep note
3000
? 1
$ bloomgate info part2.bg | grep note
  note         bloomgate-part: 2 of 3 of ...
$ bloomgate merge -q some.bg part3.bg part1.bg; bloomgate info some.bg | grep note
  note         bloomgate-part: 1,3 of 3 of ...
! bloomgate merge: warning: the filter is incomplete: of 3 parts, the following have not been merged yet: 2
$ bloomgate merge -qf some.bg some.bg part2.bg; bloomgate diff -q some.bg all.bg; bloomgate info some.bg | grep note
? 1
$ head -1000 parts >> parts; bloomgate build -qf -n 3000 -p 1e-6 --shard 3/3 part3.bg parts; bloomgate merge -q no.bg part1.bg part2.bg part3.bg
! bloomgate merge: part1.bg and part3.bg: parts of different inputs: the input changed between the builds, or the builds used different options or numbers of parts; build all parts again
? 3
$ tr 0-4 5-9 < copy > parts; bloomgate build -qf -n 3000 -p 1e-6 --shard 3/3 part3.bg parts; bloomgate merge -q no.bg part1.bg part2.bg part3.bg
! bloomgate merge: part1.bg and part3.bg: parts of different inputs: the input changed between the builds, or the builds used different options or numbers of parts; build all parts again
? 3
$ bloomgate build -qf -n 3000 -p 1e-6 --field 1 --shard 3/3 part3.bg copy; bloomgate merge -q no.bg part1.bg part2.bg part3.bg
! bloomgate merge: part1.bg and part3.bg: parts of different inputs: the input changed between the builds, or the builds used different options or numbers of parts; build all parts again
? 3
$ for i in 1 2; do bloomgate build -qf -n 3000 -p 1e-6 --shard $i/2 half$i.bg parts; done; bloomgate build -qf -n 3000 -p 1e-6 --shard 3/3 part3.bg copy; bloomgate merge -q two.bg half1.bg part1.bg part2.bg half2.bg part3.bg; bloomgate check -c two.bg parts copy
6000
! bloomgate merge: warning: the filter holds more keys than its capacity of 3,000, so its false-positive rate is 0.0305% (target 0.0001%); build a larger filter
! bloomgate check: two.bg: holds more keys than its capacity of 3,000, so its false-positive rate is 0.0305% (target 0.0001%); build a larger filter
$ bloomgate build -qf -n 10 --note 'bloomgate-part: 1 of 1 of 0' x.bg parts
! bloomgate build: --note: must not contain a line that starts with 'bloomgate-part: ', which is reserved for --shard
! Try 'bloomgate build --help'.
? 2

# ---- Stdout ----

# "-" is stdout, and not a file name.
$ echo 1 | bloomgate build -q -n 1 - | wc -c; ls -- - 2>&-
8260
? 2
$ echo 1 | bloomgate build -q -n 1 ./-; ls ./-; rm ./-
./-

# ---- Checkpoints ----

# If a build fails in the second file, the resumed build includes all keys from that file.
$ python3 -c "import sys; sys.stdout.writelines('%0100d\n' % i for i in range((64 << 20) // 101 + 100))" > first; (seq 1000000 1001000; echo bad) > second
$ bloomgate build -q -n 1M --as int64 --checkpoint 1ms resumed.bg first second
! bloomgate build: second: line 1002: not valid int64: 'bad'; to skip such records, use --skip-invalid
? 3
$ ls resumed.bg*; (seq 1000000 1001000; echo 999) > second
resumed.bg.partial
$ bloomgate build -q -n 1M --resume resumed.bg first second
! bloomgate build: resumed.bg.partial: the checkpoint was written with different key options ('int64', not ''); use the same --trim, --lower and --as
? 3
$ for other in 'second first' '--field 1 first second' '-0 first second' '--crlf first second'; do bloomgate build -q -n 1M --as int64 --resume resumed.bg $other; done
! bloomgate build: resumed.bg.partial: the checkpoint was written with different arguments; use the same files in the same order, and the same record, field and --shard options
! bloomgate build: resumed.bg.partial: the checkpoint was written with different arguments; use the same files in the same order, and the same record, field and --shard options
! bloomgate build: resumed.bg.partial: the checkpoint was written with different arguments; use the same files in the same order, and the same record, field and --shard options
! bloomgate build: resumed.bg.partial: the checkpoint was written with different arguments; use the same files in the same order, and the same record, field and --shard options
? 3
$ bloomgate keyring -q --new one ring; for other in '-k counting' '-n 2M' '-p 1e-6' '--seed 5' '--hash xxh64' '--hash fast-int' '--keyring ring' '--bits-per-key 3' '--bits 4' '--bytes 1M' '--folds 2'; do bloomgate build -q --as int64 $other --resume resumed.bg first second; done
! bloomgate build: resumed.bg.partial: created with --kind blocked, not counting; use that value or omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created with --items 1000000, not 2000000; use that value or omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created with --rate 0.01, not 1e-06; use that value or omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --seed 5; omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created with --hash fast, not xxh64; use that value or omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created with --hash fast, not fast-int; use that value or omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --keyring ring; omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --bits-per-key 3; omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --bits 4; omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --bytes 1000000; omit the option, or start over with -f instead of --resume
! bloomgate build: resumed.bg.partial: created without --folds 2; omit the option, or start over with -f instead of --resume
? 3
$ cp resumed.bg.partial seventh.bg.partial; bloomgate build -q -f -n 1M --as int64 --generation 7 --resume seventh.bg first second; bloomgate canary seventh.bg | grep -v absent; rm seventh.bg
generation   7
present      16 of 16 found
verdict      passed
$ bloomgate build -q -n 1M --as int64 --resume resumed.bg first second; ls resumed.bg*
resumed.bg
$ bloomgate check -c resumed.bg second; bloomgate check -c resumed.bg first; wc -l < first; rm first
1002
664544
664544
$ bloomgate build -q -n 1M --resume resumed.bg second -f
! bloomgate build: resumed.bg.partial: No such file or directory
? 4

# Input that has been read must not change before the build is resumed. The test replaces the input
# with a file of the same size, in place or by rename, with the old modification time or a new one.
$ python3 -c "import sys; sys.stdout.writelines('%0100d\n' % i for i in range((64 << 20) // 101 + 100))" > first; (seq 1000000 1001000; echo bad) > second
$ bloomgate build -q -n 1M --as int64 --checkpoint 1ms again.bg first second 2> /dev/null; cp -p first kept; cp again.bg.partial kept.partial; (seq 1000000 1001000; echo 999) > second
$ printf 9 | dd of=first bs=1 seek=500000 conv=notrunc status=none; touch -r kept first; bloomgate build -q -n 1M --as int64 --resume again.bg first second
! bloomgate build: again.bg.partial: files that were already read have changed since the checkpoint; start over with -f instead of --resume
? 3
$ tr 0-4 5-9 < first > other; mv other first; bloomgate build -q -n 1M --as int64 --resume again.bg first second
! bloomgate build: again.bg.partial: files that were already read have changed since the checkpoint; start over with -f instead of --resume
? 3
$ touch -r kept first; bloomgate build -q -n 1M --as int64 --resume again.bg first second
! bloomgate build: again.bg.partial: files that were already read have changed since the checkpoint; start over with -f instead of --resume
? 3
$ cat kept > first; bloomgate build -q -n 1M --as int64 --resume again.bg first second
! bloomgate build: again.bg.partial: files that were already read have changed since the checkpoint; start over with -f instead of --resume
? 3
$ ls again.bg*; rm -f again.bg.partial kept
again.bg.partial

# Checkpoints written by version 0.1 do not identify the input that was read. They can be resumed if
# no input has changed since they were written.
$ mark="$(bloomgate info kept.partial | sed -n 's/.*note *\(build: .*\)/\1/p')"; until [ $(date +%s) -gt $(stat -c %Z first) ]; do sleep 0.1; done; bloomgate build -q -n 1M --as int64 --note "$mark" old.bg.partial first; cp old.bg.partial kept.partial
$ bloomgate build -q -n 1M --as int64 --resume old.bg first second; bloomgate check -c -v old.bg first second
0
? 1
$ rm old.bg; mv kept.partial old.bg.partial; touch first; bloomgate build -q -n 1M --as int64 --resume old.bg first second; rm first
! bloomgate build: old.bg.partial: first may have changed since the checkpoint; start over with -f instead of --resume

# For kinds that can fill up, a resumed build loses none of the keys that follow the checkpoint,
# even with several threads.
$ seq 9000000 > first; (seq 9000001 12000000; echo bad) > second
$ for kind in cuckoo quotient; do bloomgate build -q -n 13M -k $kind --as int64 --checkpoint 1ms $kind.bg first second; done
! bloomgate build: second: line 3000001: not valid int64: 'bad'; to skip such records, use --skip-invalid
! bloomgate build: second: line 3000001: not valid int64: 'bad'; to skip such records, use --skip-invalid
? 3
$ (seq 9000001 12000000; echo 999) > second; for kind in cuckoo quotient; do bloomgate build -q -n 13M -k $kind --as int64 -t 8 --resume $kind.bg first second; bloomgate check -v -c $kind.bg first second; done; rm first cuckoo.bg quotient.bg
0
0

# A signal stops the build; the test retries if the build finishes before the signal arrives.
$ seq 18000000 > first
$ for try in $(seq 50); do bloomgate build -q -f -n 18M --trim --checkpoint 1ms cut.bg first & until [ -e cut.bg.partial ] || ! kill -0 $! 2>&-; do sleep 0.01; done; kill -INT $! 2>&-; wait $!; code=$?; [ $code = 0 ] || break; done; rm -f cut.bg; echo $code
130
$ ls cut.bg*; bloomgate build -q -n 18M --trim --resume cut.bg first; ls cut.bg*
cut.bg.partial
cut.bg
$ bloomgate check -c cut.bg first; rm first
18000000

# The state file of an interrupted dedup contains exactly the lines that were printed.
$ touch cut.out; mkfifo cut.in; bloomgate dedup -q -s state.bg < cut.in > cut.out & exec 3> cut.in; seq 50000 >&3; until [ $(wc -l < cut.out) = 50000 ] || ! kill -0 $!; do sleep 0.1; done; kill -INT $!; wait $!; echo $?
130
$ wc -l < cut.out; seq 60000 | bloomgate dedup -q -s state.bg | cat cut.out - | cmp - <(seq 60000)
50000

# Without -f, an existing file with the checkpoint's name is neither overwritten nor removed. If it
# is an input file, it is kept even with -f.
$ echo mine > own.bg.partial; bloomgate build -q --checkpoint 5m own.bg empty; cat own.bg.partial; bloomgate build -qf --checkpoint 5m own.bg empty; ls own.bg*
mine
own.bg
! bloomgate build: own.bg.partial: already exists; use --resume to continue from it, or -f to start over
$ echo key > own.bg.partial; bloomgate build -f --checkpoint 5m own.bg ./own.bg.partial; bloomgate build -f --resume own.bg empty own.bg.partial; cat own.bg.partial; rm own.bg.partial
key
! bloomgate build: own.bg.partial: the checkpoint would overwrite this input file; choose another OUT
! Try 'bloomgate build --help'.
! bloomgate build: own.bg.partial: the checkpoint would overwrite this input file; choose another OUT
! Try 'bloomgate build --help'.

# ---- Records ----

# CSV.
$ printf 'id,name\n1,"a, ""b""\nc"\n2,plain\n3,"a, ""b""\nc"\n4\n' > table.csv
$ bloomgate dedup -q --csv --field 2 table.csv
id,name
1,"a, ""b""
c"
2,plain
4
! bloomgate dedup: warning: records without field 2: 1 of 5; they are not compared; check --field and --delimiter
$ bloomgate build -q csv.bg --csv --field 2 table.csv; printf 'a, "b"\nc\0plain\0no\0\0' | bloomgate check -0 csv.bg | tr '\0' '|'
a, "b"
c|plain||
! bloomgate build: warning: records without field 2: 1 of 5; their keys are empty; check --field and --delimiter
$ printf 'a;"b;c";d\n' | bloomgate build -q semicolon.bg --csv --delimiter ';' --field 2; echo 'b;c' | bloomgate check semicolon.bg
b;c

# Quotes within a field are ordinary characters, so they do not merge a line with the next one.
$ printf 'Alice,5ft10"\nBob,6ft1"\n"C""D","x" y"\nEve,""\n' > feet.csv; bloomgate dedup -q -t 4 --csv feet.csv
Alice,5ft10"
Bob,6ft1"
"C""D","x" y"
Eve,""
$ bloomgate build -q feet.bg --csv feet.csv; printf 'Alice\nBob\nC"D\nEve\n' | bloomgate check feet.bg
Alice
Bob
C"D
Eve

# Unclosed quotes are reported, because all following lines would become one key.
$ printf 'a,1\nb,"2\nc,3\n' > open.csv; bloomgate build -q open.bg --csv open.csv; ls open.bg
! bloomgate build: open.csv: line 2: the record has unclosed quotes: 'b,"2?c,3'
! ls: cannot access 'open.bg': No such file or directory
? 2
$ printf '\377\377\377\377ab' | bloomgate dedup --length-prefixed --as hex
! bloomgate dedup: stdin: at byte 0: the last record is truncated
? 3

# Length-prefixed.
$ printf '\1\0\0\0a\0\0\0\0\2\0\0\0b\n\1\0\0\0a' > prefixed; bloomgate dedup -q --length-prefixed prefixed | od -An -c
 001  \0  \0  \0   a  \0  \0  \0  \0 002  \0  \0  \0   b  \n
$ head -c 16 prefixed > short; bloomgate dedup -q --length-prefixed short
! bloomgate dedup: short: at byte 15: the last record is truncated
? 3
$ head -c 2 prefixed | bloomgate dedup -q --length-prefixed
! bloomgate dedup: stdin: at byte 0: the last record is truncated
? 3

# Fields.
$ printf 'a b c\nd\n\n' > fields; bloomgate build -q fields.bg --field 2 --delimiter ' ' fields; printf 'b\n\nd\nc\n' | bloomgate check fields.bg | od -An -c
   b  \n  \n
! bloomgate build: warning: records without field 2: 2 of 3; their keys are empty; check --field and --delimiter
$ bloomgate build -q far.bg --field 99 fields; bloomgate check -c far.bg nothing empty
! bloomgate build: no record has field 99 (records read: 3); check --field and --delimiter
! bloomgate check: far.bg: No such file or directory
? 4
$ printf 'a\tb\n' | bloomgate build -qf tab.bg --field 2 --delimiter '\t'; echo b | bloomgate check tab.bg
b
$ bloomgate dedup --field 2 --delimiter ab fields
! bloomgate dedup: --delimiter: found 'ab', expected one character or \t
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup -0 --csv fields
! bloomgate dedup: --null, --length-prefixed and --csv are mutually exclusive
! Try 'bloomgate dedup --help'.
? 2
$ bloomgate dedup --length-prefixed --field 1 fields
! bloomgate dedup: --length-prefixed cannot be combined with --crlf, --field, --header or --whitespace
! Try 'bloomgate dedup --help'.
? 2

# Each key form accepts valid text and rejects invalid text.
$ printf '%s\n' 0 -1 9223372036854775807 18446744073709551615 -9223372036854775808 | bloomgate build -q int64.bg --as int64; printf '00\n-01\n5\n' | bloomgate check int64.bg
00
-01
$ for x in 18446744073709551616 -9223372036854775809 '' - +1 1x ' 1' 0x10; do echo "$x" > x; bloomgate dedup -q --as int64 x; echo $?; done
3
3
3
3
3
3
3
3
! bloomgate dedup: x: line 1: not valid int64: '18446744073709551616'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: '-9223372036854775809'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: ''; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: '-'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: '+1'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: '1x'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: ' 1'; to skip such records, use --skip-invalid
! bloomgate dedup: x: line 1: not valid int64: '0x10'; to skip such records, use --skip-invalid
$ printf ' 12 \n' | bloomgate dedup -q --trim --as int32
 12 
$ printf '4294967296\n' > x; bloomgate dedup -q --as int32 x
! bloomgate dedup: x: line 1: not valid int32: '4294967296'; to skip such records, use --skip-invalid
? 3
$ printf -- '-2147483649\n' > x; bloomgate dedup -q --as int32 x
! bloomgate dedup: x: line 1: not valid int32: '-2147483649'; to skip such records, use --skip-invalid
? 3
$ printf '00ff\n00FF\n\n' | bloomgate dedup -q --as hex | od -An -c
   0   0   f   f  \n  \n
$ printf 'abc\n' > x; bloomgate dedup -q --as hex x
! bloomgate dedup: x: line 1: not valid hex: 'abc'; to skip such records, use --skip-invalid
? 3
$ printf 'zz\n' > x; bloomgate dedup -q --as hex x
! bloomgate dedup: x: line 1: not valid hex: 'zz'; to skip such records, use --skip-invalid
? 3
$ printf 'a\xc3\xa9\xf0\x9f\x98\x80\n' | bloomgate build -q utf16.bg --as utf16; printf 'a\xc3\xa9\xf0\x9f\x98\x80\na\n' | bloomgate check utf16.bg
aé😀
$ printf 'ok\n\xed\xa0\x80\n' > x; bloomgate dedup -q --as utf16 x
! bloomgate dedup: x: line 2: not valid UTF-8: '???'; to skip such records, use --skip-invalid
? 3
$ printf 'ok\n\x1b[31mred\xff\n' > x; bloomgate dedup -q --as utf16 x
! bloomgate dedup: x: line 2: not valid UTF-8: '?[31mred?'; to skip such records, use --skip-invalid
? 3
$ bloomgate dedup --as int16 x
! bloomgate dedup: --as: found 'int16', expected one of text, int64, int32, hex, utf16; did you mean int64?
! Try 'bloomgate dedup --help'.
? 2

# A FIFO is not a filter file to change, and stdout is written with '-'.
$ mkfifo changed; for command in add remove; do echo 1 | timeout 60 bloomgate $command changed; done; rm changed
! bloomgate add: changed: not a regular file, so it cannot be replaced
! bloomgate remove: changed: not a regular file, so it cannot be replaced
$ echo 1 | bloomgate build -f /dev/fd/1 > stdout.bg; echo 1 | bloomgate build -f /dev/stdout | cat; rm stdout.bg
! bloomgate build: /dev/fd/1: to write a filter to stdout, use '-'
! Try 'bloomgate build --help'.
! bloomgate build: /dev/stdout: to write a filter to stdout, use '-'
! Try 'bloomgate build --help'.
