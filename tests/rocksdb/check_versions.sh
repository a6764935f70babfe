#!/bin/bash
# Checks that the adapter compiles for each variant of the RocksDB interface that it supports, and
# that it rejects unknown versions. The test uses the installed headers with a changed version
# number.
# usage: check_versions.sh COMPILER ROCKSDB-INCLUDE INCLUDE...
set -euo pipefail
compiler=$1 installed=$2
shift 2
adapter=$(cd "$(dirname "$0")/../../adapters/rocksdb" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
passed=0 failed=0

compile() { # arguments: VERSION FILE; checks the syntax without generating code
    mkdir -p "$temp/$1/rocksdb"
    sed "s/^#define ROCKSDB_MAJOR .*/#define ROCKSDB_MAJOR ${1%.*}/; s/^#define ROCKSDB_MINOR .*/#define ROCKSDB_MINOR ${1#*.}/" \
        "$installed/rocksdb/version.h" >"$temp/$1/rocksdb/version.h"
    "$compiler" -std=c++17 -fno-rtti -Wall -Wextra -Werror -fsyntax-only -x c++ -I"$temp/$1" "${includes[@]}" \
        "$adapter/$2" >"$temp/log" 2>&1
}

judge() { # WHAT STATUS
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
        cat "$temp/log"
    fi
}

includes=(-I"$adapter")
for include in "$@"; do
    includes+=(-I"$include")
done
for version in 9.6 11.9; do # the order of the virtual functions differs between these versions; the
                            # installed version has a third order
    compile $version rocksdb_policy.cc && status=0 || status=1
    judge "RocksDB $version compiles" $status
done
for version in 6.29 11.10 12.0; do
    if ! compile $version rocksdb_interface.h && grep -q 'use 7.0 to 11.9' "$temp/log"; then status=0; else status=1; fi
    judge "RocksDB $version is refused" $status
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
