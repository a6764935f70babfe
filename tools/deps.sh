#!/bin/bash
# Installs the missing packages of a group and of the groups that it includes, on Debian 12. Prints
# nothing if none are missing. If installation fails, prints the missing packages and the
# apt-get command.
# usage: deps.sh [GROUP]      run, cluster, build, check, compare, bare or test (default)
set -euo pipefail

# `make run`: the service, with an example (tools/bloomgated.mk, tools/run.sh)
run=(
    gcc libc6-dev make pkg-config libevent-dev libpq-dev libsqlite3-dev libssl-dev libxxhash-dev
    curl redis-tools sqlite3
)
# `make run-cluster`: a cluster of Redis or Valkey servers with the module
cluster=(cmake zlib1g-dev libzstd-dev libbz2-dev liblz4-dev liblzma-dev)
command -v redis-server valkey-server >/dev/null || cluster+=(redis-server)
# `make build`: the library, the programs, the adapters, and their man pages
build=(
    build-essential cmake ninja-build git ca-certificates zlib1g-dev libzstd-dev
    libbz2-dev liblz4-dev liblzma-dev
    libleveldb-dev librocksdb-dev libhiredis-dev python3 scdoc
)
# `make check`: the edit loop
check=(bzip2 clang-format lz4 openssl xz-utils zstd)
# `make bench` and the other benchmarks: software to compare Bloomgate with
compare=(libbloom-dev golang-github-dcso-bloom-cli redis-server rocksdb-tools)
# `make test-bare`
bare=(python3 mmdebstrap)
# `make test`
test=(
    # lint, sanitizers, fuzzing, ABI, coverage
    clang clang-tidy libclang-rt-14-dev llvm-14 abigail-tools gcovr
    # cross compilation: 64-bit ARM, big-endian, 32-bit
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross
    gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user-static
    # a terminal multiplexer, shells with completion, and a man-page checker, for the command-line tool
    tmux zsh fish mandoc
    # software whose formats Bloomgate reads and writes: Guava, bits-and-blooms, BIP37, Squid
    default-jdk-headless libguava-java golang-go golang-github-willf-bloom-dev python3-bitcoinlib squid
    # metrics parsers: promtool, and a second OpenMetrics parser
    prometheus python3-prometheus-client
    # the service: clients, databases, a browser
    python3-redis golang-github-gomodule-redigo-dev postgresql chromium python3-yaml
    python3-jsonschema valgrind
)
# From Debian backports: Valkey, the other server that can load the Redis module.
backports=(valkey-server)
# Three packages come from npm: DuckDB, whose Parquet filters a test reads; Playwright, which controls
# the browser; and axe-core, which checks accessibility. Any version of npm works.
command -v npm >/dev/null || test+=(nodejs npm)

optional=()
[ $# -le 1 ] || set -- "$*" # only one group
case ${1-test} in
    run) packages=("${run[@]}") ;;
    cluster) packages=("${run[@]}" "${cluster[@]}") ;;
    build) packages=("${run[@]}" "${build[@]}") ;;
    check) packages=("${run[@]}" "${build[@]}" "${check[@]}") ;;
    compare) packages=("${run[@]}" "${build[@]}" "${compare[@]}") ;;
    bare) packages=("${bare[@]}") ;;
    test)
        packages=("${run[@]}" "${build[@]}" "${check[@]}" "${compare[@]}" "${test[@]}")
        optional=("${backports[@]}")
        ;;
    *)
        echo "usage: deps.sh [run|cluster|build|check|compare|bare|test]" >&2
        exit 2
        ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian machine. Make sure that the equivalents of these packages are installed: ${packages[*]}" >&2
    exit 0
fi

is_missing() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" != installed ]
}
missing=() missing_optional=()
for package in "${packages[@]}"; do
    ! is_missing "$package" || missing+=("$package")
done
for package in "${optional[@]}"; do
    ! is_missing "$package" || missing_optional+=("$package")
done

# Prints the missing packages and the command that installs them, after the reason $1.
give_up() {
    {
        echo "$1"
        echo "Missing packages: ${missing[*]}"
        echo "To install them, run as root:"
        echo
        echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}"
        echo
    } >&2
    exit 1
}

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    [ -t 0 ] || as_root+=(-n) # no terminal to ask for a password
fi
can_install() {
    [ ${#as_root[@]} -eq 0 ] || { command -v sudo >/dev/null && "${as_root[@]}" true 2>/dev/null; }
}
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
    apt -o Dir::Etc::sourcelist="$sources" -o APT::Get::List-Cleanup=0 update &&
        apt -o Dir::Etc::sourcelist="$sources" install -y --no-install-recommends -t "$release-backports" "$@"
    local status=$?
    rm "$sources"
    return $status
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ${#missing[@]} -gt 0 ]; then
    can_install || give_up "Cannot install packages: not root, and sudo is not available or needs a password."
    echo "Installing ${missing[*]}"
    { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
        { cat "$log" >&2; give_up "Cannot install packages: apt-get failed (see above)."; }
fi
if [ ${#missing_optional[@]} -gt 0 ]; then
    can_install && echo "Installing ${missing_optional[*]}" &&
        install_backports "${missing_optional[@]}" >"$log" 2>&1 ||
        echo "${missing_optional[*]} is not available; tests that need it are skipped" >&2
fi
