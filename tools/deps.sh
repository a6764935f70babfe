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
    # the engines that adapters run in: their tools (the libraries are above)
    rocksdb-tools
    # a client of Redis for an example
    libhiredis-dev
)
# Of Debian's backports: the other server that the Redis module runs in.
backports=(valkey-server)
# DuckDB, whose Parquet filters are read by a test, and what drives the browser come from npm; any
# npm will do.
command -v npm >/dev/null || packages+=(nodejs npm)

is_missing() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" != installed ]
}
missing=() missing_backports=()
for package in "${packages[@]}"; do
    ! is_missing "$package" || missing+=("$package")
done
for package in "${backports[@]}"; do
    ! is_missing "$package" || missing_backports+=("$package")
done
[ $((${#missing[@]} + ${#missing_backports[@]})) -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Missing: ${missing[*]} ${missing_backports[*]}" >&2
        echo "Install them as root: apt-get install ${missing[*]} ${missing_backports[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 "$@"
}

# The backports live where the release itself comes from; they are read for this purpose alone, so
# the machine's list of sources stays as it is.
install_backports() {
    local release sources mirror
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" | head -n 1)
    sources=$(mktemp --suffix=.list)
    cat /etc/apt/sources.list >"$sources" 2>/dev/null || true
    echo "deb $mirror $release-backports main" >>"$sources"
    apt -o Dir::Etc::sourcelist="$sources" -o APT::Get::List-Cleanup=0 update
    apt -o Dir::Etc::sourcelist="$sources" install -y --no-install-recommends -t "$release-backports" "$@"
    rm "$sources"
}

echo "Installing ${missing[*]} ${missing_backports[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ${#missing[@]} -gt 0 ]; then
    { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
        { cat "$log" >&2; exit 1; }
fi
if [ ${#missing_backports[@]} -gt 0 ]; then
    install_backports "${missing_backports[@]}" >"$log" 2>&1 ||
        echo "Not to be had, so tests with it will be skipped: ${missing_backports[*]}" >&2
fi
