#!/bin/bash
# Installs missing packages for building and testing; prints nothing if none are missing.
set -euo pipefail

packages=(
    # build
    build-essential cmake ninja-build pkg-config git ca-certificates libxxhash-dev
    zlib1g-dev libzstd-dev libevent-dev libssl-dev libpq-dev libsqlite3-dev
    # lint, sanitizers, fuzzing, ABI, coverage, man pages
    clang clang-format clang-tidy libclang-rt-14-dev llvm-14 abigail-tools gcovr python3 scdoc
    # cross compilation: 64-bit ARM, big-endian, 32-bit
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross
    gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user-static
    # libraries that the benchmarks compare with Bloomgate, and whose files the tests read
    libbloom-dev libleveldb-dev librocksdb-dev
    # a terminal multiplexer and a compressor, for tests of the command-line tool
    tmux zstd
    # software whose formats Bloomgate reads and writes: Guava, bits-and-blooms, DCSO, BIP37, Squid
    default-jdk-headless libguava-java golang-go golang-github-willf-bloom-dev
    golang-github-dcso-bloom-cli python3-bitcoinlib squid
    # metrics parsers: promtool, and a second OpenMetrics parser
    prometheus python3-prometheus-client
    # the service: clients, databases, a browser
    redis-server redis-tools python3-redis golang-github-gomodule-redigo-dev
    postgresql chromium curl openssl python3-yaml python3-jsonschema
    # the command-line tool: shells with completion, and a man-page checker
    zsh fish mandoc
    # tools for the storage engines that have adapters (the libraries are above)
    rocksdb-tools
    # a Redis client for an example
    libhiredis-dev
)
# From Debian backports: Valkey, the other server that can load the Redis module.
backports=(valkey-server)
# DuckDB, whose Parquet filters a test reads, and Playwright, which drives the browser, come from npm.
# Any version of npm works.
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

# Backports come from the same mirror as the release. They are used only for these packages, and the
# machine's package sources are not changed.
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
        echo "Not available; tests that need them are skipped: ${missing_backports[*]}" >&2
fi
