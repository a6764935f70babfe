# bloomgate info: describes filter files.

$ cp $CLI_TESTS/../golden/files/*.bg .
$ bloomgate info blocked.bg
blocked.bg
  format       bloomgate 1.0
  kind         blocked
  geometry     k 7, 8 units
  size         512 B, 4,096 bits, 10.24 bits/key
  can fold     3 times
  designed for 400 keys at a rate of 0.864%
  hash         fast, seed 0
  key id       golden key no. 1
  keys         URL, lower case
  generation   77
  canaries     yes
  created      2023-11-14T22:13:20Z
  digest       21eea09d34a1aeeeab048daa822a0a63
  file         8,708 bytes, 1 block
  fill         41.4%
  keys stored  about 312 of 400 (304 to 320)
  current rate 0.264% (target 0.864%)
  health       fine
$ bloomgate info --json blocked.bg
{"schema": "bloomgate.info.1", "file": "blocked.bg", "file_bytes": 8708, "format": "bloomgate", "complete": true, "bits_per_key": 10.24, "version": "1.0", "kind": "blocked", "k": 7, "units": 8, "width": 0, "shards": 1, "design": {"items": 400, "rate": 0.00863894}, "hash": {"profile": "fast", "seed": 0, "check": "89c62087505edfb6", "key_id": "golden key no. 1"}, "keys": "URL, lower case", "generation": 77, "canaries": true, "created": "2023-11-14T22:13:20Z", "digest": "21eea09d34a1aeeeab048daa822a0a63", "metadata": "keys: URL, lower case\u000a", "blocks": 1, "bits": 4096, "bytes": 512, "foldable": 3, "ones": 1694, "fill": 0.413574, "items": {"value": 312.029, "low": 304.398, "high": 319.66}, "rate": 0.00263979, "saturated": 0, "health": "fine", "times_design_rate": 0.305568, "status": "fine"}

# Every kind.
$ bloomgate info classic.bg counting_wide.bg cuckoo_shards.bg | grep -E 'bg|kind|geometry|width|shards|size|fill|keys stored|rate|health'
classic.bg
  kind         classic
  geometry     k 7, 60 units
  size         480 B, 3,840 bits, 9.6 bits/key
  designed for 400 keys at a rate of 0.999%
  fill         43.8%
  keys stored  about 316 of 400 (308 to 324)
  current rate 0.309% (target 0.999%)
  health       fine
counting_wide.bg
  kind         counting
  geometry     k 6, 34 units
  width        8
  size         4.2 KiB, 34,816 bits, 87.04 bits/key
  designed for 400 keys at a rate of 0.999%
  fill         35.4%
  keys stored  about 317 of 400 (309 to 325)
  current rate 0.413% (target 0.999%)
  health       fine
cuckoo_shards.bg
  kind         cuckoo
  geometry     k 12, 24 units
  shards       2
  size         1.1 KiB, 9,216 bits, 23.04 bits/key
  designed for 400 keys at a rate of 0.171%
  fill         44.7%
  keys stored  about 340 of 400 (340 to 340)
  current rate 0.0869% (target 0.171%)
  health       fine
$ bloomgate info quotient.bg fuse.bg ribbon.bg scalable.bg generations.bg aged.bg | grep -E 'bg|kind|geometry|width|keys stored|current rate|health'
quotient.bg
  kind         quotient
  geometry     k 7, 19 units
  keys stored  about 317 of 400 (315 to 318)
  current rate 0.482% (target 0.608%)
  health       fine
fuse.bg
  kind         fuse
  geometry     k 8, 64 units
  width        3
  keys stored  about 316 of 316 (316 to 316)
  current rate 0.391%
  health       fine
ribbon.bg
  kind         ribbon
  geometry     k 7, 7 units
  keys stored  about 316 of 316 (316 to 316)
  current rate 0.781%
  health       fine
scalable.bg
  kind         scalable
  geometry     k 8, 32 units
  width        2
  keys stored  about 2,320 (2,303 to 2,338)
  current rate 0.209% (target 1%)
  health       fine
generations.bg
  kind         window
  geometry     k 8, 5 units
  keys stored  about 315 of 400 (308 to 321)
  current rate 0.16% (target 0.857%)
  health       fine
aged.bg
  kind         window
  geometry     k 8, 47 units
  keys stored  about 314 of 400 (302 to 325)
  current rate below 0.00987% (target 0.987%)
  health       fine
$ bloomgate info --json *.bg | python3 -c 'import json,sys; all=[json.loads(l) for l in sys.stdin]; print(len(all), {x["schema"] for x in all}, sum(x["complete"] for x in all))'
28 {'bloomgate.info.1'} 25

# A nearly empty filter.
$ seq 1000 | bloomgate build -q piped.bg; bloomgate info piped.bg | grep size; rm piped.bg
  size         1.7 MiB, 14,509,568 bits, 14,5... bits/key
# File names cannot send control sequences to a terminal, not even in messages.
$ cp blocked.bg "$(printf 'x\033[31m\302\233y.bg')"; bloomgate info x*y.bg | head -1; rm x*y.bg
x?[31m??y.bg
$ bloomgate info "$(printf 'no\033]0;title\007')"
! bloomgate info: no?]0;title?: No such file or directory
? 4

# Notes and key conversions are shown.
$ seq 100 | bloomgate build -q --items 100 --note "$(printf 'two\nlines \033[31m')" --trim --as int64 n.bg; bloomgate info n.bg | grep -E 'note|keys  '
  keys         trim,int64
  note         two
  note         lines ?[31m
$ bloomgate info --json n.bg | python3 -c 'import json,sys; x=json.load(sys.stdin); print(repr(x["metadata"]), x["keys"])'
'keys: trim,int64\ntwo\nlines \x1b[31m\n' trim,int64
$ seq 3 | bloomgate build -q --items 100 --no-canaries --seed 5 --generation 12 g.bg; bloomgate info g.bg | grep -E 'canaries|generation|hash'
  hash         fast, seed 5
  generation   12
  canaries     none
$ seq 10000000 10000100 | bloomgate build -q --items 200 --hash fast-int --seed 5 fi.bg; bloomgate info fi.bg | grep hash; seq 10000000 10000100 | bloomgate check -c fi.bg
  hash         fast-int, seed 5
101

# Health. A filter that contains the number of keys it was designed for is healthy, even if it is
# small.
$ for n in 100 200 500 1000 2000; do seq $n > keys; bloomgate build -q -f small.bg keys; bloomgate info small.bg | grep health; done | uniq -c; rm keys small.bg
      5   health       fine
$ seq 1000 | bloomgate build -q -n 1000 over.bg; seq 5000 | bloomgate add -q over.bg
! bloomgate add: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 80.2% (target 1%); build a larger filter
$ bloomgate info over.bg | grep -E 'rate|health'
  designed for 1,000 keys at a rate of 1%
  current rate 80.2% (target 1%)
  health       act: holds more keys than its capacity of 1,000, so its false-positive rate is 80.2% (target 1%)
$ bloomgate info --json over.bg | grep -o '"health": "[a-z]*", "times_design_rate": [0-9.]*'
"health": "fuller", "times_design_rate": 80.1506

# build does not write a filter whose rate is far above the requested rate. A small excess causes a warning.
$ seq 100000 > keys; bloomgate build -n 1000 gross.bg keys; bloomgate build -q -n 1000 -k counting -p 1e-6 gross.bg keys; cat keys | bloomgate build -q -n 1000 - > gross.out; for i in 1 2; do bloomgate build -q -n 1000 --shard $i/2 gross.bg keys; done; ls gross.bg
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1,000 keys, and 100,000 were read; increase --items to the number of distinct keys, or omit it
! bloomgate build: the filter would have a false-positive rate of 99.7% (target 0.0001%), because it was planned for 1,000 keys, and 100,000 were read; increase --items to the number of distinct keys, or omit it
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1,000 keys, and 100,000 were read; increase --items to the number of distinct keys, or omit it
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1,000 keys, and 50,926 were read; increase --items to the number of distinct keys in the whole input
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1,000 keys, and 49,074 were read; increase --items to the number of distinct keys in the whole input
! ls: cannot access 'gross.bg': No such file or directory
? 2
$ bloomgate build -q -n 1 gross.bg keys; bloomgate build -q -k window --bytes 64k gross.bg keys; bloomgate build -q -k scalable --bits-per-key 8 gross.bg keys
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1 key, and 100,000 were read; increase --items to the number of distinct keys, or omit it
! bloomgate build: --bits-per-key, --bytes: found 0, 64000, expected 0, because a window requires a rate
! bloomgate build: --bits-per-key, --bytes: found 8, 0, expected 0, because a scalable filter requires a rate
? 2
$ for n in 1500 1700 1900; do seq $n | bloomgate build -q -f -t 1 -n 1000 -k classic slight.bg; done
! bloomgate build: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 5.53% (target 1%); increase --items
! bloomgate build: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 8.75% (target 1%); increase --items
! bloomgate build: the filter would have a false-positive rate of 12.7% (target 1%), because it was planned for 1,000 keys, and 1,900 were read; increase --items to the number of distinct keys, or omit it
? 5
$ for i in 1 2 3; do cat keys; done | bloomgate build -q -n 100000 twice.bg
$ cp slight.bg same.bg; bloomgate build -q -f -n 1000 same.bg keys; cmp slight.bg same.bg
! bloomgate build: the filter would have a false-positive rate of 100% (target 1%), because it was planned for 1,000 keys, and 100,000 were read; increase --items to the number of distinct keys, or omit it
$ bloomgate build -q --bits-per-key 10 -n 1000 gross.bg keys
! bloomgate build: the filter would have a false-positive rate of 100% (target 1.16%), because it was planned for 1,000 keys, and 100,000 were read; increase --items to the number of distinct keys, or omit it
? 5

# A filter whose size was chosen is written, with a warning if it is useless, and is not healthy.
$ bloomgate build -q --bytes 1000 bytes.bg keys; bloomgate build -q --bytes 1000 -n 1000 bytes2.bg keys; bloomgate info bytes.bg bytes2.bg | grep health
  health       act: has a false-positive rate of 100%, so it rules out less than half of the absent keys
  health       act: holds more keys than its capacity of 1,000, so its false-positive rate is 100% (target 2.82%)
! bloomgate build: warning: the filter has a false-positive rate of 100%, so it rules out less than half of the absent keys; increase --bytes
! bloomgate build: warning: the filter holds more keys than its capacity of 1,000, so its false-positive rate is 100% (target 2.82%); increase --bytes
$ bloomgate info --json bytes.bg | grep -o '"health": "[a-z]*"\|"status": "[a-z]*"'; bloomgate check -c bytes.bg keys
"health": "fuller"
"status": "act"
100000
! bloomgate check: bytes.bg: has a false-positive rate of 100%, so it rules out less than half of the absent keys; build a larger filter
$ bloomgate build -q -f --bytes 64Ki bytes.bg keys; bloomgate info bytes.bg | grep -E 'rate|health'; rm keys slight.bg same.bg bytes.bg bytes2.bg twice.bg gross.out
  designed for 100,000 keys at a rate of 8.3%
  current rate 8.3%
  health       fine

# A folded filter is compared with the rate it was created for.
$ seq 20000 | bloomgate build -q --items 20000 --rate 0.01 whole.bg; bloomgate fold -q folded.bg whole.bg
! bloomgate fold: warning: the filter has a false-positive rate of 12.2% (target 1%); fold it fewer times, or build a larger filter
$ bloomgate info folded.bg | grep -E 'rate|health'
  designed for 20,000 keys at a rate of 1%
  current rate 12.2% (target 1%)
  health       act: has a false-positive rate of 12.2% (target 1%)
$ bloomgate info --json folded.bg | grep -o '"health": "[a-z]*"'
"health": "fuller"
$ seq 4000 | bloomgate build -q -f --items 20000 --rate 0.01 whole.bg; bloomgate fold -q -f folded.bg whole.bg
$ bloomgate info folded.bg | grep -E 'rate|health'
  designed for 20,000 keys at a rate of 1%
  current rate 0.016% (target 1%)
  health       fine
$ rm whole.bg folded.bg
$ cp blocked.bg hurt.bg; printf 'x' | dd of=hurt.bg bs=1 seek=8200 conv=notrunc status=none
$ bloomgate info hurt.bg
! bloomgate info: hurt.bg: block: found checksum f435631f in block 0, expected checksum 7861fa7a
? 3
$ bloomgate info --tolerate hurt.bg | grep health
  health       act: damaged parts always answer "maybe"
! bloomgate info: warning: hurt.bg: some blocks are damaged; lookups in them always return "maybe"

# Secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ seq 100 | bloomgate build -q --items 100 --hash keyed --keyring ring k.bg
$ bloomgate info k.bg | grep -v -E 'created|digest'
k.bg
  format       bloomgate 1.2
  kind         blocked
  geometry     k 7, 3 units
  size         192 B, 1,536 bits, 15.36 bits/key
  designed for 100 keys at a rate of 1%
  hash         keyed
  key id       one
  keys         used unchanged
  generation   0
  canaries     yes
  file         8,388 bytes, 1 block
  contents     unknown without the secret; use --keyring FILE
$ bloomgate info --keyring ring k.bg | grep -v -E 'created|digest'
k.bg
  format       bloomgate 1.2
  kind         blocked
  geometry     k 7, 3 units
  size         192 B, 1,536 bits, 15.36 bits/key
  designed for 100 keys at a rate of 1%
  hash         keyed
  key id       one
  keys         used unchanged
  generation   0
  canaries     yes
  file         8,388 bytes, 1 block
  fill         41.7%
  keys stored  about 102 of 100 (97 to 107)
  current rate 0.262% (target 1%)
  health       fine
$ bloomgate info --json k.bg | grep -o '"complete": [a-z]*'
"complete": false
$ bloomgate info --keyring other k.bg
! bloomgate info: other: does not contain the secret for k.bg
? 3
$ bloomgate info --keyring missing k.bg
! bloomgate info: missing: No such file or directory
? 4
$ bloomgate info --bits k.bg
! bloomgate info: k.bg: showing the bits requires the filter's secret; use --keyring FILE
? 2

# With --bits, the distribution of set bits is shown.
$ bloomgate info --bits blocked.bg | tail -3
  ▄▄▅▄▄▄▃▄▅▅▅▄▄▅▅▅▄▄▄▄▄▄▄▄▃▅▃▃▄▃▄▄▅▄▄▅▄▄▃▃▄▃▃▂▃▃▄▄▄▃▃▃▄▄▄▄▄▄▃▃▄▄▄▃
  one cell is 8 B; share of bits set, in eighths: ·▁▂▃▄▅▆▇█
  minimum 18.8%, mean 41.4%, maximum 59.4%
$ bloomgate info --bits --color always blocked.bg | tail -3 | head -1 | cut -c 1-40 | cat -v
  ^[[38;5;73mM-bM-^VM-^D^[[38;5;73mM-bM-^VM-^D^[[38;5;79mM-bM-^V
$ bloomgate info --bits quotient.bg | tail -4
  ▄▄▃▃▄▃▂▅▄▃▄▄▄▄▄▄▄▄▅▄▃▃▄▂▂▂▂▄▅▃▂▄▄▃▄▄▄▃▃▂▄▃▃▁▃▃▂▄▄▁▃▃▃▃▄▄▃▂▄▂▃▁▁▂
  ································································
  one cell is 9 B; share of bits set, in eighths: ·▁▂▃▄▅▆▇█
  minimum 0%, mean 16.3%, maximum 50%
$ seq 100000 | bloomgate build -q --items 100000 large.bg; bloomgate info --bits large.bg | grep -c '▄▄▄▄▄▄'
16
$ bloomgate info --bits --json large.bg | python3 -c 'import json,sys; x=json.load(sys.stdin); print(len(x["occupancy"]), round(sum(x["occupancy"])/1024, 2), round(x["fill"], 2))'
1024 0.45 0.45
$ bloomgate info --svg map.svg large.bg | head -1
large.bg
$ python3 -c 'import xml.etree.ElementTree as x; r = x.parse("map.svg").getroot(); print(r.tag, r[0].text, sum(1 for e in r if len(e)))'
{http://www.w3.org/2000/svg}svg large.bg 1024
$ cp large.bg '<&>.bg'; bloomgate info -q --svg odd.svg '<&>.bg' | head -1; python3 -c 'import xml.etree.ElementTree as x; print(x.parse("odd.svg").getroot()[0].text)'
<&>.bg
<&>.bg
$ bloomgate info --svg map.svg large.bg
! bloomgate info: map.svg: already exists; use -f to overwrite it
? 2
$ bloomgate info -f --svg map.svg large.bg | head -1
large.bg
$ mkdir maps; mv map.svg maps; ln -s maps/map.svg map.svg; bloomgate info -qf --svg map.svg large.bg | head -1; readlink map.svg; ls maps; ln -s /dev/null null.svg; bloomgate info -f --svg null.svg large.bg
large.bg
maps/map.svg
map.svg
! bloomgate info: null.svg: not a regular file, so it cannot be replaced
? 2
$ bloomgate info --svg x.svg large.bg blocked.bg
! bloomgate info: --svg requires a single filter
! Try 'bloomgate info --help'.
? 2
$ bloomgate info --svg no-folder/x.svg large.bg
! bloomgate info: no-folder/x.svg: No such file or directory
? 4
$ (trap '' XFSZ; ulimit -f 2; bloomgate info -f --svg map.svg large.bg); python3 -c 'import xml.etree.ElementTree as x; x.parse("map.svg")'; ls *.tmp 2>/dev/null
! bloomgate info: map.svg: File too large
? 2

# Filters created by other software can also be described.
$ seq 1000 | bloomgate convert -q --from-keys - --items 1000 --to guava g.bf; bloomgate info g.bf
g.bf
  format       guava
  version      64
  geometry     k 7
  size         1.2 KiB, 9,600 bits
  keys         interpreted as bytes
  file         1,206 bytes
  fill         51.9%
  keys stored  about 1,004
  current rate 1.02%
  checksum     none: damage cannot be detected
$ bloomgate info --json g.bf
{"schema": "bloomgate.info.1", "file": "g.bf", "file_bytes": 1206, "format": "guava", "complete": true, "bits_per_key": null, "version": 64, "parts": 1, "k": 7, "bits": 9600, "bytes": 1200, "ones": 4983, "fill": 0.519062, "design": {"items": 0}, "items": {"value": 1003.91}, "rate": 0.0101517}
$ seq 1000 | bloomgate convert -q --from-keys - --items 1000 --to dcso d.bloom; bloomgate info d.bloom
d.bloom
  format       dcso
  version      1
  geometry     k 7
  size         1.2 KiB, 9,585 bits, 9.585 bits/key
  designed for 1,000 keys
  keys         interpreted as bytes
  file         1,248 bytes
  fill         53%
  keys stored  999
  current rate 1.17%
  checksum     none: damage cannot be detected
$ bloomgate info $CLI_TESTS/../golden/tables/leveldb_plain.ldb | tail -n +2
  format       leveldb
  geometry     k 6
  parts        5
  size         125 B, 1,000 bits
  keys         interpreted as bytes
  file         11,987 bytes
  fill         44.6%
  current rate 0.792%
  checksum     yes, and correct
$ bloomgate info --bits g.bf
! bloomgate info: g.bf: --bits and --svg require a bloomgate or parquet filter
? 2
$ seq 1000 | bloomgate convert -q --from-keys - --items 1000 --to parquet p; bloomgate info --format parquet --bits p
p
  format       parquet
  geometry     k 8
  size         2.0 KiB, 16,384 bits
  keys         interpreted as bytes
  file         2,064 bytes
  fill         38.6%
  current rate 0.049%
  checksum     none: damage cannot be detected
  ▄▄▄▄▄▄▅▄▄▄▃▃▄▄▅▄▅▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▃▃▃▃▃▃▃▃▄▃▄▄▃▃▃▃▄▄▄▄▃▄▄▄▄▃▄▄▄▃▄▄
  ▄▄▄▄▃▃▃▃▄▃▃▃▄▃▄▄▄▄▃▃▄▄▄▃▃▃▃▃▂▂▃▂▄▄▄▄▄▄▄▄▃▃▃▃▄▄▄▃▃▃▄▄▃▃▃▃▄▄▄▄▄▅▅▅
  ▄▃▄▄▃▃▃▃▃▃▃▄▃▃▃▃▄▄▄▄▄▄▃▄▃▃▄▄▅▄▄▄▄▄▄▄▅▄▄▄▄▄▃▄▄▄▄▄▃▃▃▃▃▃▃▃▄▄▃▃▄▃▄▄
  ▃▃▃▃▃▃▃▃▄▃▄▄▄▄▄▄▆▅▅▅▄▄▄▄▄▄▄▄▄▄▄▄▃▃▃▃▃▃▃▄▄▄▄▄▄▄▃▄▂▃▂▃▅▅▄▄▄▃▄▄▃▃▃▃
  one cell is 8 B; share of bits set, in eighths: ·▁▂▃▄▅▆▇█
  minimum 18.8%, mean 38.6%, maximum 64.1%
$ seq 1000 | bloomgate convert -q --from-keys - --items 1000 --to cassandra c.db; bloomgate info c.db
c.db
  format       cassandra
  geometry     k 5
  size         1.2 KiB, 10,048 bits
  keys         interpreted as bytes
  file         1,264 bytes
  fill         39.2%
  keys stored  about 999
  current rate 0.923%
  checksum     none: damage cannot be detected
$ bloomgate info --format cassandra --format-version 1 c.db | head -2
c.db
  format       cassandra
$ seq 10 | bloomgate convert -q --from-keys - --items 10 --to bip158 --rate 0.1 --block-key 000102030405060708090a0b0c0d0e0f b; bloomgate info --format bip158 --block-key 000102030405060708090a0b0c0d0e0f b
b
  format       bip158
  size         26 B, 208 bits, 20.8 bits/key
  keys         interpreted as bytes
  file         27 bytes
  keys stored  10
  current rate 0.000127%
  checksum     none: damage cannot be detected
$ bloomgate info --format bip158 b
! bloomgate info: bip158 filters require --block-key
! Try 'bloomgate info --help'.
? 2
$ bloomgate info --format bip158 --block-key 0001 b
! bloomgate info: --block-key: expected 32 hexadecimal digits
! Try 'bloomgate info --help'.
? 2

# Errors.
$ bloomgate info
! bloomgate info: missing argument FILTER
! Try 'bloomgate info --help'.
? 2
$ bloomgate info missing.bg
! bloomgate info: missing.bg: No such file or directory
? 4
$ bloomgate info missing.bg blocked.bg | head -1
blocked.bg
! bloomgate info: missing.bg: No such file or directory
$ bloomgate info .
! bloomgate info: .: Is a directory
? 4
$ echo text > text; bloomgate info text
! bloomgate info: text: not a filter in any known format
? 3
$ bloomgate info --format bloomgate text
! bloomgate info: text: not a bloomgate filter file
? 3
$ head -c 8300 blocked.bg > short.bg; bloomgate info short.bg
! bloomgate info: short.bg: file size: found 8300 bytes, expected 8708 bytes
? 3
$ cp blocked.bg newer.bg; python3 $CLI_TESTS/set_header.py newer.bg 8 2; bloomgate info newer.bg
! bloomgate info: newer.bg: format version: found 2.0, expected 1.x
? 3
$ bloomgate info blocked.bg > /dev/full
! bloomgate info: stdout: No space left on device
? 4

# The size of a foreign filter from stdin is the number of bytes read.
$ seq 100 > some; bloomgate convert -q --to guava --from-keys some -n 100 guava.bin; for f in guava.bin -; do bloomgate info $f < guava.bin | grep file; done; cat guava.bin | bloomgate info --json - | grep -o '"file_bytes": [0-9]*'; wc -c < guava.bin
  file         126 bytes
  file         126 bytes
"file_bytes": 126
126
