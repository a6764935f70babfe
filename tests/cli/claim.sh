# Runs commands concurrently, for claim.t. A FIFO named `pipe` must exist.

# Starts a command that reads keys from the FIFO. Returns when the command has opened the FIFO, which happens
# after it has claimed its file.
holder() {
    bloomgate "$@" pipe &
    holding=$!
    exec 3> pipe
}

# Closes the input of the command that `holder` started, and waits for the command to exit.
release() {
    exec 3>&-
    wait $holding
}

# Starts a command. Returns when the command has printed a message or has exited.
waiter() {
    : > said
    bloomgate "$@" 2>> said 3>&- &
    waiting=$!
    until grep -q . said || ! kill -0 $waiting 2> /dev/null; do :; done
}

# Runs each command while another command changes FILE. For each command, prints its exit code and
# how many times its messages report that FILE is being changed.
refused() {
    local file=$1 command
    shift
    export BLOOMGATE_LOCK_WAIT=0
    cp "$file" before.bg
    holder add -q "$file"
    for command; do
        bloomgate $command 2> said
        echo "$? $(grep -c "$file: another bloomgate command is changing this file" said) $command"
    done
    cmp "$file" before.bg
    release
}
