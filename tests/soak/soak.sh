#!/bin/bash
# Runs a build's unit, property and concurrency tests with much more work than by default, in
# parallel, with one test per core. For each test, prints its duration, its counts (the lines that
# begin with "=") and its result; the complete output is in BUILD-DIRECTORY/soak. At the end, prints
# how many operations the random runs compared with exact models, by kind and in total.
# usage: soak.sh BUILD-DIRECTORY SCALE      BG_TEST_SEED sets the seed (default: random)
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

# Adds up the counts from prop_change, which covers all kinds, and from prop_model, which covers
# the Bloom kinds.
operations() {
    awk '/^= [a-z]+: [0-9]+ (operations|checks in)/ {
             kind = substr($2, 1, length($2) - 1)
             if (!(kind in of)) order[++kinds] = kind
             of[kind] += $3; total += $3
         }
         END {
             print "== operations compared with exact models"
             for (i = 1; i <= kinds; i++) printf "%-12s %15d\n", order[i], of[order[i]]
             printf "%-12s %15d\n", "total", total
         }' "$1/soak/prop_change.log" "$1/soak/prop_model.log"
}

build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
export BG_TEST_SCALE=$2 BG_TEST_SEED=${BG_TEST_SEED:-random}
mkdir -p "$build/soak"
cd "$root"
programs="prop_rate prop_keys prop_large conc_filter prop_model prop_change" # the longest ones
for file in tests/unit/*.c tests/prop/*.c tests/conc/*.c; do
    name=$(basename "$file" .c)
    case " $programs " in *" $name "*) ;; *) programs="$programs $name" ;; esac
done
echo "$programs" | tr ' ' '\n' | xargs -P "$(nproc)" -n 1 "$0" --one "$build" && status=0 || status=1
operations "$build"
# Runs all live components at once, for 3 * SCALE minutes.
mkdir -p "$build/soak/gate"
echo "== soak_gate, $((180 * $2)) s"
"$build/bin/soak_gate" $((180 * $2)) "$build/soak/gate" || status=1
# Kills the service 100 * SCALE times, and rebuilds an existence service under load.
echo "== kill_drill"
python3 tests/server/kill_drill.py "$build/bin/bloomgated" --kills $((25 * $2)) --seed "$RANDOM" || status=1
echo "== existence_drill"
python3 tests/server/existence_drill.py "$build/bin" --ids $((20000000 * $2)) || status=1
# Checks the service's memory use, for 3 * SCALE minutes.
echo "== steady_drill, $((180 * $2)) s"
python3 tests/server/steady_drill.py "$build/bin/bloomgated" --seconds $((180 * $2)) || status=1
# Moves slots and kills primaries in clusters, SCALE times.
for server in redis-server valkey-server; do
    echo "== test_cluster, $server"
    /usr/bin/python3 tests/cluster/test_cluster.py "$build/bin/bloomgate" "$build/lib/bloomgate.so" "$server" "$2" ||
        [ $? = 77 ] || status=1
done
# In each server, tests the module with 100,000 * SCALE malicious payloads of each kind, and with
# filters of 1 GiB.
echo "== test_module_hostile, $((100000 * $2)) payloads"
/usr/bin/python3 tests/redis/test_module_hostile.py "$build/lib/bloomgate.so" --payloads $((100000 * $2)) ||
    [ $? = 77 ] || status=1
echo "== test_module_life, 1 GiB"
BG_TEST_SCALE=64 /usr/bin/python3 tests/redis/test_module_life.py "$build/lib/bloomgate.so" || [ $? = 77 ] || status=1
echo "soak: scale $BG_TEST_SCALE, $SECONDS s, $([ "$status" = 0 ] && echo all passed || echo FAILED)"
exit "$status"
