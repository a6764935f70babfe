#!/usr/bin/env python3
"""Compares tools/bloomgated.mk, which builds bloomgated for `make run`, with CMake's release build: the same sources,
definitions, include directories, warnings, libraries and generated files.

usage: check_makefile.py BUILD-DIRECTORY"""

import filecmp
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATED = ("generated/include/bloomgate/version.h", "server/asset_files.c")
# Options that only one of the builds has, for the reasons in tools/bloomgated.mk. Paths are relative in the makefile,
# so it needs no -fmacro-prefix-map. CMake copies xxhash.h to a directory of its own, for cross builds.
ALLOWED = re.compile(r"-O[23]|-g|-Werror|-fmacro-prefix-map=.*|-isystem BUILD/private")


def output_of(*command):
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS", "LDFLAGS", "MAKEFLAGS")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def relative(path, build):
    """Returns a path relative to the source tree; paths in the build directory start with BUILD."""
    for folder, name in ((build, "BUILD"), (ROOT, "")):
        full = os.path.normpath(os.path.join(ROOT, path))
        if full.startswith(folder + "/"):
            return os.path.join(name, os.path.relpath(full, folder))
    return path


def parsed(commands, build):
    """Returns {source: options} and the libraries that the program is linked with."""
    compiled, libraries = {}, set()
    for line in commands.splitlines():
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :")) if "-o " in line else []
        while words and not re.search(r"(^|/)(gcc|cc)$", words[0]):
            words.pop(0) # a launcher, such as ccache
        if "-c" in words:
            source, options = None, []
            words = iter(words[1:])
            for word in words:
                if word in ("-o", "-MT", "-MF"):
                    next(words)
                elif word == "-isystem":
                    options.append("-isystem " + relative(next(words), build))
                elif word.startswith("-I"):
                    options.append("-I" + relative(word[2:], build))
                elif word.endswith(".c"):
                    source = relative(word, build)
                elif word not in ("-c", "-MD", "-MMD", "-MP"):
                    options.append(word)
            compiled[source] = [option for option in options if not ALLOWED.fullmatch(option)]
        elif words and re.search(r"bloomgated$", words[words.index("-o") + 1]):
            for word in words:
                found = re.fullmatch(r"-l(\w+)|/.*/lib(\w+)\.so", word)
                if found:
                    libraries.add(found[1] or found[2])
    return compiled, libraries


def split(options):
    """Returns the include directories, whose order matters, and the other options, whose order does not."""
    includes = [option for option in options if re.match(r"-I|-isystem", option)]
    return includes, sorted(set(options) - set(includes))


def differences(build, folder):
    cmake, cmake_libraries = parsed(output_of("ninja", "-C", build, "-t", "commands", "bloomgated"), build)
    make, make_libraries = parsed(output_of("make", "-n", "-B", "-f", "tools/bloomgated.mk", f"OUT={folder}"), folder)
    if len(cmake) < 100 or not cmake_libraries:
        yield "no commands found in the CMake build"
    for source in sorted(cmake.keys() ^ make.keys()):
        yield f"{source}: only {'CMake' if source in cmake else 'the makefile'} compiles this file"
    for source in sorted(cmake.keys() & make.keys()):
        if split(cmake[source]) != split(make[source]):
            yield f"{source}: different options\n  CMake:    {' '.join(cmake[source])}\n  makefile: {' '.join(make[source])}"
    if cmake_libraries != make_libraries:
        yield f"different libraries: CMake {sorted(cmake_libraries)}, makefile {sorted(make_libraries)}"
    output_of("make", "-f", "tools/bloomgated.mk", f"OUT={folder}", *(f"{folder}/{name}" for name in GENERATED))
    for name in GENERATED:
        if not filecmp.cmp(os.path.join(build, name), os.path.join(folder, name), shallow=False):
            yield f"{name}: different content"


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        found = list(differences(build, folder))
    for line in found:
        print(line)
    print(f"{0 if found else 1} passed, {len(found)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
