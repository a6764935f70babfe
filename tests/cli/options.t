# Tests how command lines are parsed.

$ seq 10 > ten
$ bloomgate build -q ten.bg ten

# If a key file is passed in place of the filter, the message does not suggest -f, which would
# overwrite the file.
$ bloomgate build ten ten.bg
! bloomgate build: ten: already exists and is not a bloomgate filter; OUT must come before KEYS
! Try 'bloomgate build --help'.
? 2
$ bloomgate build ten.bg ten
! bloomgate build: ten.bg: already exists; use -f to overwrite it
? 2

# Unknown options.
$ bloomgate check --invrt ten.bg ten
! bloomgate check: unknown option --invrt; did you mean --invert?
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --inv ten.bg ten
! bloomgate check: unknown option --inv; did you mean --invert?
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --zzz ten.bg ten
! bloomgate check: unknown option --zzz
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --INVERT ten.bg ten
! bloomgate check: unknown option --INVERT; did you mean --invert?
! Try 'bloomgate check --help'.
? 2
$ bloomgate check -x ten.bg ten
! bloomgate check: unknown option -x
! Try 'bloomgate check --help'.
? 2
$ bloomgate check -cx ten.bg ten
! bloomgate check: unknown option -x
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --an-option-whose-name-is-much-longer-than-that-of-any-there-is-or-will-ever-be ten.bg ten
! bloomgate check: unknown option --an-option-whose-name-is-much-longer-than-that-of-any-there-is-o
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --=x ten.bg ten
! bloomgate check: unknown option --
! Try 'bloomgate check --help'.
? 2

# Only foreign filters can be read from a pipe.
$ bloomgate convert -q --from-keys ten --items 10 --to dcso ten.bloom; bloomgate check -c <(cat ten.bloom) ten; bloomgate check -c - ten < ten.bloom
10
10
$ bloomgate check -c <(cat ten.bg) ten
10

# Compressed key files are decompressed; compressed filters are refused.
$ gzip -k ten.bg; bloomgate check -c ten.bg.gz ten; zstd -q ten.bg; bloomgate info ten.bg.zst
! bloomgate check: ten.bg.gz: not a filter in any known format: the file is compressed with gzip; decompress it first
! bloomgate info: ten.bg.zst: not a filter in any known format: the file is compressed with zstd; decompress it first
? 3

# Missing and invalid option values are reported.
$ bloomgate check ten.bg ten --threads
! bloomgate check: --threads requires a value: N
! Try 'bloomgate check --help'.
? 2
$ bloomgate check ten.bg ten -t
! bloomgate check: --threads requires a value: N
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --invert=yes ten.bg ten
! bloomgate check: --invert takes no value
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --color=blue ten.bg ten
! bloomgate check: --color: found 'blue', expected one of auto, always, never
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --color alwyas ten.bg ten
! bloomgate check: --color: found 'alwyas', expected one of auto, always, never; did you mean always?
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --as int6 ten.bg ten
! bloomgate check: --as: found 'int6', expected one of text, int64, int32, hex, utf16; did you mean int64?
! Try 'bloomgate check --help'.
? 2
$ bloomgate build -k '' x.bg ten
! bloomgate build: --kind: found '', expected one of auto, classic, partitioned, blocked, split, register, counting, cuckoo, quotient, fuse, ribbon, scalable, window
! Try 'bloomgate build --help'.
? 2
$ bloomgate check --delimiter ab ten.bg ten
! bloomgate check: --delimiter: found 'ab', expected one character or \t
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --delimiter '' ten.bg ten
! bloomgate check: --delimiter: found '', expected one character or \t
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --csv --delimiter '"' ten.bg ten
! bloomgate check: --delimiter: must not be a quote or a newline with --csv
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --csv --null ten.bg ten
! bloomgate check: --null, --length-prefixed and --csv are mutually exclusive
! Try 'bloomgate check --help'.
? 2
$ bloomgate check --length-prefixed --field 2 ten.bg ten
! bloomgate check: --length-prefixed cannot be combined with --crlf, --field, --header or --whitespace
! Try 'bloomgate check --help'.
? 2
$ bloomgate build --rate 0.1 --bytes 10k x.bg ten
! bloomgate build: --rate, --bits-per-key and --bytes are mutually exclusive
! Try 'bloomgate build --help'.
? 2

# An option can be set in several equivalent ways.
$ bloomgate check --threads=2 -c ten.bg ten
10
$ bloomgate check --threads 2 -c ten.bg ten
10
$ bloomgate check -t2 -c ten.bg ten
10
$ bloomgate check -t 2 -c ten.bg ten
10
$ bloomgate check -ct2 ten.bg ten
10
$ bloomgate check ten.bg ten -c -t 2
10
$ bloomgate check ten.bg -c ten --threads= 2
! bloomgate check: --threads: found '', expected a whole number such as 1000, 10k, 5M or 1e6
! Try 'bloomgate check --help'.
? 2

