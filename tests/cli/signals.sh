# Waits until a process can be interrupted, for transcripts that send signals.

# Waits until process $1 has a handler for signal $2, or has exited.
catches() {
    local number=$(kill -l $2) mask
    while mask=$(sed -n 's/^SigCgt:\t//p' /proc/$1/status 2> /dev/null) && [ "$mask" ]; do
        [ "$(cat /proc/$1/comm)" = bloomgate ] && ((0x$mask >> (number - 1) & 1)) && return
        sleep 0.01
    done
}
