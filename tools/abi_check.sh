#!/bin/sh
# Compares the ABI of the shared library with the recorded baseline, abi/libbloomgate.abi.
# usage: abi_check.sh BUILD-DIRECTORY [--update]      (the build needs debug information)
#
# Any difference fails the check, so that the new baseline is committed together with the change.
# Additions are compatible. Removals and changes break existing programs and need a new SONAME,
# which means a new minor version before 1.0. abidiff detects removals reliably, but a person must
# review changed types.
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
library=$build/lib/libbloomgate.so
baseline=$root/abi/libbloomgate.abi
[ -f "$library" ] || { echo "$library does not exist; build it first"; exit 1; }

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# Compares only public types, and nothing that depends on where or when the library was built.
mkdir "$temp/headers"
cp "$root"/include/bloomgate/*.h "$build"/generated/include/bloomgate/*.h "$temp/headers"
abidw --headers-dir "$temp/headers" --drop-private-types --no-show-locs --no-corpus-path \
    --no-comp-dir-path --no-write-default-sizes --exported-interfaces-only \
    --out-file "$temp/new.abi" "$library"

sed -i "s,$root/,,g" "$temp/new.abi"

update="To record the current ABI: tools/abi_check.sh $build --update"
if [ "${2:-}" = --update ]; then
    mkdir -p "$root/abi"
    cp "$temp/new.abi" "$baseline"
    echo "abi/libbloomgate.abi written; commit it together with the interface change"
    exit
fi
if [ ! -f "$baseline" ]; then
    echo "abi/libbloomgate.abi does not exist. $update"
    exit 1
fi

status=0
abidiff --no-show-locs "$baseline" "$temp/new.abi" || status=$?
if [ $((status & 3)) -ne 0 ]; then
    echo "abidiff failed"
    exit 1
elif [ $((status & 8)) -ne 0 ]; then
    echo "The ABI is incompatible: programs linked with the recorded version of the library would break. Undo the"
    echo "change, or raise VERSION (the minor version before 1.0, otherwise the major version), which changes the"
    echo "SONAME. $update"
    exit 1
elif [ "$status" -ne 0 ]; then
    echo "The ABI changed. Only additions are compatible: if abidiff counts anything above as"
    echo "Changed, also raise VERSION (the minor version before 1.0, otherwise the major version). $update"
    exit 1
fi
