#!/bin/bash
# Starts a Redis Cluster of three primaries and three replicas with the module, on this machine, and
# creates one sharded filter. Ctrl-C stops the nodes and deletes their directory.
# usage: run_cluster.sh BLOOMGATE MODULE [--port N]     N: first port to try (default: 7000)
set -euo pipefail
program=$1 module=$(realpath "$2")
shift 2
port=7000
case ${1-} in
    --port) port=${2-} ;;
    --port=*) port=${1#*=} ;;
    '') ;;
    *) port= ;;
esac
if ! [[ $port =~ ^[0-9]{1,5}$ ]] || [ "$port" -lt 1 ] || [ "$port" -gt 55000 ]; then
    echo "usage: run_cluster.sh BLOOMGATE MODULE [--port N]     N: from 1 to 55000" >&2
    exit 2
fi
server=$(command -v redis-server || command -v valkey-server) || {
    echo "redis-server or valkey-server is not installed: run make deps-cluster" >&2
    exit 1
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/bloomgate-cluster-XXXXXX")
nodes=() ports=()
stop() {
    trap '' INT TERM
    [ ${#nodes[@]} -eq 0 ] || kill "${nodes[@]}" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 0' INT TERM

# Starts a node on the next free port. The node also needs the port 10,000 above it. Readiness is
# checked on its own socket, because another server may answer on the port.
start_node() {
    local number=$1
    mkdir "$folder/$number"
    while [ "$port" -le 55000 ]; do
        "$server" --port "$port" --bind 127.0.0.1 --unixsocket "$folder/$number/socket" --dir "$folder/$number" \
            --save "" --cluster-enabled yes --cluster-node-timeout 3000 --repl-diskless-sync-delay 0 \
            --loadmodule "$module" >"$folder/$number/log" 2>&1 &
        local process=$!
        nodes+=("$process")
        while kill -0 "$process" 2>/dev/null; do
            if [ "$(redis-cli -s "$folder/$number/socket" PING 2>/dev/null)" = PONG ]; then
                ports+=("$port")
                port=$((port + 1))
                return
            fi
            sleep 0.05
        done
        if ! grep -Eq 'bind|listening' "$folder/$number/log"; then
            cat "$folder/$number/log" >&2
            echo "the server did not start; its log is above" >&2
            exit 1
        fi
        port=$((port + 1))
    done
    echo "no free ports up to 55000; specify a lower --port" >&2
    exit 1
}

# Returns whether every node knows all slots and lists all replicas, and every replica is synchronized.
# Clients trust a promoted replica only if it was listed when they last wrote keys (docs/cluster.md).
is_ready() {
    local p
    for p in "${ports[@]}"; do
        redis-cli -p "$p" CLUSTER INFO | grep -q '^cluster_state:ok' || return 1
        [ "$(redis-cli -p "$p" CLUSTER SLOTS | grep -Ec '^[0-9a-f]{40}$')" = 6 ] || return 1
        ! redis-cli -p "$p" INFO replication | grep -q '^master_link_status:down' || return 1
    done
}

for number in 0 1 2 3 4 5; do
    start_node "$number"
done
redis-cli --cluster create "${ports[@]/#/127.0.0.1:}" --cluster-replicas 1 --cluster-yes >"$folder/log" || {
    cat "$folder/log" >&2
    exit 1
}
until is_ready; do
    sleep 0.1
done
addresses=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}
"$program" --cluster "$addresses" create --items 1M --rate 0.1% seen 2>/dev/null
cat <<TEXT
A cluster of three primaries and three replicas is ready, with the filter "seen" in 16 shards. In another terminal, try:

  export BLOOMGATE_CLUSTER=$addresses
  seq 1000 | $program cluster add --replicas 1 seen
  seq 991 1010 | $program cluster check -v seen
  $program cluster info seen
  redis-cli -p ${ports[0]} CLUSTER NODES

To see a failover, stop a primary, and check again after a few seconds:

  redis-cli -p ${ports[0]} SHUTDOWN NOSAVE
  seq 991 1010 | $program cluster check -v seen

The nodes use the ports ${ports[*]}, and their logs are in $folder.
Press Ctrl-C here to stop them and delete their data, or run: kill $$
TEXT
wait
