#!/usr/bin/env python3
"""Extracts the project's prose: the text that people read in documents, comments and messages.

check_prose.py checks this prose and sample_prose.py draws sentences from it. A file is divided into pieces. A piece
is one paragraph, list item, table cell, comment or string, with its line numbers. The scope of a piece is one of these:

  doc      Markdown and man pages, without code blocks
  comment  comments of programs, scripts, build files and settings
  string   string literals that look like text, and the texts of HTML, OpenAPI and dashboards

Indented code in comments is skipped, except for comments at the ends of code lines."""

import bisect
import io
import os
import re
import subprocess
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Skipped: test data, data from other software, lists, and the banned phrases themselves.
LEFT_OUT = re.compile(r"(fuzz/corpus|tests/golden|tests/foreign/redisbloom|abi)/|LICENSE$|tools/(check_prose\.py|prose_allow\.txt)$")

C_LIKE = (".c", ".h", ".cc", ".hpp", ".h.in", ".inc", ".map", ".go", ".java", ".css")
HASH = (".sh", ".cmake", ".conf", ".service", ".zsh", ".in", ".t", "CMakeLists.txt", "Makefile", "Dockerfile",
        ".clang-tidy", ".clang-format", ".ci/run")


class Piece:
    """A piece of prose. `lines` are (line number, text) pairs."""

    def __init__(self, path, scope, lines, table=False):
        self.path, self.scope, self.lines, self.table = path, scope, lines, table

    def text(self):
        """Returns the text on one line, and a function that maps an offset in the text to a line number."""
        starts, numbers, text = [], [], ""
        for number, line in self.lines:
            starts.append(len(text))
            numbers.append(number)
            text += line.strip() + " "
        return text, lambda offset: numbers[bisect.bisect_right(starts, offset) - 1]

    def sentences(self):
        """Yields (line number, sentence) pairs, with single spaces between words."""
        text, line_at = self.text()
        start = 0
        for end in re.finditer(r"(?<=[.!?])[\"')*]*\s+(?=[A-Z`\"(*\[])|$", text):
            sentence = " ".join(text[start:end.start()].split())
            if sentence:
                lead = len(text[start:]) - len(text[start:].lstrip())
                yield line_at(start + lead), sentence
            start = end.end()


# ---- Files -----------------------------------------------------------------------------------


def wanted(path):
    parts = path.split("/")
    hidden = any(re.match(r"\.(?!ci$|clang)|build$|build-|__pycache__", part) for part in parts)
    return not hidden and not LEFT_OUT.search(path) and reader(path) is not None


def files(revision=None):
    """Yields (path, text) for every file with prose, from the working tree or a git revision."""
    if revision:
        archive = subprocess.run(["git", "archive", "--format=tar", revision], cwd=ROOT, check=True,
                                 capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if member.isfile() and wanted(member.name):
                    yield member.name, tar.extractfile(member).read().decode("utf-8", "replace")
        return
    for place, directories, names in os.walk(ROOT):
        directories[:] = sorted(d for d in directories if not re.match(r"\.(?!ci$)|build$|build-|__pycache__", d))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), ROOT)
            if wanted(path):
                with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
                    yield path, f.read()


def pieces(path, text):
    """Returns the pieces of a file."""
    return reader(path)(path, text)


def reader(path):
    """Returns the function that reads files with this name, or None."""
    if path.endswith((".md", ".scd")):
        return markdown
    if path.endswith((".yml", ".yaml")):
        return yaml
    if path.endswith(".json"):
        return json_texts
    if path.endswith((".html", ".svg")):
        return html
    if path.endswith(C_LIKE):
        return c_like
    if path.endswith((".js", ".mjs")):
        return javascript
    if path.endswith(".py"):
        return python
    if path.endswith(".sql"):
        return sql
    return hashes if path.endswith(HASH) else None


# ---- Documents -------------------------------------------------------------------------------


