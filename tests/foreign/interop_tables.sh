#!/bin/bash
# Tests tables written by the installed LevelDB and RocksDB: lookups of their keys must never return
# "no", and lookups of other keys must rarely return "maybe". Unsupported files must be refused with
# a specific error.
# usage: interop_tables.sh leveldb|rocksdb WRITER PROBE
set -euo pipefail
engine=$1 writer=$2 probe=$3
keys=20000
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
passed=0 failed=0

# hex_keys N FIRST: prints the keys that the writers use for N integers, in hexadecimal. The
# integers start at FIRST and increase by two.
hex_keys() {
    python3 -c "for i in range($1): print((b'/a/rather/long/common/path/key%09d' % ($2 + 2 * i)).hex())"
}
hex_keys "$keys" 0 >"$place/present"
hex_keys "$keys" 1 >"$place/absent"

result() { # status, description
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo -n "WRONG: "; fi
    echo "$2"
}

count_maybe() { # name of the key list, table file
    "$probe" ask "$engine" "$2" <"$place/$1" | sed 's/.*keys, \([0-9]*\) maybe.*/\1/'
}

ask() { # description, table files (exactly one is expected)
    local present absent
    [ $# = 2 ] || { result 1 "$engine $1: expected one file, got $(($# - 1))"; return; }
    present=$(count_maybe present "$2") absent=$(count_maybe absent "$2")
    [ "$present" = "$keys" ] && [ "$absent" -lt $((keys / 20)) ]
    result $? "$engine $1: \"maybe\" for $present of $keys present keys and $absent of $keys absent keys"
}

refuses() { # file, expected message
    local message
    message=$("$probe" about "$engine" "$1" 2>&1) && message="was read"
    [[ $message == *"$2"* ]]
    result $? "$engine refuses $(basename "$1"): $message"
}

set +e
case $engine in
leveldb)
    for compression in plain snappy; do
        "$writer" "$place/$compression" "$keys" "$compression" || exit 1
        ask "$compression" "$place/$compression"/*.ldb
    done
    ;;
rocksdb)
    for checksum in 0 1 2 3 4; do
        "$writer" "$place/$checksum.sst" "$keys" bloomfilter:10 "$checksum" 5 || exit 1
        ask "checksum type $checksum" "$place/$checksum.sst"
    done
    "$writer" "$place/ribbon.sst" "$keys" ribbonfilter:10 4 5 || exit 1
    refuses "$place/ribbon.sst" Ribbon
    "$writer" "$place/legacy.sst" "$keys" bloomfilter:10 4 4 || exit 1
    refuses "$place/legacy.sst" "legacy Bloom"
    "$writer" "$place/partitioned.sst" "$keys" partitioned:bloomfilter:10 4 5 || exit 1
    refuses "$place/partitioned.sst" partitioned
    ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
