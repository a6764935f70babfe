#!/bin/bash
# Runs the unit, property and concurrency tests of a build with much more work than usual, as many
# at a time as there are processors. Tells of each how long it took, what it counted (its lines that
# begin with "=") and how it ended; all that it printed is in BUILD-FOLDER/soak.
# usage: soak.sh BUILD-FOLDER SCALE      the seed is BG_TEST_SEED, else random
set -euo pipefail

if [ "$1" = --one ]; then
    build=$2 name=$3 log=$2/soak/$3.log
    start=$SECONDS
    result=passed
    "$build/bin/$name" >"$log" 2>&1 || result="FAILED (status $?)"
    {
        flock 9
        echo "== $name $result after $((SECONDS - start)) s"
        if [ "$result" = passed ]; then
            grep '^= \|^BG_TEST_SEED\|passed,' "$log" || true
        else
            cat "$log"
        fi
    } 9>"$build/soak/lock"
    [ "$result" = passed ]
    exit
fi

build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
export BG_TEST_SCALE=$2 BG_TEST_SEED=${BG_TEST_SEED:-random}
mkdir -p "$build/soak"
cd "$root"
programs="prop_rate prop_keys prop_large conc_filter prop_model" # those that take longest
for file in tests/unit/*.c tests/prop/*.c tests/conc/*.c; do
    name=$(basename "$file" .c)
    case " $programs " in *" $name "*) ;; *) programs="$programs $name" ;; esac
done
echo "$programs" | tr ' ' '\n' | xargs -P "$(nproc)" -n 1 "$0" --one "$build" && status=0 || status=1
echo "soak: scale $BG_TEST_SCALE, $SECONDS s, $([ "$status" = 0 ] && echo all passed || echo FAILED)"
exit "$status"
