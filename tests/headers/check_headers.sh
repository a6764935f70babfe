#!/bin/sh
# Compiles every public header on its own, in every supported language version. Warnings are errors.
# usage: check_headers.sh DIRECTORY-OF-GENERATED-HEADERS, from the root of the project
set -u
generated=$1
warnings='-Wall -Wextra -Wpedantic -Wconversion -Werror'
bad=0

for header in include/bloomgate/*.h "$generated"/bloomgate/*.h; do
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        for language in c:c99 c:c11 c:c17 c:c2x c++:c++17; do
            # shellcheck disable=SC2086
            if ! printf '#include "bloomgate/%s"\nextern int not_empty;\n' "$(basename "$header")" |
                $compiler -x ${language%:*} -std=${language#*:} $warnings -fsyntax-only \
                    -Iinclude -I"$generated" -; then
                echo "FAILED: $(basename "$header") with $compiler as ${language#*:}"
                bad=1
            fi
        done
    done
done
exit $bad