# If an option is repeated, the last value applies. A value can look like an option.
$ bloomgate check -t 1 -t 2 -c ten.bg ten
10
$ bloomgate build -q --note --force noted.bg ten

# "--" ends the options, and "-" means stdin.
$ cp ten ./-c && bloomgate check ten.bg -c -- -c
10
$ bloomgate check -c ten.bg -- ten
10
$ bloomgate check -- ten.bg -c | wc -l
10
$ printf '1\n2\n' | bloomgate check -c ten.bg -
2
$ printf '1\n2\n' | bloomgate check -c ten.bg ten - ten
22
$ printf '1\n2\n' | bloomgate check -c ten.bg
2
$ bloomgate check -c ten.bg --
0
? 1
$ bloomgate check
! bloomgate check: missing argument FILTER
! Try 'bloomgate check --help'.
? 2

# Valid counts are accepted, and invalid counts are reported.
$ for n in 10 10k 0.01M 1e4 1e+4 2.5k 10KB 10kB 1Ki 1ki 1KiB 1B 010; do bloomgate build -q -f -n $n x.bg ten || echo "$n?"; done
! bloomgate build: warning: the filter holds more keys than its capacity of 1, so its false-positive rate is 2.09% (target 1%); increase --items
$ bloomgate build -n 1.5 x.bg ten
! bloomgate build: --items: found '1.5', expected a whole number such as 1000, 10k, 5M or 1e6
! Try 'bloomgate build --help'.
? 2
$ for n in '' ' ' ' 1' '1 ' -1 +1 0x10 nan inf 1e400 1e-400 1e30 18446744073709551616 20000000P 1.5 0.0001 1kk 1kb 1i 1e 1e+ . .. 1.2.3 1,000 １ k B 1/2 5% 10s; do bloomgate build -q -f -n "$n" x.bg ten 2>&1 | head -1; done
bloomgate build: --items: found '', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found ' ', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found ' 1', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1 ', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '-1', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '+1', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '0x10', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found 'nan', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found 'inf', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1e400', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1e-400', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1e30', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '18446744073709551616', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '20000000P', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1.5', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '0.0001', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1kk', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1kb', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1i', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1e', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1e+', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '.', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '..', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1.2.3', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1,000', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '１', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found 'k', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found 'B', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '1/2', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '5%', expected a whole number such as 1000, 10k, 5M or 1e6
bloomgate build: --items: found '10s', expected a whole number such as 1000, 10k, 5M or 1e6
$ bloomgate build -q -f --seed 18446744073709551615 x.bg ten
$ bloomgate build -q -f --seed 18446744073709551616 x.bg ten
! bloomgate build: --seed: found '18446744073709551616', expected a whole number such as 1000, 10k, 5M or 1e6
! Try 'bloomgate build --help'.
? 2
$ bloomgate build -q -f --seed 9223372036854775807 x.bg ten
$ bloomgate build -q -f --seed 0 x.bg ten
$ bloomgate build -q -f --seed 0k x.bg ten

# Bytes.
$ for n in 64k 64Ki 64KiB 0.1M 1e5; do bloomgate build -q -f --bytes $n x.bg ten || echo "$n?"; done
$ bloomgate build -q -f --bytes 64x x.bg ten
! bloomgate build: --bytes: found '64x', expected a number of bytes such as 64k, 512M or 2Gi
! Try 'bloomgate build --help'.
? 2

# Rates.
$ for p in 0.1% 1e-3 1/1000 0.001 .001 50% 1e-1% 3/4 99.9%; do bloomgate build -q -f -p $p x.bg ten || echo "$p?"; done
$ bloomgate build -p 0 x.bg ten
! bloomgate build: --rate: found '0', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
! Try 'bloomgate build --help'.
? 2
$ for p in '' 0 0% 0/5 1 100% 1/1 2 -0.1 +0.1 nan inf 1e400 1e-400 0x1p-4 1/0 0/0 1/ /5 % 1%% 1/1000% 1%/2 0.1k 0,1 '0.1 ' 1/-5; do bloomgate build -q -f -p "$p" x.bg ten 2>&1 | head -1; done
bloomgate build: --rate: found '', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0%', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0/5', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '100%', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1/1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '2', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '-0.1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '+0.1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found 'nan', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found 'inf', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1e400', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1e-400', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0x1p-4', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1/0', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0/0', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1/', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '/5', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '%', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1%%', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1/1000%', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1%/2', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0.1k', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0,1', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '0.1 ', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
bloomgate build: --rate: found '1/-5', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%

