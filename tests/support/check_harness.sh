#!/bin/sh
# Tests the test harness: failing_checks must fail, in exactly the expected places.
set -u
program=$1
bad=0

expect() { # expect STATUS TEXT-OR-EMPTY ARGUMENTS...
    status=$1 text=$2
    shift 2
    out=$("$program" "$@" 2>&1)
    got=$?
    if [ "$got" -ne "$status" ]; then
        echo "failing_checks $*: exit status $got, expected $status"
        bad=1
    fi
    if ! printf '%s\n' "$out" | grep -qF -- "$text"; then
        echo "failing_checks $*: did not print: $text"
        printf '%s\n' "$out"
        bad=1
    fi
}

expect 1 '2 passed, 7 failed'
expect 1 ': 1 + 1 == 3'
expect 1 '-1 == 7: -1 (0xffffffffffffffff) and 7 (0x7)'
expect 1 'BG_ENOMEM: BG_ENOMEM ('
expect 1 'FAILED bad__thread' thread
expect 0 '2 passed, 0 failed' good
expect 0 'ok good__passes (' good__passes
expect 1 '0 passed, 0 failed' no-such-test
expect 0 'bad__near' --list
BG_TEST_SEED=7 BG_TEST_SCALE=3 expect 0 'BG_TEST_SEED=7 BG_TEST_SCALE=3' good
BG_TEST_SEED=x expect 2 'expected a whole number' good
exit $bad
