# Tests that compressed keys are detected and decompressed in every format, and that a truncated or
# damaged file is an error, so that a filter never silently misses keys.

$ seq 20000 > numbers; bloomgate build -q numbers.bg numbers
$ gzip -k numbers; zstd -q numbers; xz -k numbers; bzip2 -k numbers; lz4 -q numbers numbers.lz4
$ for f in numbers.*z*; do echo "$f $(bloomgate check -c numbers.bg $f) $(cat $f $f | bloomgate check -c numbers.bg)"; done
numbers.bz2 20000 40000
numbers.gz 20000 40000
numbers.lz4 20000 40000
numbers.xz 20000 40000
numbers.zst 20000 40000
$ (head -c 3 numbers.xz; sleep 0.1; tail -c +4 numbers.xz) | bloomgate check -c numbers.bg
20000
$ (head -c 9 numbers.bz2; sleep 0.1; tail -c +10 numbers.bz2) | bloomgate check -c numbers.bg
20000
$ bloomgate build -q all.bg numbers.*z*; bloomgate check -c all.bg numbers
20000
$ for i in 1 2; do bloomgate build -q -n 20000 -p 1e-6 --shard $i/2 part$i.bg numbers.xz numbers.lz4; bloomgate check -c part$i.bg numbers; done
20000
20000
$ bloomgate build -q --checkpoint 1s out.bg numbers.xz
! bloomgate build: --checkpoint and --resume require uncompressed regular files as input
! Try 'bloomgate build --help'.
? 2

# A file that is truncated anywhere is an error, and OUT is not written.
$ for f in numbers.xz numbers.bz2 numbers.lz4; do size=$(stat -c %s $f); for n in 7 9 12 100 $((size / 2)) $((size - 5)) $((size - 1)); do head -c $n $f > cut; bloomgate build -q cut.bg cut; echo $?; done; done 2>&1 | sort | uniq -c
     21 3
     19 bloomgate build: cut: cannot be decompressed: it is truncated
      2 bloomgate build: cut: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
