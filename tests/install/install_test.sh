#!/bin/bash
# Installs a build into an empty directory and uses it as a user would.
# usage: install_test.sh BUILD-DIRECTORY pkg_config|static|cmake|negative|soname|cxx|man|cli|service|leveldb|rocksdb
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$here/../../VERSION")

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
stage=$temp/stage prefix=$temp/stage/opt/bloomgate
DESTDIR=$stage cmake --install "$build" --prefix /opt/bloomgate >"$temp/log" || { cat "$temp/log"; exit 1; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
lib=$prefix/lib
cd "$temp"

pc() { pkg-config "$@" libbloomgate; }
must_fail() { if "$@" >log 2>&1; then echo "expected a failure, but the command succeeded: $*"; exit 1; fi; }
needs_library() { readelf -d "$1" | grep -q 'NEEDED.*libbloomgate'; }

test_pkg_config() {
    [ "$(pc --modversion)" = "$version" ]
    gcc -Wall -Werror "$here/consumer.c" -o consumer $(pc --cflags --libs)
    LD_LIBRARY_PATH=$lib ./consumer
    LD_LIBRARY_PATH=$lib ldd consumer | grep -q "$lib/libbloomgate.so" # the program uses the installed library
}

test_static() { # first links only libbloomgate statically, then all libraries
    gcc "$here/consumer.c" -o mixed $(pc --cflags) "$lib/libbloomgate.a" -lm
    ./mixed
    gcc -static "$here/consumer.c" -o consumer $(pc --cflags --static --libs)
    ./consumer
    pc --static --libs | grep -q -- -lm
}

test_cmake() {
    cmake -G Ninja -S "$here/find_package" -B cmake -DCMAKE_PREFIX_PATH="$prefix" \
        -DWANTED_VERSION="${version%.*}" >log
    cmake --build cmake >log || { cat log; exit 1; }
    cmake/with_bloomgate
    needs_library cmake/with_bloomgate
    cmake/with_bloomgate_static
    must_fail needs_library cmake/with_bloomgate_static
    must_fail cmake -G Ninja -S "$here/find_package" -B refused -DCMAKE_PREFIX_PATH="$prefix" \
        -DWANTED_VERSION=99.0
}

test_negative() { # without the flags from pkg-config, the build must fail; otherwise, the other tests would prove
                  # nothing
    must_fail gcc "$here/consumer.c" -o consumer
    must_fail gcc "$here/consumer.c" -o consumer $(pc --cflags)
}

test_soname() { # in 0.x versions, every minor version has its own ABI
    [[ $version == 0.* ]] && abi=${version%.*} || abi=${version%%.*}
    readelf -d "$lib/libbloomgate.so" | grep -q "SONAME.*\[libbloomgate.so.$abi\]"
    [ "$(readlink "$lib/libbloomgate.so")" = "libbloomgate.so.$abi" ]
    [ "$(readlink "$lib/libbloomgate.so.$abi")" = "libbloomgate.so.$version" ]
}

test_cxx() {
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -x c++ "$here/consumer.c" -o consumer \
        $(pc --cflags --libs)
    LD_LIBRARY_PATH=$lib ./consumer
}

test_man() { # every exported function has a page or a link, and every link has a target
    man3=$prefix/share/man/man3
    while read -r name; do
        [ -s "$man3/$name.3" ]
    done <"$here/../../abi/symbols.txt"
    for page in $(sed -n 's/^\.so man3\///p' "$man3"/*.3 | sort -u) libbloomgate.3; do
        grep -q '^\.Sh NAME' "$man3/$page"
    done
}

test_cli() { # the installed program runs, and its man pages and completions are installed
    bloomgate=$prefix/bin/bloomgate share=$prefix/share
    [ "$("$bloomgate" --version)" = "bloomgate $version" ]
    printf 'apple\npear\n' | "$bloomgate" build -q fruit.bg
    [ "$(printf 'apple\nstone\n' | "$bloomgate" check fruit.bg)" = apple ]
    subcommands=$("$bloomgate" help --man | sed -n 's/^\.BR bloomgate\\-\([a-z]*\) (1),$/\1/p')
    [ "$(wc -w <<<"$subcommands")" -ge 3 ]
    cmp "$share/man/man1/bloomgate.1" <("$bloomgate" help --man)
    for subcommand in $subcommands; do
        cmp "$share/man/man1/bloomgate-$subcommand.1" <("$bloomgate" help --man "$subcommand")
    done
    [ "$(ls "$share/man/man1" | wc -l)" = $(($(wc -w <<<"$subcommands") + 1)) ]
    cmp "$share/bash-completion/completions/bloomgate" <("$bloomgate" completion bash)
    cmp "$share/zsh/site-functions/_bloomgate" <("$bloomgate" completion zsh)
    cmp "$share/fish/vendor_completions.d/bloomgate.fish" <("$bloomgate" completion fish)
}

test_service() { # the unit refers to the installed files, and Redis can load the module
    for file in $(sed -n 's/^ExecStart=//p' "$lib/systemd/system/bloomgated.service"); do
        [ -s "$stage$file" ]
    done
    redis-server --port 0 --unixsocket "$temp/socket" --save '' --loadmodule "$lib/bloomgate/bloomgate.so" \
        --dir "$temp" >redis.log 2>&1 &
    until grep -qi "ready to accept" redis.log || ! kill -0 %1; do sleep 0.1; done
    kill %1 || true
    grep "Module 'bloomgate' loaded" redis.log || { cat redis.log; exit 1; }
}

test_leveldb() { # tests the header in C and C++, both libraries (shared and static), and the
                 # exported names
    level() { pkg-config "$@" libbloomgate_leveldb; }
    [ "$(level --modversion)" = "$version" ]
    for language in c:c99 c:c17 c++:c++17; do
        echo '#include <bloomgate_leveldb.h>' | gcc -x ${language%:*} -std=${language#*:} -Wall -Wextra \
            -Wpedantic -Wconversion -Werror -fsyntax-only $(level --cflags) -
    done
    g++ -std=c++17 -fno-rtti -Wall -Wextra -Wpedantic -Werror "$here/consumer_leveldb.cc" -o shared \
        $(level --cflags --libs)
    LD_LIBRARY_PATH=$lib ./shared "$temp/db"
    LD_LIBRARY_PATH=$lib ldd shared | grep -q "$lib/libbloomgate_leveldb.so"
    g++ -std=c++17 -fno-rtti "$here/consumer_leveldb.cc" -o static $(level --cflags) \
        "$lib/libbloomgate_leveldb.a" "$lib/libbloomgate.a" -lleveldb
    ./static "$temp/db"
    must_fail grep -v '^bg_leveldb_' <(nm -D --defined-only --without-symbol-versions \
        "$lib/libbloomgate_leveldb.so" | awk '$2 != "A" { print $3 }')
}

test_rocksdb() { # the program creates the policy with a function call and by name
    g++ -std=c++17 -fno-rtti -Wall -Wextra -Werror -I"$prefix/include" "$here/consumer_rocksdb.cc" \
        -o consumer -L"$lib" -lbloomgate_rocksdb -lrocksdb
    LD_LIBRARY_PATH=$lib ./consumer
    must_fail needs_library "$lib/libbloomgate_rocksdb.so" # the adapter must not depend on
                                                           # libbloomgate
    [ "$(nm -DC --defined-only "$lib/libbloomgate_rocksdb.so" | grep -vc ' bloomgate::')" = 0 ]
}

set -x # the last line printed is the command that failed
"test_$2"
