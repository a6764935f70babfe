# Tests the selection of keys in CSV, JSON Lines and text with fields, in every subcommand that reads
# keys, and the notes about options that do not match the input.

# ---- CSV with a header ----

$ printf 'id,email,name\n1,a@x.org,Ann\n2,b@x.org,"Bo ""B"", Jr"\n3,c@x.org,"two\nlines"\n' > users.csv
$ bloomgate build -q --csv --field email mail.bg users.csv; printf 'a@x.org\nemail\nz@x.org\n' | bloomgate check mail.bg
a@x.org
$ bloomgate build -q --csv --field name names.bg users.csv; printf 'Bo "B", Jr\nname\n' | bloomgate check names.bg
Bo "B", Jr
$ bloomgate build -q --csv --header --field 2 mail2.bg users.csv; bloomgate diff -q mail.bg mail2.bg
$ bloomgate build -f --csv --field mail x.bg users.csv
! bloomgate build: users.csv: has no column 'mail'; its header contains: id, email, name
? 3
$ printf '"a","b","a"\n1,2,3\n' | bloomgate build -f --csv --field a x.bg
! bloomgate build: stdin: two columns are named 'a'; select one with --header --field 1 or 3
? 3

# check and dedup print the header of the first file. It is not a record.
$ bloomgate check --csv --field email mail.bg users.csv | head -2; bloomgate check -v --csv --field email mail.bg users.csv
id,email,name
1,a@x.org,Ann
id,email,name
? 1
$ bloomgate check -a --csv --field email mail.bg users.csv | head -2; bloomgate check -c --csv --field email mail.bg users.csv
answer	id,email,name
maybe	1,a@x.org,Ann
3
$ bloomgate dedup -q --csv --field id users.csv users.csv | wc -l; printf 'id,x' | bloomgate dedup -q --csv --header | od -An -c
5
   i   d   ,   x  \n
$ bloomgate dedup -q --count --csv --field id users.csv users.csv
3

# Every file has its own header, with the columns in any order, and possibly a byte-order mark or CR.
$ printf '\xef\xbb\xbfemail,id\r\nd@x.org,4\r\n' > more.csv; bloomgate build -q --csv --crlf --field id ids.bg users.csv more.csv; seq 5 | bloomgate check ids.bg
1
2
3
4
$ bloomgate build -q --csv --crlf --field email all.bg more.csv users.csv; printf 'a@x.org\nd@x.org\n' | bloomgate check -c all.bg
2
$ : > nothing.csv; bloomgate build -q --csv --field id one.bg nothing.csv users.csv; seq 5 | bloomgate check -c one.bg
3

# A byte-order mark does not hide the quotes of the first field, which may contain delimiters, quotes
# and newlines. Without --header, the mark is part of the first row, but not of its key.
$ printf '"na,""",id\n1,5\n2,6\n3,"7"\n4,8\n' | sed '1s/^/\xef\xbb\xbf/' > quoted.csv; for o in '--header --field 2' '--field id'; do bloomgate build -qf -p 1e-6 --csv $o q.bg quoted.csv; bloomgate build -qf -p 1e-6 -n 10 --csv $o p.bg - < quoted.csv; gzip -c quoted.csv | bloomgate build -qf -p 1e-6 -n 10 --csv $o z.bg; seq 10 | bloomgate check q.bg | paste -sd ' '; bloomgate diff -q p.bg z.bg; seq 10 | bloomgate check -c p.bg; done
5 6 7 8
4
5 6 7 8
4
$ printf '"Smith, John",5\n"two\nlines",6\n' > names.csv; sed '1s/^/\xef\xbb\xbf/' names.csv > marked.csv; bloomgate build -qf -p 1e-6 --csv n.bg names.csv; bloomgate check -v --csv n.bg marked.csv; bloomgate check --csv n.bg marked.csv | cmp - marked.csv; bloomgate build -f -p 1e-6 --csv m.bg names.csv marked.csv; bloomgate check -v --csv n.bg names.csv marked.csv
! bloomgate build: m.bg: classic, 4 keys, ...
? 1
$ python3 -c "import os, time; [(os.write(1, bytes([b])), time.sleep(.001)) for b in open('marked.csv', 'rb').read()]" | bloomgate check --csv n.bg | cmp - marked.csv
$ printf '\xef\xbb\xbf"x\ny"\n"7"\n' | bloomgate dedup --csv --as int64 --skip-invalid; printf '\xef\xbb\xbf"x\ny\n' | bloomgate dedup -q --csv; printf '\xef\xbb\xbf' | bloomgate dedup --csv
"7"
! bloomgate dedup: invalid records skipped: 1 of 2
! bloomgate dedup: 1 line, 1 unique, 0 dropped; ...
! bloomgate dedup: stdin: line 1: the record has unclosed quotes: '"x?y'
! bloomgate dedup: 0 lines, 0 unique, 0 dropped; ...