$ ls cut.bg
! ls: cannot access 'cut.bg': No such file or directory
? 2
$ for f in numbers.xz numbers.bz2 numbers.lz4; do (cat $f; head -c 30 $f) | bloomgate check -c numbers.bg; done
! bloomgate check: stdin: cannot be decompressed: it is truncated
! bloomgate check: stdin: cannot be decompressed: it is truncated
! bloomgate check: stdin: cannot be decompressed: it is truncated
? 3
$ for magic in '\x1f\x8b' '\x28\xb5' '\xfd7z' 'BZh91A' '\x04\x22'; do printf "$magic" | bloomgate build -q cut.bg; done
! bloomgate build: stdin: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a truncated compressed file; to read the bytes unchanged, use --raw
? 3
$ for magic in '(' 'BZh9' 'P*M' 'B' '\x1f'; do printf "$magic" | bloomgate dedup -q | od -An -c; done
   (  \n
   B   Z   h   9  \n
   P   *   M  \n
   B  \n
 037  \n

# Damaged data, and data after the end, are errors.
$ for f in numbers.xz numbers.bz2 numbers.lz4; do (head -c 4000 $f; printf XXXXXXXX; tail -c +4009 $f) > bad; bloomgate build -q bad.bg bad; done
! bloomgate build: bad: cannot be decompressed: the xz data is damaged
! bloomgate build: bad: cannot be decompressed: the bzip2 data is damaged
! bloomgate build: bad: cannot be decompressed: the lz4 data is damaged
? 3
$ for f in numbers.xz numbers.bz2 numbers.lz4; do (cat $f; echo garbage) | bloomgate check -c numbers.bg; done
! bloomgate check: stdin: cannot be decompressed: it is truncated
! bloomgate check: stdin: cannot be decompressed: not in bzip2 format
! bloomgate check: stdin: cannot be decompressed: the lz4 data is damaged
? 3
$ xz -k9 --lzma2=dict=256MiB -c numbers > wide.xz; bloomgate check -c numbers.bg wide.xz
! bloomgate check: wide.xz: cannot be decompressed: its xz dictionary exceeds 128 MiB; pipe it through 'xz -dc'
? 3
$ (cat numbers.xz; printf '\0\0\0\0') | bloomgate check -c numbers.bg; (cat numbers.xz; printf '\0\0') | bloomgate check -c numbers.bg
20000
! bloomgate check: stdin: cannot be decompressed: the xz data is damaged
? 3

# Files without data contain no keys.
$ for tool in gzip 'zstd -q' xz bzip2 'lz4 -q'; do printf '' | $tool | bloomgate dedup -q | wc -c; done
0
0
0
0
0

# Other formats are refused instead of being read as text.
$ printf 'PK\x03\x04rest' | bloomgate build -q zip.bg
! bloomgate build: stdin: cannot be read as text: it is a zip archive; extract it with 'unzip -p'; to read the bytes unchanged, use --raw
? 3
$ lz4 -qlc numbers | bloomgate build -q legacy.bg
! bloomgate build: stdin: cannot be read as text: it is in the legacy lz4 format; pipe it through 'lz4 -dc'; to read the bytes unchanged, use --raw
? 3
$ printf '\x1f\x9drest' | bloomgate dedup -q; printf 'LZIP\x01rest' | bloomgate dedup -q; printf '7z\xbc\xaf\x27\x1c' | bloomgate dedup -q
! bloomgate dedup: stdin: cannot be read as text: it is a compress (.Z) file; pipe it through 'gzip -dc'; to read the bytes unchanged, use --raw
! bloomgate dedup: stdin: cannot be read as text: it is an lzip file; pipe it through 'lzip -dc'; to read the bytes unchanged, use --raw
! bloomgate dedup: stdin: cannot be read as text: it is a 7-Zip archive; extract it first; to read the bytes unchanged, use --raw
? 3
$ seq 100 > s100; tar cf s.tar s100; for format in gnu pax ustar; do tar c --format $format s100 | bloomgate build -q tar.bg; done; tar c s100 | bloomgate dedup -q
! bloomgate build: stdin: cannot be read as text: it is a tar archive; extract it with 'tar xOf'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a tar archive; extract it with 'tar xOf'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a tar archive; extract it with 'tar xOf'; to read the bytes unchanged, use --raw
! bloomgate dedup: stdin: cannot be read as text: it is a tar archive; extract it with 'tar xOf'; to read the bytes unchanged, use --raw
? 3
$ for tool in gzip 'zstd -q' xz bzip2 'lz4 -q'; do $tool < s.tar > s.packed; bloomgate build -q tar.bg s.packed; $tool < s.tar | bloomgate check numbers.bg; done; ls tar.bg; tar xOf s.tar | bloomgate check -c numbers.bg
100
! bloomgate build: s.packed: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate check: stdin: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate build: s.packed: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate check: stdin: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate build: s.packed: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate check: stdin: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate build: s.packed: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate check: stdin: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate build: s.packed: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! bloomgate check: stdin: cannot be read as text after decompression: it is a tar archive; extract it with 'tar xOf'
! ls: cannot access 'tar.bg': No such file or directory
$ lzma -k numbers; bloomgate build -q lzma.bg numbers.lzma; python3 -c 'import lzma,sys; sys.stdout.buffer.write(lzma.compress(b"text\n", lzma.FORMAT_ALONE, preset=1))' | bloomgate build -q lzma.bg; lzma -dc numbers.lzma | bloomgate check -c numbers.bg
20000
! bloomgate build: numbers.lzma: cannot be read as text: it is an lzma file; pipe it through 'lzma -dc'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is an lzma file; pipe it through 'lzma -dc'; to read the bytes unchanged, use --raw
$ for level in 0 1 6 9; do python3 -c "import zlib,sys; sys.stdout.buffer.write(zlib.compress(open('numbers', 'rb').read(), $level))" > z; head -c 9000 z > cut; for f in z cut; do bloomgate build -q zlib.bg $f; done; done 2>&1 | sort | uniq -c; printf 'Rar!\x1a\x07\x01\x00rest' | bloomgate build -q rar.bg
      4 bloomgate build: cut: cannot be read as text: it is zlib data; pipe it through 'pigz -dc'; to read the bytes unchanged, use --raw
      4 bloomgate build: z: cannot be read as text: it is zlib data; pipe it through 'pigz -dc'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text: it is a RAR archive; extract it with 'unrar p -inul'; to read the bytes unchanged, use --raw
? 3
$ for encoding in UTF-16 UTF-16LE UTF-16BE; do (case $encoding in *LE) printf '\xff\xfe' ;; *BE) printf '\xfe\xff' ;; esac; iconv -t $encoding numbers) > wide; bloomgate build -q utf16.bg wide; gzip < wide | bloomgate build -q utf16.bg; iconv -f UTF-16 -t UTF-8 wide | bloomgate check -c numbers.bg; done
20000
20000
20000
! bloomgate build: wide: cannot be read as text: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text after decompression: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'
! bloomgate build: wide: cannot be read as text: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text after decompression: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'
! bloomgate build: wide: cannot be read as text: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'; to read the bytes unchanged, use --raw
! bloomgate build: stdin: cannot be read as text after decompression: it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'

