# bloomgate convert: converts filters to and from formats used by other software.

# Parquet filters have the same bits as filters of kind split that use the hash function xxh64.
$ seq 1000 > keys; bloomgate build -q --kind split --hash xxh64 --bytes 2048 --bits 8 --no-canaries s.bg keys
$ bloomgate convert --to parquet s.bg p; bloomgate check -c --format parquet p keys
1000
$ bloomgate convert --to bloomgate --format parquet p back.bg
! bloomgate convert: back.bg: split, about 998 keys, 2.0 KiB, false-positive rate 0.114%
$ bloomgate diff -q s.bg back.bg
$ bloomgate convert -q --to bloomgate p guessed.bg; bloomgate check -c guessed.bg keys
1000
$ bloomgate convert -q --to bloomgate -g 4 --format parquet p g4.bg; bloomgate info g4.bg | grep generation
  generation   4

# The file records how keys are converted.
$ bloomgate convert -q --from-keys keys --as int64 --items 1000 --to parquet i; bloomgate convert -q --format parquet --to bloomgate --as int64 i i.bg
$ bloomgate info i.bg | grep 'keys  '; bloomgate check -c i.bg keys
  keys         int64
1000

# In every format that can be created, all keys are found, and converting a file to its own format
# reproduces the file.
$ for f in guava go dcso redisbloom bip37 spark hadoop cassandra squid bfv1 parquet valkeybloom; do bloomgate convert -q --from-keys keys --items 1000 --to $f $f.out; echo $f $(bloomgate check -c --format $f $f.out keys); bloomgate convert -q --format $f --to $f $f.out again.$f; cmp $f.out again.$f; done
guava 1000
go 1000
dcso 1000
redisbloom 1000
bip37 1000
spark 1000
hadoop 1000
cassandra 1000
squid 1000
bfv1 1000
parquet 1000
valkeybloom 1000
$ bloomgate convert -q --from-keys keys --items 2000 --rate 2% --to rediscuckoo cuckoo.out; bloomgate check -c cuckoo.out keys; bloomgate convert -q --to rediscuckoo cuckoo.out again.cuckoo; cmp cuckoo.out again.cuckoo
1000
$ bloomgate convert -q --from-keys keys --items 1000 --rate 1/784931 --block-key 000102030405060708090a0b0c0d0e0f --to bip158 bip158.out; bloomgate check -c --format bip158 --block-key 000102030405060708090a0b0c0d0e0f bip158.out keys
1000

# Rate, seed, version.
$ bloomgate convert --from-keys keys --items 1000 --rate 0.1% --to bfv1 --seed 5 seeded; bloomgate info --format bfv1 seeded | grep -E 'size|rate'
  size         1.8 KiB, 14,378 bits
  current rate 0.108%
! bloomgate convert: seeded: bfv1, 1,000 keys
$ bloomgate convert -q --from-keys keys --items 1000 --format-version 2 --to spark v2; bloomgate info --format spark v2 | grep version
  version      2
$ bloomgate convert --from-keys keys --items 700 --to guava few.bf; bloomgate convert --from-keys keys --items 300 --to guava fewer.bf; ls fewer.bf; for f in redisbloom bip158; do bloomgate convert -q --from-keys keys --items 300 --block-key 000102030405060708090a0b0c0d0e0f --to $f -f few.bf; done; rm few.bf
! bloomgate convert: warning: the filter has a false-positive rate of 5.05% (target 1%); increase --items
! bloomgate convert: few.bf: guava, 1,000 keys
! bloomgate convert: the keys were added as text; if guava looks up integers, use --as int64 or int32
! bloomgate convert: the filter would have a false-positive rate of 56.3% (target 1%), because it was planned for 300 keys, and 1,000 were read; increase --items to the number of distinct keys
! ls: cannot access 'fewer.bf': No such file or directory
$ seq 200000 > large; bloomgate convert --from-keys large --items 200000 --to bip37 large.out; echo a | bloomgate convert --from-keys - --items 1 --rate 10% --to bip37 large.out; ls large.out; rm large
! bloomgate convert: the filter would have a false-positive rate of 100% (target 1%), because of the sizes that the format bip37 allows; split the keys, or use another format
! bloomgate convert: the filter would have a false-positive rate of 100% (target 10%), because of the sizes that the format bip37 allows; split the keys, or use another format
! ls: cannot access 'large.out': No such file or directory
$ cat keys | bloomgate convert -q --from-keys - --items 1000 --to go piped; cmp piped go.out
$ head -500 keys > k1; tail -500 keys > k2; bloomgate convert -q --from-keys k1 --from-keys k2 --items 1000 --to go parts; cmp parts go.out
$ bloomgate convert -q --from-keys keys --as utf16 --items 1000 --to guava u; bloomgate check -c --as utf16 --format guava u keys
1000

# Converting from bloomgate to bloomgate saves a copy of the filter with a different generation.
$ bloomgate build -q --items 1000 b.bg keys; bloomgate convert -q --to bloomgate -g 9 b.bg b9.bg; bloomgate canary b9.bg | head -2
generation   0
present      16 of 16 found

