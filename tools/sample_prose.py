#!/usr/bin/env python3
"""Draws random sentences from the project's prose, so that people can judge how well it reads. Can also count its
words.

tools/prose_text.py extracts the prose. The prose is divided into surfaces by where a reader encounters it; --help lists
the surfaces. Sentences with fewer than 4 words, rows of symbols, and code are skipped.

usage: sample_prose.py SURFACE... [-n N] [--seed S] [--rev REV]   N (200) sentences: FILE:LINE<TAB>SENTENCE
       sample_prose.py all [-n N] ...                             from all surfaces together
       sample_prose.py --words [--rev REV]                        words and sentences of every surface"""

import argparse
import random
import re
import sys

import prose_text

# (name, path pattern, scopes) for each surface. A piece belongs to the first surface that matches.
SURFACES = [
    ("readme", r"README\.md$", "doc"),
    ("changelog", r"CHANGELOG\.md$", "doc"),
    ("root", r"[A-Z]+\.md$", "doc"),
    ("adr", r"docs/adr/", "doc"),
    ("man", r"docs/man/", "doc"),
    ("docs", r"docs/", "doc"),
    ("headers", r"include/|adapters/.*/bloomgate_\w+\.h", "comment"),
    ("dashboard", r"server/web/", "string"),
    ("messages", r"(cli|server|command|common|cluster|adapters|src|include)/", "string"),
    ("src", r"src/", "comment"),
    ("server", r"server/", "comment"),
    ("programs", r"(cli|command|cluster|common|adapters|examples)/", "comment"),
    ("tests", r"(tests|bench|fuzz|tools|cmake|\.ci)/|Makefile|CMakeLists\.txt|CMakePresets|\.clang", "doc comment string"),
    ("ops", r"ops/", "doc comment string"),
    ("other", r"", "doc comment string"),
]


def surface_of(piece):
    return next(name for name, paths, scopes in SURFACES if piece.scope in scopes and re.match(paths, piece.path))


def is_sentence(text):
    """Returns whether a reader would consider a text a sentence: 4 words or more, mostly letters."""
    words = re.findall(r"[A-Za-z][a-z']*", re.sub(r"`[^`]*`", "x", text))
    letters = sum(c.isalpha() or c in " ,.`" for c in text)
    return len([w for w in words if len(w) > 1]) >= 4 and letters > 0.7 * len(text)


def read(revision):
    """Returns {surface: [words, [(path, line, sentence)]]}."""
    found = {name: [0, []] for name, *_ in SURFACES}
    for path, text in prose_text.files(revision):
        for piece in prose_text.pieces(path, text):
            surface = found[surface_of(piece)]
            surface[0] += len(re.findall(r"[A-Za-z][\w'-]*", piece.text()[0]))
            surface[1] += [(path, line, s) for line, s in piece.sentences() if not (piece.table and piece.scope == "comment")
                           and is_sentence(s)]
    return found


def main():
    names = [name for name, *_ in SURFACES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("surface", nargs="*", choices=[*names, "all", []], help=", ".join([*names, "all"]),
                        metavar="SURFACE")
    parser.add_argument("-n", type=int, default=200, help="number of sentences (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed for the random choice (default: 1)")
    parser.add_argument("--rev", help="read a git revision (default: the working tree)")
    parser.add_argument("--words", action="store_true", help="count the words and sentences of every surface")
    arguments = parser.parse_args()
    if arguments.words == bool(arguments.surface):
        parser.print_help()
        return 2
    found = read(arguments.rev)
    if arguments.words:
        print(f"{'surface':<12} {'words':>8} {'sentences':>10}")
        for name, (words, sentences) in found.items():
            print(f"{name:<12} {words:8} {len(sentences):10}")
        print(f"{'all':<12} {sum(f[0] for f in found.values()):8} {sum(len(f[1]) for f in found.values()):10}")
        return 0
    wanted = names if "all" in arguments.surface else arguments.surface
    sentences = [s for name in wanted for s in found[name][1]]
    for path, line, sentence in random.Random(arguments.seed).sample(sentences, min(arguments.n, len(sentences))):
        print(f"{path}:{line}\t{sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