# All subcommands accept the same options.
$ bloomgate build -q -k counting -n 100 --csv --field id c.bg users.csv; bloomgate add -q --csv --crlf --field id c.bg more.csv; bloomgate remove --csv --field id c.bg users.csv; seq 5 | bloomgate check c.bg
4
! bloomgate remove: c.bg: keys removed: 3, definitely not in the filter: 0
! bloomgate remove: c.bg: counting, about 1 key, 704 B, false-positive rate below 0.01% (target 1%)
$ bloomgate convert -q --from-keys users.csv --csv --field email --to guava -n 10 mail.bf; printf 'a@x.org\nemail\n' | bloomgate check mail.bf
a@x.org
$ bloomgate bench -k classic --csv --field email users.csv | head -1
3 distinct keys from 3 records, 7.0 bytes on average; hash profile fast; false-positive rate 1%

# Many threads, and files that are much larger than a chunk.
$ (echo 'n,half'; seq 300000 | awk '{ print $1 "," int($1 / 2) }') > big.csv; for t in 1 4; do bloomgate build -qf -t $t -p 1e-6 --csv --field half big.bg big.csv; seq 0 150001 | bloomgate check -c big.bg; bloomgate check -t $t --csv --field half big.bg big.csv | cmp - big.csv; done
150001
150001

# With --shard, every part uses the header at the start of the file, and no part contains it as a key.
$ tr ',' '\t' < big.csv > big.tsv; for i in 1 2 3; do bloomgate build -q -n 150001 -p 1e-6 --field half --shard $i/3 part$i.bg big.tsv; done; bloomgate merge -q whole.bg part?.bg; seq 0 150001 | bloomgate check -c whole.bg; echo half | bloomgate check -c whole.bg
150001
0
? 1
$ bloomgate build -q -n 10 --csv --field half --shard 1/3 x.bg big.csv
! bloomgate build: --shard requires records that end with a newline or NUL
! Try 'bloomgate build --help'.
? 2
$ for i in 1 2 3; do bloomgate build -q -n 150001 -p 1e-6 --field half --shard $i/3 spart$i.bg - < big.tsv; done; bloomgate merge -q swhole.bg spart?.bg; bloomgate diff -q whole.bg swhole.bg

# A resumed build uses the header, too, and refuses a different column.
$ python3 -c "import sys; n = (64 << 20) // 100 + 5000; sys.stdout.writelines(['pad\tid\n'] + ['%099d\t%d\n' % (0, i) for i in range(n)]); print(n - 1, file=sys.stderr)" 2> last > first; printf 'id\tpad\n7000000\tx\nbad\tx\n' > second
$ bloomgate build -q -n 700k -p 1e-6 --as int64 --field id --checkpoint 1ms resumed.bg first second
! bloomgate build: second: line 3: not valid int64: 'bad?x'; to skip such records, use --skip-invalid
? 3
$ printf 'id\tpad\n7000000\tx\n-17\tx\n' > second; bloomgate build -q --as int64 --field pad --resume resumed.bg first second
! bloomgate build: resumed.bg.partial: the checkpoint was written with different arguments; use the same files in the same order, and the same record, field and --shard options
? 3
$ bloomgate build -q --as int64 --field id --resume resumed.bg first second; (seq 0 $(cat last); echo 7000000; echo -17) | bloomgate check -v -c resumed.bg; rm first
0

# ---- Runs of white space ----

