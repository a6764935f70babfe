#!/bin/bash
# Starts the service with a small example: a gate in front of a SQLite product database.
# usage: run.sh PROGRAM DIRECTORY [OPTION]...     options of bloomgated, such as --port 7000
set -euo pipefail
program=$1 folder=$2
shift 2
example=$(dirname "$0")/../ops/example
mkdir -p "$folder"
if [ ! -e "$folder/catalog.db" ]; then
    rm -f "$folder/catalog.new"
    sed 's/SELECT 5000 AS products/SELECT 20000 AS products/' "$example/catalog.sql" |
        sqlite3 "$folder/catalog.new" >/dev/null
    mv "$folder/catalog.new" "$folder/catalog.db"
fi
{
    echo "dir $folder/data"
    echo "keyring $folder/keyring"
    echo "log-level warning"
    sed "s|sqlite:catalog.db|sqlite:$folder/catalog.db|" "$example/gates.conf"
} >"$folder/bloomgate.conf"

# No other process can listen on this socket, because a data directory belongs to one service.
"$program" --config "$folder/bloomgate.conf" --unixsocket "$folder/socket" "$@" &
service=$!
stop() {
    kill "$service" 2>/dev/null || true
    wait "$service" || exit $?
    exit 0
}
trap stop INT TERM
report_failure() {
    local status=0
    wait "$service" || status=$?
    cat >&2 <<TEXT
bloomgated did not start. If a port or the data directory is in use, stop the other service, or run
    make run ARGS="--port 7000 --http-port 7001 --dir DIRECTORY"
TEXT
    exit $((status ? status : 1))
}

# Prints the value of the option $2 in the remaining arguments, or the default $1.
setting() {
    local value=$1 name=$2
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
            "--$name") value=${2:-} ;;
            "--$name="*) value=${1#*=} ;;
        esac
        shift
    done
    echo "$value"
}
port=$(setting 6420 port "$@")
http=$(setting 8420 http-port "$@")
socket=$(setting "$folder/socket" unixsocket "$@")
data=$(setting "$folder/data" dir "$@")
# Waits until all filters are loaded. A service with users replies NOAUTH.
until redis-cli -s "$socket" INFO persistence 2>/dev/null | grep -Eq '^(loading:0|NOAUTH)'; do
    kill -0 "$service" 2>/dev/null || report_failure
    sleep 0.05
done
kill -0 "$service" 2>/dev/null || report_failure
cat <<TEXT
bloomgated is ready. Try:

  redis-cli -p $port BF.ADD fruit apple; redis-cli -p $port BF.MEXISTS fruit apple pear
  redis-cli -p $port BG.LOOKUP products BG-000042-6; redis-cli -p $port BG.LOOKUP products BG-000042-7
  curl -s http://127.0.0.1:$http/api/v1/gates/products

and open http://127.0.0.1:$http/ in a browser. The data is in $data. Press Ctrl-C to stop.
TEXT
wait "$service"
