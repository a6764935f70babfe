#!/bin/sh
# Checks that the shared library exports exactly the names in abi/symbols.txt, and only bg_* names.
# usage: check_symbols.sh BUILD-DIRECTORY [--update]
set -eu
library=$1/lib/libbloomgate.so
list=$(dirname "$0")/../abi/symbols.txt
[ -f "$library" ] || { echo "$library does not exist; build it first"; exit 1; }

exported=$(nm -D --defined-only --without-symbol-versions "$library" |
    awk '$2 != "A" { print $3 }' | LC_ALL=C sort)

if [ "${2:-}" = --update ]; then
    mkdir -p "$(dirname "$list")"
    printf '%s\n' "$exported" >"$list"
    echo "abi/symbols.txt: $(wc -l <"$list") names"
    exit
fi

update="tools/check_symbols.sh $1 --update"
if [ ! -f "$list" ]; then
    echo "abi/symbols.txt does not exist. To record the current names: $update"
    exit 1
fi
if printf '%s\n' "$exported" | grep -v '^bg_'; then
    echo "exported names must begin with bg_ (see cmake/libbloomgate.map)"
    exit 1
fi
if ! printf '%s\n' "$exported" | diff -u "$list" -; then
    echo "The exported names changed. To record the current names: $update"
    exit 1
fi
