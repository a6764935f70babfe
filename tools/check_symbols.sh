#!/bin/sh
# The shared library must export exactly the names in abi/symbols.txt, all of them bg_*.
# usage: check_symbols.sh BUILD-FOLDER [--update]
set -eu
library=$1/lib/libbloomgate.so
list=$(dirname "$0")/../abi/symbols.txt
[ -f "$library" ] || { echo "no $library: build it first"; exit 1; }

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
    echo "There is no abi/symbols.txt. To record the present names: $update"
    exit 1
fi
if printf '%s\n' "$exported" | grep -v '^bg_'; then
    echo "exported, but not bg_* (see cmake/libbloomgate.map)"
    exit 1
fi
if ! printf '%s\n' "$exported" | diff -u "$list" -; then
    echo "The exported names changed. To record the present names: $update"
    exit 1
fi