$ printf '  alice   17\nbob\t\t 18  \n\n' > spaced; bloomgate build --whitespace --field 2 -f x.bg spaced; printf '17\n18\n\n' | bloomgate check x.bg
17
18
|
! bloomgate build: warning: records without field 2: 1 of 3; their keys are empty; check --field
! bloomgate build: x.bg: classic, 3 keys, 24 B, false-positive rate 0.697% (target 1%), ...
$ printf 'user  age\nalice 17\n' | bloomgate dedup -q --whitespace --field age
user  age
alice 17
$ bloomgate build --whitespace --csv new.bg spaced
! bloomgate build: --whitespace cannot be combined with --csv or --delimiter
! Try 'bloomgate build --help'.
? 2

# ---- JSON Lines ----

$ printf '%s\n' '{"user":{"id":42,"name":"Zo\u00eb"},"tags":["a","b"]}' '' '{"user": {"id": "x-1", "name": "\ud83d\ude00"}, "tags": []}' '{"user":{"id":1.0,"name":""},"tags":["c",{"d":true}]}' > events
$ bloomgate build -f --json .user.id id.bg events; printf '42\nx-1\n1.0\n1\n' | bloomgate check id.bg
42
x-1
1.0
! bloomgate build: id.bg: classic, 3 keys, 24 B, false-positive rate 0.807% (target 1%), ...
$ bloomgate build -f --json .user.name name.bg events; printf 'Zoë\n😀\n' | bloomgate check name.bg
Zoë
😀
! bloomgate build: empty keys: 1 of 3; if they are not keys, remove them from the input
! bloomgate build: name.bg: classic, 3 keys, 24 B, false-positive rate 1%, ...
$ bloomgate build -f --json '.tags[1].d' d.bg events; echo true | bloomgate check d.bg
true
! bloomgate build: warning: records without a value at the --json path: 2 of 3; their keys are empty; check the path
! bloomgate build: d.bg: classic, 3 keys, 24 B, false-positive rate 0.556% (target 1%), ...
$ bloomgate check --json .user.id id.bg events | cut -c1-20; bloomgate dedup -q --json .user.id events events | wc -l
{"user":{"id":42,"na
{"user": {"id": "x-1
{"user":{"id":1.0,"n
3
$ bloomgate check -q --json .user.id id.bg events; printf '"17"\n17\n' | bloomgate dedup -q --json .
"17"
$ printf '{"id":1}\n{"id":300}\n' | bloomgate build -qf --json .id --as int64 int.bg; echo 300 | bloomgate check int.bg
300
$ printf '{"id":1,"id":2}\n' | bloomgate build -qf --json .id last.bg; seq 2 | bloomgate check last.bg
2
$ printf '\xef\xbb\xbf{"id":1}\r\n{"id":"a\\u0000b"}\r\n' | bloomgate build -f --json .id last.bg; printf '1\na\0b\n' | bloomgate check last.bg | od -An -c
   1  \n   a  \0   b  \n
! bloomgate build: last.bg: scalable, 2 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%), ...
$ bloomgate build -q -k counting -n 100 --json .user.id jc.bg events; bloomgate remove --json .user.id jc.bg events
! bloomgate remove: jc.bg: keys removed: 3, definitely not in the filter: 0
! bloomgate remove: jc.bg: counting, about 0 keys, 704 B, false-positive rate below 0.01% (target 1%)
$ bloomgate convert -q --from-keys events --json .user.id --to go -n 10 ids.go; printf '42\n43\n' | bloomgate check ids.go
42
$ bloomgate bench -k classic --json .user.id events | head -1
3 distinct keys from 3 records, 2.7 bytes on average; hash profile fast; false-positive rate 1%

# Invalid records are errors with the line number, and OUT is not written. --skip-invalid skips them.
$ (cat events; echo '{"user":{"id":7}'; echo '{"user":{"id":8}}') > bad; bloomgate build --json .user.id bad.bg bad; ls bad.bg
! bloomgate build: bad: line 5, column 17: not valid JSON, expected ',' or '}': '{"user":{"id":7}'; to skip such records, use --skip-invalid
! ls: cannot access 'bad.bg': No such file or directory
? 2
$ bloomgate build --skip-invalid --json .user.id bad.bg bad; printf '7\n8\n' | bloomgate check bad.bg
8
! bloomgate build: invalid records skipped: 1 of 5
! bloomgate build: bad.bg: classic, 4 keys, 32 B, false-positive rate 0.296% (target 1%), ...
$ bloomgate check --skip-invalid -v --json .user.id id.bg bad
{"user":{"id":8}}
! bloomgate check: invalid records skipped: 1 of 5
$ for line in '{"a":{}}' '{"a":[1]}' '{"a":"\ud800"}' 'null null' '{"a":1,}' "{'a':1}" '{"a":NaN}' 'plain' '{"a":"'$'\t''"}' '{"a":"'$'\xff''"}' '{"a":01}'; do echo "$line" | bloomgate dedup -q --json .a; done
! bloomgate dedup: stdin: line 1, column 6: found an object or list, expected a string or number at the path: '{"a":{}}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 6: found an object or list, expected a string or number at the path: '{"a":[1]}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 6: found a lone surrogate or invalid UTF-8, expected a Unicode string: '{"a":"\ud800"}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 6: not valid JSON, expected one JSON value per line: 'null null'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 8: not valid JSON, expected a member name: '{"a":1,}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 2: not valid JSON, expected a member name: '{'a':1}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 6: not valid JSON, expected a JSON value: '{"a":NaN}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 1: not valid JSON, expected a JSON value: 'plain'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 7: not valid JSON, expected an escape sequence, not a control character: '{"a":"?"}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 6: found a lone surrogate or invalid UTF-8, expected a Unicode string: '{"a":"?"}'; to skip such records, use --skip-invalid
! bloomgate dedup: stdin: line 1, column 8: not valid JSON, expected a JSON value: '{"a":01}'; to skip such records, use --skip-invalid
? 3
$ printf '{"a":"\0"}\n' | bloomgate dedup -q --json .a
! bloomgate dedup: stdin: line 1, column 7: not valid JSON, expected an escape sequence, not a control character: '{"a":"?"}'; to skip such records, use --skip-invalid
? 3
$ (printf '%02000d' 0 | tr 0 '['; echo) | bloomgate dedup -q --json .a 2>&1 | cut -c1-80
bloomgate dedup: stdin: line 1, column 1025: not valid JSON, expected at most 1,
$ printf '1\nx\n3\n' | bloomgate dedup --as int64 --skip-invalid
1
3
! bloomgate dedup: invalid records skipped: 1 of 3
! bloomgate dedup: 2 lines, 2 unique, 0 dropped; wrongly dropped: fewer than 0.01 expected; scalable filter, 5.9 MiB
$ seq 300000 | sed 's/.*/{"n":{"m":&}}/' > many; echo '{"n":' >> many; for t in 1 4; do bloomgate build -qf -t $t --json .n.m many.bg many; done; head -n -1 many > good; bloomgate build -qf -t 4 -p 1e-6 --json .n.m many.bg good; seq 300001 | bloomgate check -c many.bg
300000
! bloomgate build: many: line 300001, column 6: not valid JSON, expected a JSON value: '{"n":'; to skip such records, use --skip-invalid
! bloomgate build: many: line 300001, column 6: not valid JSON, expected a JSON value: '{"n":'; to skip such records, use --skip-invalid
$ for i in 1 2; do bloomgate build -q -n 300k -p 1e-6 --json .n.m --shard $i/2 jpart$i.bg good; done; bloomgate merge -q jwhole.bg jpart?.bg; seq 300001 | bloomgate check -c jwhole.bg
300000

# If no record is valid, an option is wrong, so nothing is written. If a key is invalid because of CR, the message suggests
# --crlf.
$ printf '1\r\n2\r\n' > crlf; for as in int64 int32 hex; do bloomgate build --as $as typed.bg crlf; done
! bloomgate build: crlf: line 1: not valid int64: '1?'; it ends with CR; if lines end with CR LF, use --crlf
! bloomgate build: crlf: line 1: not valid int32: '1?'; it ends with CR; if lines end with CR LF, use --crlf
! bloomgate build: crlf: line 1: not valid hex: '1?'; it ends with CR; if lines end with CR LF, use --crlf
? 3
$ for as in int64 int32 hex; do bloomgate build --as $as --skip-invalid typed.bg crlf; done; ls typed.bg
! bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate build: none of the records (2) is valid; use --crlf
! bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate build: none of the records (2) is valid; use --crlf
! bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate build: none of the records (2) is valid; use --crlf
! ls: cannot access 'typed.bg': No such file or directory
? 2
$ bloomgate build -q --as int64 --crlf typed.bg crlf; cp typed.bg copy.bg; bloomgate add --skip-invalid typed.bg crlf; bloomgate check -c --skip-invalid typed.bg crlf; cmp typed.bg copy.bg
! bloomgate add: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate add: none of the records (2) is valid; use --crlf
! bloomgate check: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate check: none of the records (2) is valid; use --crlf
$ bloomgate dedup --as int64 --skip-invalid --state typed.state crlf; ls typed.state
! bloomgate dedup: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate dedup: none of the records (2) is valid; use --crlf
! ls: cannot access 'typed.state': No such file or directory
? 2
$ printf '7\n' | cat crlf - > mixed; bloomgate build --as int64 --skip-invalid mixed.bg mixed; echo 7 | bloomgate check -c mixed.bg
1
! bloomgate build: keys that end with CR: 2 of 3; if lines end with CR LF, use --crlf
! bloomgate build: invalid records skipped: 2 of 3
! bloomgate build: mixed.bg: classic, 1 key, 24 B, false-positive rate 0.375% (target 1%), ...
$ printf 'x\ny\n' | bloomgate build -q --as int64 --skip-invalid invalid.bg; printf 'x\ny\n' | bloomgate dedup -q --json .a --skip-invalid
! bloomgate build: none of the records (2) is valid; check --as
! bloomgate dedup: none of the records (2) is valid; check the path
? 3
$ printf '\n\n' | bloomgate dedup -q --json .a --skip-invalid
$ printf 'a,1\r\nb,2\r\n' | bloomgate build --csv --field 2 --as int64 invalid.bg
! bloomgate build: stdin: line 1: not valid int64: 'a,1?'; it ends with CR; if lines end with CR LF, use --crlf
? 3

# Missing values are empty keys.
$ printf '{"a":1}\n{"b":1}\n{"a":null}\n{"a":""}\n' | bloomgate build -f --json .a x.bg
! bloomgate build: warning: records without a value at the --json path: 2 of 4; their keys are empty; check the path
! bloomgate build: empty keys: 1 of 4; if they are not keys, remove them from the input
! bloomgate build: x.bg: scalable, 4 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%), ...

# -q does not suppress the warning. dedup does not compare records without the field. If no record has
# the field, all commands fail.
$ printf 'a\tx\nb\nc\tx\nb\nd\t\n' > keyless; bloomgate dedup -q --field 2 keyless
a	x
b
b
d	
! bloomgate dedup: warning: records without field 2: 2 of 5; they are not compared; check --field and --delimiter
$ bloomgate dedup -q --json .usr.id good | cmp - good; bloomgate build -q --json .usr.id none.bg good; ls none.bg 2> /dev/null
! bloomgate dedup: no record has a value at the --json path (records read: 300,000); check the path
! bloomgate build: no record has a value at the --json path (records read: 300,000); check the path
? 2

# ---- Options that contradict each other ----

$ for o in '--json a' '--json .a --csv' '--json .a --field 1' '--whitespace --delimiter ,' '--length-prefixed --header' '--field='; do bloomgate dedup $o nothing.csv 2>&1 | head -1; done
bloomgate dedup: --json: found 'a', expected a path such as .user.id, .tags[0] or .["a.b"]
bloomgate dedup: --json cannot be combined with --csv, --field, --delimiter, --whitespace or --header
bloomgate dedup: --json cannot be combined with --csv, --field, --delimiter, --whitespace or --header
bloomgate dedup: --whitespace cannot be combined with --csv or --delimiter
bloomgate dedup: --length-prefixed cannot be combined with --crlf, --field, --header or --whitespace
bloomgate dedup: --field: found '', expected a number of at least 1, or the name of a column
$ bloomgate check mail.bg --json .a --header users.csv
! bloomgate check: --json cannot be combined with --csv, --field, --delimiter, --whitespace or --header
! Try 'bloomgate check --help'.
? 2

# ---- Notes about input that may not fit the options ----

$ bloomgate build -f --csv --field 2 x.bg users.csv
! bloomgate build: the first record seems to be a header; if it is not a key, use --header
! bloomgate build: x.bg: classic, 4 keys, 32 B, false-positive rate 0.278% (target 1%), ...
$ printf 'a\r\nb\r\n' | bloomgate build -f x.bg; printf 'a\r\nb\r\n' | bloomgate check x.bg | od -An -c
   a  \r  \n   b  \r  \n
! bloomgate build: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
! bloomgate build: x.bg: scalable, 2 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%), ...
! bloomgate check: keys that end with CR: 2 of 2; if lines end with CR LF, use --crlf
$ printf '1,"a"\r\n2,"b"\r\n' | bloomgate build -f --csv --field 2 x.bg; printf 'a\nb\n' | bloomgate check -c x.bg; printf 'a\r\nb\r' | bloomgate dedup -q --crlf --count; printf 'a\nb\n' | bloomgate check --crlf -c x.bg
2
2
2
! bloomgate build: x.bg: scalable, 2 keys, ...
$ printf '1,2\n3,4\n' | bloomgate build -f --csv --field 9 x.bg
! bloomgate build: no record has field 9 (records read: 2); check --field and --delimiter
? 3
$ printf '\xef\xbb\xbfa\nb\n' | bloomgate build -f x.bg
! bloomgate build: the input starts with a UTF-8 byte-order mark, which became part of the first key; remove the mark from the input unless it belongs to the key
! bloomgate build: x.bg: scalable, 2 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%), ...
$ printf 'alice,admin\nbob,user\n' | bloomgate build -f --csv x.bg
! bloomgate build: x.bg: scalable, 2 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%), ...
$ printf 'started server\n10:30 request\n' | bloomgate dedup --whitespace --field 2 2>&1 | grep -c header
0
? 1
$ printf '\n\n' | bloomgate add x.bg
! bloomgate add: empty keys: 2 of 2; if they are not keys, remove them from the input
! bloomgate add: x.bg: keys added: 2, definitely new: 1
! bloomgate add: x.bg: scalable, about 3 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%)
$ for c in 'dedup' 'check x.bg' 'add x.bg' 'bench -k classic'; do printf 'id,at\r\n1,2\r\n3\r\n' | bloomgate $c --csv --field 2 2>&1 > /dev/null | grep -v keys.added\\\|lines,\\\|blocked; done
bloomgate dedup: keys that end with CR: 2 of 3; if lines end with CR LF, use --crlf
bloomgate dedup: warning: records without field 2: 1 of 3; they are not compared; check --field and --delimiter
bloomgate dedup: the first record seems to be a header; if it is not a key, use --header
bloomgate check: keys that end with CR: 2 of 3; if lines end with CR LF, use --crlf
bloomgate check: warning: records without field 2: 1 of 3; their keys are empty; check --field and --delimiter
bloomgate check: the first record seems to be a header; if it is not a key, use --header
bloomgate add: keys that end with CR: 2 of 3; if lines end with CR LF, use --crlf
bloomgate add: warning: records without field 2: 1 of 3; their keys are empty; check --field and --delimiter
bloomgate add: the first record seems to be a header; if it is not a key, use --header
bloomgate add: x.bg: scalable, about 5 keys, 1.7 MiB, false-positive rate below 0.01% (target 1%)
bloomgate bench: keys that end with CR: 2 of 3; if lines end with CR LF, use --crlf
bloomgate bench: warning: records without field 2: 1 of 3; their keys are empty; check --field and --delimiter
bloomgate bench: the first record seems to be a header; if it is not a key, use --header

# The header is printed even if the first file is empty, and only once.
$ : > none.csv; printf 'id,x\n1,a\n' > h.csv; bloomgate build -q --csv --field id h.bg h.csv; bloomgate check --csv --field id h.bg none.csv h.csv h.csv; cat h.csv | bloomgate dedup -q --csv --field id /dev/null - none.csv
id,x
1,a
1,a
id,x
1,a

# Field numbers are printed as specified. Counts of 1 use the singular.
$ printf 'id,2020\n1,2\n' | bloomgate build -q --csv --field 2020 year.bg; echo a | bloomgate bench -k blocked | head -1
1 distinct key from 1 record, 1.0 bytes on average; hash profile fast; false-positive rate 1%
! bloomgate build: no record has field 2020 (records read: 2); check --field and --delimiter