# Files that are compressed twice, and files of other kinds that contain no text, are refused.
$ for i in gzip xz; do for o in bzip2 zstd; do $i -c numbers | $o -c > twice; bloomgate build -q twice.bg twice; done; done
! bloomgate build: twice: cannot be read as text after decompression: it is compressed twice; decompress it first
! bloomgate build: twice: cannot be read as text after decompression: it is compressed twice; decompress it first
! bloomgate build: twice: cannot be read as text after decompression: it is compressed twice; decompress it first
! bloomgate build: twice: cannot be read as text after decompression: it is compressed twice; decompress it first
? 3
$ gzip -c numbers | bzip2 | bloomgate dedup -q --raw | cmp - <(gzip -c numbers | bzip2; echo) && echo unchanged
unchanged
$ bloomgate build -q keys.bg numbers.bg; bloomgate check -c numbers.bg numbers.bg; gzip -c numbers.bg | bloomgate dedup -c
! bloomgate build: numbers.bg: cannot be read as text: it is a filter, not a list of keys; to combine filters, use 'bloomgate merge'; to read the bytes unchanged, use --raw
! bloomgate check: numbers.bg: cannot be read as text: it is a filter, not a list of keys; to combine filters, use 'bloomgate merge'; to read the bytes unchanged, use --raw
! bloomgate dedup: stdin: cannot be read as text after decompression: it is a filter, not a list of keys; to combine filters, use 'bloomgate merge'
? 3
$ printf 'SQLite format 3\0rest' | bloomgate dedup -c; printf 'PAR1\x15rest' | bloomgate dedup -c
! bloomgate dedup: stdin: cannot be read as text: it is an SQLite database; export its keys with 'sqlite3'; to read the bytes unchanged, use --raw
! bloomgate dedup: stdin: cannot be read as text: it is a Parquet file; export its keys as text; to read the bytes unchanged, use --raw
? 3

# Text that only resembles such a format is read as text.
$ for text in 'x^2' 'x^' 'x\x01y' 'x\xda' ']' ']\0\0' '\xff' 'Rar!' 'ustar' 'PAR1' 'SQLite format 3'; do printf "$text\n" | bloomgate dedup -q | od -An -c; done
   x   ^   2  \n
   x   ^  \n
   x 001   y  \n
   x 332  \n
   ]  \n
   ]  \0  \0  \n
 377  \n
   R   a   r   !  \n
   u   s   t   a   r  \n
   P   A   R   1  \n
   S   Q   L   i   t   e       f   o   r   m   a   t       3  \n
$ (printf '%0256d' 0; echo ustar; seq 1000) | bloomgate dedup -c -q; (printf '%0250d' 0; echo; echo ustar; seq 1000) | bloomgate dedup -c -q
1001
1002
$ printf '\x5d\0\0\0%93s' x | bloomgate dedup -q --length-prefixed | wc -c
97
$ printf 'PK\x03\x04rest' | bloomgate dedup -q --raw | od -An -c
   P   K 003 004   r   e   s   t  \n
$ bloomgate dedup -q --raw numbers.xz | head -c 6 | od -An -tx1
 fd 37 7a 58 5a 00
$ xz -k numbers.bg; bloomgate info numbers.bg.xz
! bloomgate info: numbers.bg.xz: not a filter in any known format: the file is compressed with xz; decompress it first
? 3

# A record has a maximum length, because a small file can decompress to a record that does not fit into memory.
$ (echo a; head -c 600000000 /dev/zero) | gzip -1 | bloomgate dedup --count; (printf '\xff\xff\xff\x3f'; head -c 600000000 /dev/zero) | bloomgate dedup --count --length-prefixed
! bloomgate dedup: stdin: at byte 2: the record is longer than 512 MiB; check the input and the record format (-0, --length-prefixed)
! bloomgate dedup: stdin: at byte 0: the record is longer than 512 MiB; check the input and the record format (-0, --length-prefixed)
? 3
