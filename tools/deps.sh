#!/bin/bash
# Installs what building and testing needs and what is missing; silent when nothing is.
set -euo pipefail

packages=(
    # build
    build-essential cmake ninja-build pkg-config git ca-certificates libxxhash-dev
    zlib1g-dev libzstd-dev libevent-dev libssl-dev libpq-dev libsqlite3-dev
    # lint, sanitizers, fuzzing, ABI, coverage, documents
    clang clang-format clang-tidy libclang-rt-14-dev llvm-14 abigail-tools gcovr python3 scdoc
    # other processors: 64-bit ARM, big-endian, 32-bit
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross
    gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user-static
    # the libraries that benches compare with, and whose files are read by tests
    libbloom-dev libleveldb-dev librocksdb-dev
    # terminals, and packed keys, for tests of the command line
    tmux zstd
    # the software whose formats are read and written: Guava, bits-and-blooms, DCSO, BIP37, Squid
    default-jdk-headless libguava-java golang-go golang-github-willf-bloom-dev
    golang-github-dcso-bloom-cli python3-bitcoinlib squid
    # what reads the metrics: promtool, and a second reader of OpenMetrics
    prometheus python3-prometheus-client
    # the service: its clients, a truth, a browser
    redis-server redis-tools python3-redis golang-github-gomodule-redigo-dev
    postgresql chromium curl openssl python3-yaml python3-jsonschema
    # the command line: shells that complete it, and what checks man pages
    zsh fish mandoc
)
# DuckDB, whose Parquet filters are read by a test, and what drives the browser come from npm; any
# npm will do.
command -v npm >/dev/null || packages+=(nodejs npm)

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Missing: ${missing[*]}" >&2
        echo "Install them as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 "$@"
}
echo "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