# A filter does not store its keys, so some conversions are impossible.
$ bloomgate convert --to guava s.bg no
! bloomgate convert: s.bg: cannot convert a filter of kind split with hash xxh64 to guava: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2
$ bloomgate convert --to parquet b.bg no
! bloomgate convert: b.bg: cannot convert a filter of kind blocked with hash fast to parquet: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2
$ bloomgate build -q --kind split --hash xxh64 --seed 3 --items 1000 s3.bg keys; bloomgate convert --to parquet s3.bg no
! bloomgate convert: s3.bg: cannot convert a filter of kind split with hash xxh64 to parquet: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2
$ bloomgate convert --to bloomgate --format guava guava.out no
! bloomgate convert: guava.out: cannot convert a filter in guava format to bloomgate: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2
$ bloomgate convert --to go --format guava guava.out no
! bloomgate convert: guava.out: cannot convert a filter in guava format to go: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2
$ cp $CLI_TESTS/../golden/tables/rocksdb_xxh3.sst t.sst; bloomgate convert --to rocksdb t.sst no
! bloomgate convert: t.sst: filters in rocksdb format are read-only
? 2
$ bloomgate convert --from-keys keys --items 10 --to rocksdb no
! bloomgate convert: filters in rocksdb format are read-only
? 2
$ ls no
! ls: cannot access 'no': No such file or directory
? 2

# Errors.
$ bloomgate convert s.bg no
! bloomgate convert: missing option --to FORMAT
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --to auto s.bg no
! bloomgate convert: missing option --to FORMAT
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --to nothing s.bg no
! bloomgate convert: --to: found 'nothing', expected one of auto, bloomgate, parquet, guava, go, dcso, redisbloom, bip37, bip158, spark, hadoop, cassandra, squid, bfv1, rocksdb, leveldb, valkeybloom, rediscuckoo
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --to parquet s.bg
! bloomgate convert: expected IN and OUT
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --to parquet s.bg p
! bloomgate convert: p: already exists; use -f to overwrite it
? 2
$ bloomgate convert -f --to parquet s.bg p
$ bloomgate convert --to parquet missing.bg no
! bloomgate convert: missing.bg: No such file or directory
? 4
$ bloomgate convert --to parquet keys no
! bloomgate convert: keys: not a filter in any known format
? 3
$ bloomgate convert --to parquet . no
! bloomgate convert: .: Is a directory
? 4
$ bloomgate convert -g 4 --to parquet s.bg no
! bloomgate convert: --generation requires --to bloomgate
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --items 5 --to parquet s.bg no
! bloomgate convert: --items, --rate and --seed require --from-keys
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --from-keys keys --to guava no
! bloomgate convert: --from-keys requires --items, the number of keys
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --from-keys keys --items 5 --to bloomgate no
! bloomgate convert: to build a bloomgate filter from keys, use bloomgate build
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --from-keys keys --items 5 --to guava
! bloomgate convert: expected OUT
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --from-keys missing --items 5 --to guava no
! bloomgate convert: missing: No such file or directory
? 4
$ echo word | bloomgate convert --from-keys - --as int64 --items 5 --to guava no
! bloomgate convert: stdin: line 1: not valid int64: 'word'; to skip such records, use --skip-invalid
? 3
$ bloomgate convert --from-keys keys --items 5 --to bip158 no
! bloomgate convert: bip158 filters require --block-key
! Try 'bloomgate convert --help'.
? 2
$ bloomgate convert --from-keys keys --items 1000 --rate 1e-9 --to cassandra no
! bloomgate convert: cassandra: rate: found 1e-09, expected a rate that 20 bits per key can reach
? 2
$ bloomgate convert --from-keys keys --items 1000 --to guava no-folder/x
! bloomgate convert: no-folder/x: No such file or directory
? 4
$ (trap '' XFSZ; ulimit -f 1; bloomgate convert -f --to parquet s.bg p); bloomgate check -c --format parquet p keys; ls *tmp 2>/dev/null
1000
! bloomgate convert: p: File too large
? 2
$ ls no
! ls: cannot access 'no': No such file or directory
? 2
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring; bloomgate build -q --items 1000 --hash keyed --keyring ring k.bg keys; bloomgate convert --to parquet k.bg no
! bloomgate convert: k.bg: its keys are hashed with a secret; use --keyring FILE
? 2
$ bloomgate convert --keyring ring --to parquet k.bg no
! bloomgate convert: k.bg: cannot convert a filter of kind blocked with hash keyed to parquet: a filter does not store its keys, so conversion is possible only between formats with identical bits: parquet, and bloomgate filters of kind split with hash xxh64 and seed 0; use --from-keys for other formats
? 2

# --part and --block-key imply the format.
$ bloomgate convert --to bloomgate --part 99 p no
! bloomgate convert: p: part: found 99, expected 0 for a single filter
? 2
$ bloomgate check -c --block-key 000102030405060708090a0b0c0d0e0f bip158.out keys
1000

# Foreign filters can be read from a pipe; bloomgate filters must be regular files.
# The form of the keys must match the program that looks them up.
$ seq 5 | bloomgate convert --from-keys - --items 5 --to guava five.bf; seq 5 | bloomgate convert --from-keys - --as int64 --items 5 --to guava integers.bf
! bloomgate convert: five.bf: guava, 5 keys
! bloomgate convert: the keys were added as text; if guava looks up integers, use --as int64 or int32
! bloomgate convert: integers.bf: guava, 5 keys
$ seq 50 > fifty; bloomgate convert -q --from-keys fifty --items 50 --to guava fifty.bf; bloomgate check -c <(cat fifty.bf) fifty
50
$ mkfifo never; bloomgate build -q fifty.bg fifty; timeout -k 1 300 bloomgate merge fresh.bg never fifty.bg; timeout -k 1 300 bloomgate diff never fifty.bg
! bloomgate merge: never: not a bloomgate filter file
! bloomgate diff: never: not a bloomgate filter file
? 3