# Fractional numbers and durations are checked.
$ for b in 8 8.5 1e1 0.01k; do bloomgate build -q -f --bits-per-key $b x.bg ten || echo "$b?"; done
$ for b in '' -1 nan inf 1e400 8x 0x8 1e308P; do bloomgate build -q -f --bits-per-key "$b" x.bg ten 2>&1 | head -1; done
bloomgate build: --bits-per-key: found '', expected a number such as 2.5
bloomgate build: --bits-per-key: found '-1', expected a number such as 2.5
bloomgate build: --bits-per-key: found 'nan', expected a number such as 2.5
bloomgate build: --bits-per-key: found 'inf', expected a number such as 2.5
bloomgate build: --bits-per-key: found '1e400', expected a number such as 2.5
bloomgate build: --bits-per-key: found '8x', expected a number such as 2.5
bloomgate build: --bits-per-key: found '0x8', expected a number such as 2.5
bloomgate build: --bits-per-key: found '1e308P', expected a number such as 2.5
$ for t in 30 30s 5m 1h 1d 500ms 1e9us 1.5e12ns; do bloomgate build -q -f -n 10 -k blocked --checkpoint $t x.bg ten || echo "$t?"; done
$ for t in '' -1 5x 5M s 1e400 inf 1S '1 s'; do bloomgate build -q -f -n 10 --checkpoint "$t" x.bg ten 2>&1 | head -1; done
bloomgate build: --checkpoint: found '', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '-1', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '5x', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '5M', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found 's', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '1e400', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found 'inf', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '1S', expected a time such as 30s, 5m or 1.5ms
bloomgate build: --checkpoint: found '1 s', expected a time such as 30s, 5m or 1.5ms

# Keys that may be due to an incorrect option are reported once, with the option. -q suppresses the
# notes.
$ printf 'a\r\nb\r\n' > crlf; printf 'a,1\nb,2\n' > two; printf 'a\n\nb\n' > blank; for n in 1 2 3; do printf 'a\t\nb\n\nc\td\n'; done > gaps
$ bloomgate build -f x.bg crlf 2>&1 | head -1; bloomgate check -c x.bg crlf; cat crlf crlf | bloomgate dedup -c 2>&1 | grep -c CR; bloomgate build -f --csv --field 2 x.bg crlf 2>&1 | head -1
bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
2
1
bloomgate build: no record has field 2 (records read: 2); check --field and --delimiter
! bloomgate check: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
$ bloomgate build -f --csv --field 9 x.bg two 2>&1 | head -1; bloomgate check --field 2 -c x.bg two
bloomgate build: no record has field 9 (records read: 2); check --field and --delimiter
! bloomgate check: no record has field 2 (records read: 2); check --field and --delimiter
? 3
$ bloomgate build -f x.bg blank 2>&1 | head -1; bloomgate add x.bg blank 2>&1 | head -1; bloomgate check -c x.bg blank; bloomgate dedup -c blank 2>&1 | grep -c empty
bloomgate build: empty keys: 1 of 3; if they are not keys, remove them from the input
bloomgate add: empty keys: 1 of 3; if they are not keys, remove them from the input
3
0
? 1
$ bloomgate dedup --field 2 gaps > /dev/null
! bloomgate dedup: warning: records without field 2: 6 of 12; they are not compared; check --field and --delimiter
! bloomgate dedup: empty keys: 3 of 12; if they are not keys, remove them from the input
! bloomgate dedup: 12 lines, 2 unique, 4 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ for options in --crlf --trim --null --length-prefixed "--csv --field 1" -q; do bloomgate build -f $options x.bg crlf 2>&1 | grep CR; done; printf 'a,1\r\n' | bloomgate build -f --csv x.bg 2>&1 | grep CR; printf 'x\n\ra' | bloomgate build -f x.bg 2>&1 | grep -E 'CR|empty'; printf 'x\ny' | bloomgate build -f x.bg 2>&1 | grep -E 'CR|empty'; bloomgate build -qf x.bg blank; bloomgate build -f x.bg gaps 2>&1 | grep -c without
bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
0
? 1
$ for i in 1 2 3 4 5 6 7 8; do seq 100000 | sed 's/$/\r/'; done > long; bloomgate check -t 8 -c x.bg long
520
! bloomgate check: keys that end with CR: 800,000 of 800,000; if lines end with CR LF, use --crlf
$ for n in 0 -1 x; do bloomgate build -f --field $n x.bg two 2>&1 | head -1; done
bloomgate build: --field: found '0', expected a number of at least 1, or the name of a column
bloomgate build: two: has no column '-1'; its header contains: a,1
bloomgate build: two: has no column 'x'; its header contains: a,1
