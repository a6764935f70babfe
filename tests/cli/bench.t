# bloomgate bench: measures all kinds with the user's keys. Times depend on the machine, so they are
# matched with `...`.

$ seq 20000 | sed 's/^/user-/' > keys

# The filters and the measured rates are the same on every machine.
$ bloomgate bench keys
20,000 distinct keys from 20,000 records, 9.4 bytes on average; hash profile fast; false-positive rate 1%
times in nanoseconds of CPU time per key, one thread, median of 5 passes
|
                       bits...batches,...rate,...rate,
kind             size  /key...build...predicted  measured
classic      23.4 KiB   9.6...1.01%     0.95%
partitioned  23.5 KiB   9.6...1%     1.01%
blocked      24.2 KiB   9.9...1.01%     1.03%
split        25.7 KiB  10.5...0.995%     0.99%
register     28.9 KiB  11.9...0.999%     0.95%
counting      107 KiB  43.6...0.991%     1.08%
cuckoo       30.9 KiB  12.6...0.185%     0.17%
quotient     33.1 KiB  13.5...0.95%    0.995%
fuse         24.5 KiB  10.0...0.391%     0.35%
ribbon       17.4 KiB   7.1...0.781%     0.86%
scalable     33.8 KiB  13.8...0.201%    0.205%
window       47.2 KiB  19.4...0.884%     0.78%

# Measures selected kinds at a different rate and prints the results as JSON, in the order used by
# --help.
$ bloomgate bench -k ribbon --kind blocked -p 0.1% --json-output keys > bench.json; python3 -m json.tool < bench.json > /dev/null
$ cat > show.py <<< 'import json, sys; b = json.load(sys.stdin); kinds = b.pop("kinds"); b.pop("cpu"); print(b); [print({n: v if not n.endswith("_ns") else v > 0 for n, v in k.items()}) for k in kinds]'
$ python3 show.py < bench.json
{'schema': 'bloomgate.bench.1', 'records': 20000, 'keys': 20000, 'absent_keys': 20000, 'cut': False, 'key_bytes': 9.4447, 'rate': 0.001, 'hash': 'fast', 'passes': 5}
{'kind': 'blocked', 'possible': True, 'bytes': 38912, 'bits_per_key': 15.5648, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.00100261, 'rate': 0.0011, 'rate_low': 0.000726567, 'rate_high': 0.00166505, 'lost': 0}
{'kind': 'ribbon', 'possible': True, 'bytes': 25440, 'bits_per_key': 10.176, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.000976562, 'rate': 0.00085, 'rate_low': 0.000530788, 'rate_high': 0.00136092, 'lost': 0}

# Keys can be read from stdin. Duplicates are counted once, and --most N selects the first N
# distinct keys.
$ cat keys keys | bloomgate bench -k blocked --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 40000, 'keys': 20000, 'absent_keys': 20000, 'cut': False, 'key_bytes': 9.4447, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'blocked', 'possible': True, 'bytes': 24832, 'bits_per_key': 9.9328, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.0100501, 'rate': 0.01035, 'rate_low': 0.00903838, 'rate_high': 0.0118497, 'lost': 0}
$ cat keys keys | bloomgate bench -k blocked --most 5k --json-output - | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 5000, 'keys': 5000, 'absent_keys': 5000, 'cut': True, 'key_bytes': 8.7786, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'blocked', 'possible': True, 'bytes': 6208, 'bits_per_key': 9.9328, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.0100532, 'rate': 0.0112, 'rate_low': 0.00863539, 'rate_high': 0.0145151, 'lost': 0}
$ cat keys keys | bloomgate bench -k blocked --most 20k --json-output - | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 40000, 'keys': 20000, 'absent_keys': 20000, 'cut': False, 'key_bytes': 9.4447, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'blocked', 'possible': True, 'bytes': 24832, 'bits_per_key': 9.9328, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.0100501, 'rate': 0.01035, 'rate_low': 0.00903838, 'rate_high': 0.0118497, 'lost': 0}
$ bloomgate bench -k blocked --most 5k keys | head -1
5,000 distinct keys from the first 5,000 records, 8.8 bytes on average; hash profile fast; false-positive rate 1%

# Keys are extracted from records as in bloomgate build.
$ sed 's/user-//' keys | bloomgate bench -k classic --as int64 --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 20000, 'keys': 20000, 'absent_keys': 20000, 'cut': False, 'key_bytes': 8, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'classic', 'possible': True, 'bytes': 23984, 'bits_per_key': 9.5936, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.0101709, 'rate': 0.0109, 'rate_low': 0.00955198, 'rate_high': 0.0124359, 'lost': 0}
$ printf '%s\n' a,1 b,1 c,2 | bloomgate bench -k classic --csv --field 2 --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 3, 'keys': 2, 'absent_keys': 2, 'cut': False, 'key_bytes': 1, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'classic', 'possible': True, 'bytes': 8, 'bits_per_key': 32, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 1.62446e-05, 'rate': 0, 'rate_low': 0, 'rate_high': 0.65762, 'lost': 0}

