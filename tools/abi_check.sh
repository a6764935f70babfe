#!/bin/sh
# Compares the shared library's ABI with the recorded one, abi/libbloomgate.abi.
# usage: abi_check.sh BUILD-FOLDER [--update]      (the build must have debug information)
#
# Every difference fails, so that a new baseline comes in the same commit as the change.
# Additions are harmless. What was removed or changed breaks programs that are linked
# already: it needs a new SONAME, thus a new minor version before 1.0. abidiff is sure of
# that only for removals; a changed type it leaves to the reader.
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
library=$build/lib/libbloomgate.so
baseline=$root/abi/libbloomgate.abi
[ -f "$library" ] || { echo "no $library: build it first"; exit 1; }

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# Public types only, and nothing that depends on where or when it was built.
mkdir "$temp/headers"
cp "$root"/include/bloomgate/*.h "$build"/generated/include/bloomgate/*.h "$temp/headers"
abidw --headers-dir "$temp/headers" --drop-private-types --no-show-locs --no-corpus-path \
    --no-comp-dir-path --no-write-default-sizes --exported-interfaces-only \
    --out-file "$temp/new.abi" "$library"

sed -i "s,$root/,,g" "$temp/new.abi"

update="To record the present ABI: tools/abi_check.sh $build --update"
if [ "${2:-}" = --update ]; then
    mkdir -p "$root/abi"
    cp "$temp/new.abi" "$baseline"
    echo "abi/libbloomgate.abi written; commit it together with the change of the interface"
    exit
fi
if [ ! -f "$baseline" ]; then
    echo "There is no abi/libbloomgate.abi. $update"
    exit 1
fi

status=0
abidiff --no-show-locs "$baseline" "$temp/new.abi" || status=$?
if [ $((status & 3)) -ne 0 ]; then
    echo "abidiff could not compare"
    exit 1
elif [ $((status & 8)) -ne 0 ]; then
    echo "Incompatible: programs linked with the recorded library break. Undo it, or raise"
    echo "VERSION (minor before 1.0, else major), which changes the SONAME. $update"
    exit 1
elif [ "$status" -ne 0 ]; then
    echo "The ABI changed. Only additions are compatible: if anything above is counted as"
    echo "Changed, raise VERSION as well (minor before 1.0, else major). $update"
    exit 1
fi
