#!/bin/bash
# Runs each fuzzer in a build for the given number of seconds, starting from the fuzzer's corpus.
# usage: fuzz.sh BUILD-DIRECTORY SECONDS
set -euo pipefail
build=$1 seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)

shopt -s nullglob
for program in "$build"/bin/fuzz_*; do
    name=$(basename "$program")
    found=$build/found/$name
    corpus=$root/fuzz/corpus/$name
    mkdir -p "$found" "$build/crashes"
    echo "== $name, $seconds s"
    "$program" -max_total_time="$seconds" -artifact_prefix="$build/crashes/$name-" \
        -print_final_stats=1 -verbosity=0 "$found" $([ -d "$corpus" ] && echo "$corpus")
done
echo "Inputs that reached new code are in $build/found. To add them to the corpus:"
echo "  $build/bin/fuzz_x -merge=1 fuzz/corpus/fuzz_x $build/found/fuzz_x"