# Absent keys are derived from the input keys; a derived key that equals an input key is skipped.
$ printf '%s\n' a $'a\x01\x7f' $'a\x01\x7f\x01\x7f' b | bloomgate bench -k classic --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 4, 'keys': 4, 'absent_keys': 2, 'cut': False, 'key_bytes': 2.5, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'classic', 'possible': True, 'bytes': 8, 'bits_per_key': 16, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.000229067, 'rate': 0, 'rate_low': 0, 'rate_high': 0.65762, 'lost': 0}

# The empty string is a valid key, and one key is enough.
$ echo | bloomgate bench -k fuse --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 1, 'keys': 1, 'absent_keys': 1, 'cut': False, 'key_bytes': 0, 'rate': 0.01, 'hash': 'fast', 'passes': 5}
{'kind': 'fuse', 'possible': True, 'bytes': 24, 'bits_per_key': 192, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.00390625, 'rate': 0, 'rate_low': 0, 'rate_high': 0.793451, 'lost': 0}
$ echo a | bloomgate bench | wc -l
17

# Keys can be hashed with a seed or with a different hash function.
$ bloomgate bench -k blocked --hash xxh64 --seed 7 keys --json-output | python3 show.py
{'schema': 'bloomgate.bench.1', 'records': 20000, 'keys': 20000, 'absent_keys': 20000, 'cut': False, 'key_bytes': 9.4447, 'rate': 0.01, 'hash': 'xxh64', 'passes': 5}
{'kind': 'blocked', 'possible': True, 'bytes': 24832, 'bits_per_key': 9.9328, 'build_ns': True, 'batch_present_ns': True, 'batch_absent_ns': True, 'single_ns': True, 'predicted_rate': 0.00999813, 'rate': 0.0109, 'rate_low': 0.00955198, 'rate_high': 0.0124359, 'lost': 0}

# Kinds that cannot reach the requested rate are reported, and the remaining kinds are measured.
$ bloomgate bench -k split -k classic -p 1e-12 -m 100 keys
100 distinct keys from the first 100 records, 6.9 bytes on average; hash profile fast; false-positive rate 1e-12
times in nanoseconds of CPU time per key, one thread, median of 5 passes
|
                bits...batches,...rate,...rate,
kind      size  /key...build...predicted  measured
classic  728 B  58.2...1.01e-12        0%
|
Not possible:
  split        --rate: 1e-12 for 100 items cannot be reached with 1024 bits per key
$ bloomgate bench -k split -p 1e-12 -m 100 keys --json-output > none.json
! bloomgate bench: split: --rate: 1e-12 for 100 items cannot be reached with 1024 bits per key
? 2
$ python3 -c 'import json; print(json.load(open("none.json"))["kinds"])'
[{'kind': 'split', 'possible': False, 'why': '--rate: 1e-12 for 100 items cannot be reached with 1024 bits per key'}]

# Each chart contains one row per kind.
$ bloomgate bench -m 1000 keys --plot bench.svg > table; python3 $CLI_TESTS/svg.py bench.svg
Measured filters
Lookup time: 12 of class row
Memory: 12 of class row
$ bloomgate bench -m 1000 keys --plot bench.svg
! bloomgate bench: bench.svg: already exists; use -f to overwrite it
? 2
$ bloomgate bench -m 1000 keys --plot bench.svg -f -k fuse -k window > table; python3 $CLI_TESTS/svg.py bench.svg
Measured filters
Lookup time: 2 of class row
Memory: 2 of class row
$ bloomgate bench -m 1000 keys -k fuse --plot no/such/folder.svg > table
! bloomgate bench: no/such/folder.svg: No such file or directory
? 4
$ rm none.json; ls
bench.json
bench.svg
keys
show.py
table

# Errors.
$ bloomgate bench < /dev/null
! bloomgate bench: the input contains no keys
? 3
$ bloomgate bench no-such-file
! bloomgate bench: no-such-file: No such file or directory
? 4
$ bloomgate bench -k auto keys
! bloomgate bench: --kind: found 'auto', expected a kind of filter such as blocked
! Try 'bloomgate bench --help'.
? 2
$ bloomgate bench -k ribon keys
! bloomgate bench: --kind: found 'ribon', expected a kind of filter such as blocked; did you mean ribbon?
! Try 'bloomgate bench --help'.
? 2
$ bloomgate bench --rate 2 keys
! bloomgate bench: --rate: found '2', expected a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%
! Try 'bloomgate bench --help'.
? 2
$ bloomgate bench --most 1T keys
! bloomgate bench: --most: found 1000000000000, expected at most 2147483647
! Try 'bloomgate bench --help'.
? 2
$ bloomgate bench --null --csv keys
! bloomgate bench: --null, --length-prefixed and --csv are mutually exclusive
! Try 'bloomgate bench --help'.
? 2
$ bloomgate bench --hash keyed keys
! bloomgate bench: --hash keyed requires a secret: use --keyring FILE
! Try 'bloomgate bench --help'.
? 2
$ echo x | bloomgate bench --as int64
! bloomgate bench: stdin: line 1: not valid int64: 'x'; to skip such records, use --skip-invalid
? 3