def markdown(path, text):
    """Reads paragraphs, list items, headings and table cells, but not code blocks or HTML comments."""
    found, block, fenced = [], [], False
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)

    def flush():
        nonlocal block
        if block:
            found.append(Piece(path, "doc", block))
        block = []
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*```", line):
            flush()
            fenced = not fenced
        elif fenced or not line.strip() or re.match(r"\s*\|?\s*:?-{3,}[-|: ]*$", line):
            flush()
        elif path.endswith(".scd") and re.match(r"\*.*(\+\+|;\*)$", line):
            flush()  # a declaration
        elif re.match(r"\s*\|", line):
            flush()
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                if cell.strip():
                    found.append(Piece(path, "doc", [(number, plain(cell))], table=True))
        else:
            if re.match(r"\s*([-*+]|\d+[.)])\s|#|>|[|:\[]+[\[\]|<> ]\s", line):
                flush()
            block.append((number, plain(re.sub(r"^\s*([-*+]|\d+[.)]|#+|>|[|:\[]+[\[\]|<> ])\s+", "", line))))
            if line.startswith("#"):
                flush()
    flush()
    return found


def plain(line):
    """Removes link targets and emphasis from Markdown."""
    line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
    return re.sub(r"\*\*|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)", "", line)


def yaml(path, text):
    """Reads comments, and the values of the keys summary, description, title and message."""
    found = hashes(path, text, strings=False)
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        entry = re.match(r"(\s*)(?:- )?(summary|description|title|message):\s*(.*)", lines[number])
        number += 1
        if not entry:
            continue
        indent, value = len(entry.group(1)), entry.group(3)
        block = [(number, value)] if not re.match(r"[|>][-+]?$", value) else []
        while number < len(lines) and (not lines[number].strip() or
                                       len(lines[number]) - len(lines[number].lstrip()) > indent):
            if block and block[-1][1] and not lines[number].strip():
                found.append(Piece(path, "string", block))
                block = []
            elif lines[number].strip():
                block.append((number + 1, plain(lines[number].strip())))
            number += 1
        if block:
            found.append(Piece(path, "string", block))
    return found


def json_texts(path, text):
    texts = re.finditer(r'"(?:title|description|summary|displayName)":\s*"((?:\\.|[^"\\])*)"', text)
    return [Piece(path, "string", [(text.count("\n", 0, m.start()) + 1, m.group(1))]) for m in texts]


def html(path, text):
    """Reads the text between tags, and visible attributes."""
    text = re.sub(r"<(script|style)\b.*?</\1>|<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    found = []
    for m in re.finditer(r">([^<>]+)<|\b(?:title|alt|placeholder|aria-label)=\"([^\"]*)\"", text):
        words = m.group(1) or m.group(2) or ""
        if re.search(r"[a-z]{2}", words):
            found.append(Piece(path, "string", [(text.count("\n", 0, m.start()) + 1, words)]))
    return found


# ---- Programs --------------------------------------------------------------------------------


def is_text(string):
    """Returns whether a string literal is meant for people: several words and few other characters."""
    words = re.findall(r"(?<![\w%$\\-])[A-Za-z][a-z']+(?![\w=(/])", string)
    return " " in string.strip() and len(words) >= 2 and sum(map(len, words)) > 0.4 * len(string.strip())


def comment_pieces(path, lines):
    """Returns the paragraphs in a comment, and the comments in its indented code."""
    found, block = [], []

    def flush():
        nonlocal block
        if block:
            columns = sum(bool(re.search(r"\S {2,}\S", text)) for _, text in block)
            found.append(Piece(path, "comment", block, table=columns * 2 >= len(block)))
        block = []
    for number, line in lines:
        if not line.strip():
            flush()
        elif re.match(r" {4,}", line) and not (block and re.match(r" {1,}", block[-1][1])):
            flush()
            remark = re.search(r"(?://|/\*|(?<= )#)\s+(.*?)(?:\*/)?$", line)
            if remark:
                found.append(Piece(path, "comment", [(number, remark.group(1))]))
        else:
            if re.match(r"\s*([-*]|\(?\w{1,3}\)) ", line):
                flush()
            block.append((number, line))
    flush()
    return found


def strip_block(comment, number):
    """Returns the (number, text) lines of a block comment, without its decoration."""
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line.strip()
             for i, line in enumerate(comment[2:-2].split("\n"))]
    return [(number + i, re.sub(r"^-{3,}|-{3,}$", "", line.rstrip())) for i, line in enumerate(lines)]


def tokens(path, text, pattern, string_signs):
    """Returns the comments and strings of a program, with adjacent ones joined."""
    found, comment, string, last = [], [], [], None
    line, counted = 1, 0

    def flush():
        nonlocal comment, string
        if comment:
            found.extend(comment_pieces(path, comment))
        if string and is_text(" ".join(words for _, words in string)):
            found.append(Piece(path, "string", string))
        comment, string = [], []
    for m in pattern.finditer(text):
        line += text.count("\n", counted, m.start())
        counted = m.start()
        token = m.group()
        between = text[last:m.start()] if last is not None else "x"
        last = m.end()
        if token.startswith('"""') and re.search(r"(\A(#[^\n]*\n)*|:\n)\s*\Z", text[max(0, m.start() - 200):m.start()]):
            flush()  # a docstring
            lines = [(line + i, part) for i, part in enumerate(token[3:-3].split("\n"))]
            indent = min((len(t) - len(t.lstrip()) for _, t in lines[1:] if t.strip()), default=0)
            found.extend(comment_pieces(path, [(n, t[indent:] if n > line else t) for n, t in lines]))
        elif token[0] in string_signs:
            body = token.strip(token[0])
            if not (string and re.fullmatch(r"\s*(?:PRI\w+\s*)?", between)):
                flush()
            string += [(line + i, unescaped(part)) for i, part in enumerate(body.split("\n"))]
        elif token.startswith("/*"):
            flush()
            found.extend(comment_pieces(path, strip_block(token, line)))
        else:
            text_of = re.sub(r"^(//+!?|#+!?|--) ?", "", token)
            if not (comment and re.fullmatch(r"\n[ \t]*", between)):
                flush()
            comment.append((line, text_of.rstrip()))
    flush()
    return found


def unescaped(string):
    return re.sub(r"\\[nrt]", " ", re.sub(r'\\(["\'\\])', r"\1", string))


C_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|(?<!include )"(?:\\.|[^"\\\n])*"|(?<=\W)\'(?:\\.|[^\'\\\n])\'', re.S)
JS_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'
                       r'|(?<=[=(,:!&|?{;])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/[gimsuy]*', re.S)
PY_TOKENS = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|#[^\n]*'
                       r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
HASH_TOKENS = re.compile(r'(?<![^\s])#[^\n]*|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'')
SQL_TOKENS = re.compile(r"--[^\n]*")


def c_like(path, text):
    return tokens(path, text, C_TOKENS, "\"'")


def javascript(path, text):
    """Reads comments and strings, without ${...} in templates."""
    def blank(m):
        return "\n" * m.group().count("\n") + "N"
    found = tokens(path, text, JS_TOKENS, "\"'`")
    for piece in found:
        piece.lines = [(number, re.sub(r"\$\{[^{}]*\}", blank, line)) for number, line in piece.lines]
    return found


def python(path, text):
    return tokens(path, text, PY_TOKENS, "\"'")


def sql(path, text):
    return tokens(path, text, SQL_TOKENS, "\"")


def hashes(path, text, strings=True):
    """Reads files with # comments: scripts, build files, settings."""
    if path.endswith(".t"):  # commands and their output, in which only comments are prose
        text = "\n".join(line if line.startswith("#") else "" for line in text.split("\n"))
    if path.endswith("Makefile"):
        text = text.replace(" ## ", " # ")
    pattern = HASH_TOKENS if strings and not path.endswith((".conf", ".service")) else re.compile(r"(?<![^\s])#[^\n]*")
    return tokens(path, text, pattern, "\"'")
