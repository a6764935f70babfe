#!/usr/bin/env python3
"""Generates the section 3 man pages from the public headers.

The comments in include/bloomgate/*.h are the only source. There is one page per header (bg_filter.3 from
filter.h), libbloomgate.3 from bloomgate.h, and for every exported function a page that refers to its header's
page, so that `man bg_filter_add` works. The build writes the pages to the build directory; they are not
committed.

The headers must follow these rules; violations are errors:
  - The first comment is "name.h - one line.", followed by prose.
  - `/* ---- Title ---- */` starts a section of functions.
  - A comment documents the declarations after it, up to the next comment. The comment and these declarations form a
    group. A blank line also ends a group that already contains a function or a type, except between inline functions.
  - Every BG_API function and every `static inline` function has a comment.
bloomgate.h, server.h and all.h include other headers. libbloomgate.3 lists the headers in three groups, one for each of
these files, in this order. A header is listed in the first group whose file includes it.

In prose, indented lines are printed literally, except for lists: "- x", "(C1) x", and two columns
with wrapped text. "Errors:", "Thread safety:", "Cost:" and "Memory:" at the start of a sentence
become tagged paragraphs. `x` in backticks is a parameter or literal text.

usage: gen_man.py OUTPUT-DIRECTORY     writes OUTPUT-DIRECTORY/*.3 and removes other *.3 files there"""

import glob
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.path.join(ROOT, "include/bloomgate")
NO_PAGE = {"export.h", "inline_code.h"}  # headers that contain nothing for users
TIERS = {"bloomgate.h": "Included by bloomgate.h:", "server.h": "Included by server.h, for services:",
         "all.h": "To be included separately:"}
WIDTH = 78              # line width of the pages
CODE_WIDTH = 72         # line width of code in the pages, where code is indented


class HeaderError(Exception):
    """Raised for a header that the generator cannot read or that is missing a comment."""


# ---- Reading a header ------------------------------------------------------------------


class Group:
    """A comment and the declarations that it documents."""

    def __init__(self, comment, section, line):
        self.comment, self.section, self.line = comment, section, line
        self.functions = []  # Declaration
        self.types = []      # C text of typedefs, enums and macros


class Declaration:
    """A function: its name, and its declaration without attributes and body."""

    def __init__(self, text, note):
        self.inline = bool(re.search(r"\binline\b", text))
        text = text.split("{")[0] if self.inline else text
        text = re.sub(r"\b(BG_API|BG_MUST_CHECK|BG_VIEW_INLINE|static|inline)\b\s*", "", text)
        self.text = " ".join(text.split()).rstrip(";").strip()
        self.name = re.search(r"\b(bg_\w+)\s*\(", self.text).group(1)
        self.note = note  # a comment on the same line

    def parameters(self):
        inside = self.text[self.text.index("(") + 1:self.text.rindex(")")]
        return [re.findall(r"\w+", re.sub(r"\[.*?\]", "", part))[-1]
                for part in split_top(inside, ",") if re.search(r"\w", part)]

    def lines(self):
        """Returns the declaration in lines of at most CODE_WIDTH characters, with its name in bold."""
        opening = self.text.index("(", self.text.index(self.name))
        head, rest = self.text[:opening + 1], self.text[opening + 1:-1]
        parts = [" ".join(part.split()) for part in split_top(rest, ",")]
        found = breaks(head, parts)
        if max(map(len, found)) > CODE_WIDTH:
            found = [head] + breaks("    ", parts)
        bold = rf"\fB{self.name}\fR("
        return [code(line).replace(self.name + "(", bold, 1) if self.name + "(" in line else code(line)
                for line in found]


class Header:
    """One public header: its title, its prose and its groups."""

    def __init__(self, path):
        self.path = path
        self.name = re.sub(r"\.in$", "", os.path.basename(path))
        self.page = "libbloomgate" if self.name == "bloomgate.h" else "bg_" + self.name[:-2]
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        if path.endswith(".in"):
            self.text = with_version(self.text)
        self.includes = []   # headers
        self.groups = []
        self.undocumented = []
        self.read()

    def place(self, offset):
        return f"{os.path.relpath(self.path, ROOT)}:{self.text.count(chr(10), 0, offset) + 1}"

    def fail(self, offset, message):
        raise HeaderError(f"{self.place(offset)}: {message}")

    def functions(self):
        return [f for group in self.groups for f in group.functions]

    def read(self):
        start = re.compile(r"/\*.*?\*/", re.S).match(self.text)
        lines = comment_lines(start.group()) if start else []
        title = re.match(rf"{re.escape(self.name)} - (.*?)\.?$", lines[0]) if lines else None
        if not title:
            self.fail(0, f'the first comment must start with "{self.name} - PURPOSE."')
        self.title, self.prose = title.group(1), lines[1:]
        if ". " in self.title:  # a title and prose on one line
            self.title, rest = self.title.split(". ", 1)
            self.prose = [rest + ".", *self.prose]
        self.read_items(start.end())

    def read_items(self, at):
        """Reads the comments, directives and declarations after the first comment."""
        text, group, section, lists = self.text, None, "", {}
        self.lists = lists  # macros that contain a list of X(...) entries, by name
        while True:
            space = re.compile(r"\s*").match(text, at)
            blank, at = space.group().count("\n") > 1, space.end()
            if at == len(text):
                return
            if text.startswith("/*", at):
                end = text.index("*/", at) + 2
                heading = re.fullmatch(r"/\* -{2,} (.*?) -{2,} \*/", text[at:end])
                if heading:
                    section, group = heading.group(1), None
                else:
                    group = Group(comment_lines(text[at:end]), section, at)
                    self.groups.append(group)
                at = end
            elif text.startswith("#", at):
                at, group = self.read_directive(at, group, section, blank)
            else:
                end = self.end_of_declaration(at)
                trailing = re.compile(r"[ \t]*/\*(.*?)\*/", re.S).match(text, end)
                note = " ".join(comment_lines("/*" + trailing.group(1) + "*/")) if trailing else ""
                declaration = text[at:end]
                is_function = declaration.startswith(("BG_API", "static inline"))
                group = self.group_for(group, section, blank, at,
                                       "inline" in declaration.split("(")[0] if is_function else False)
                if is_function:
                    group.functions.append(Declaration(declaration, note))
                    if not group.comment:
                        self.undocumented.append(f"{self.place(at)}: {group.functions[-1].name} has no comment")
                elif re.match(r"typedef|enum", declaration):
                    group.types.append(self.type_text(declaration, note))
                at = trailing.end() if trailing else end

    def group_for(self, group, section, blank, at, inline):
        """Returns the group for the next declaration: the current group, or a new one without a comment."""
        complete = group and (group.types or any(not f.inline for f in group.functions))
        if not group or blank and complete or blank and group.functions and not inline:
            group = Group([], section, at)
            self.groups.append(group)
        return group

    def read_directive(self, at, group, section, blank):
        text = self.text
        end = re.compile(r"(?:\\\n|[^\n])*").match(text, at).end()
        line = text[at:end]
        if re.match(r"#\s*ifdef __cplusplus", line):  # only the C branch is read
            stop = re.compile(r"^#\s*(else|endif).*$", re.M).search(text, end)
            return stop.end(), group
        included = re.match(r'#\s*include "bloomgate/(\w+\.h)"', line)
        if included:
            self.includes.append(included.group(1))
        macro = re.match(r"#\s*define (BG_\w+)(\([^)]*\))?(.*)", line, re.S)
        if macro and macro.group(3).strip():
            name, arguments, body = macro.groups()
            body = re.sub(r"\s*\\\n\s*", " ", body).strip()
            if arguments == "(X)":
                self.lists[name] = body
                shown = f"{name}(X)"
            elif body.startswith(("{", "(bg_")) or "\\\n" in line:
                shown = f"#define {name}{arguments or ''} ..."
            else:
                shown = f"#define {name}{arguments or ''} " + re.sub(r"\s*/\*", " /*", body)
            group = self.group_for(group, section, blank, at, False)
            group.types.append(wrap_member("", *without_trailing(shown)))
        return end, group

    def end_of_declaration(self, at):
        """Returns the offset at which a declaration ends: after its semicolon, or after the closing brace of an inline
        body."""
        depth, place = 0, at
        token = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|#[^\n]*|[{}();]', re.S)
        inline = re.match(r"(BG_API|static)\s+inline\b", self.text[at:])
        while True:
            found = token.search(self.text, place)
            if not found:
                self.fail(at, "this declaration has no end")
            place, sign = found.end(), found.group()
            depth += (sign in "{(") - (sign in "})") if len(sign) == 1 else 0
            if depth == 0 and (sign == ";" or sign == "}" and inline):
                return place

    # ---- Types, rewrapped in narrower lines ----

    def type_text(self, declaration, note):
        """Returns the lines of a typedef or enum, with X-macros expanded."""
        if "{" not in declaration:
            return wrap_member("", " ".join(declaration.split()), note)
        head, rest = declaration.split("{", 1)
        body, tail = rest.rsplit("}", 1)
        body = self.expand_lists(body)
        separator = "," if re.match(r"(typedef\s+)?enum", head) else ";"
        lines = [head.strip() + " {"]
        for before, member, after in members(body, separator):
            lines += wrap_member("    ", member, before or after)
        return [*lines, "}" + (" " + tail.strip() if tail.strip() != ";" else ";")]

    def expand_lists(self, body):
        """Replaces `#define M(a, b) ...`, `LIST(M)` and `#undef M` with the members that they generate."""
        macros = dict((name, (arguments, template)) for name, arguments, template in
                      re.findall(r"#define (\w+)\(([^)]*)\) (.*)", body))
        body = re.sub(r"^#.*\n", "", body, flags=re.M)
        for name, (arguments, template) in macros.items():
            names = [a.strip() for a in arguments.split(",")]
            for used in re.findall(rf"\b(BG_\w+)\({name}\)", body):
                made = ""
                for values, comment in self.entries(used):
                    line = template
                    for argument, value in zip(names, values):
                        line = re.sub(rf"##{argument}\b|\b{argument}##", value, line)
                        line = re.sub(rf"\b{argument}\b", value, line)
                    texts = [v.strip('"') for v in values if v.startswith('"')]
                    note = comment or (f'"{texts[0]}"' if texts else "")
                    made += re.sub(r"\((\d+)\)", r"\1", line) + (f" /* {note} */" if note else "") + "\n"
                body = body.replace(f"{used}({name})", made)
        return body

    def entries(self, name):
        """Returns the X(...) entries of a list, including those of nested lists."""
        found = []
        for part in re.finditer(r'\bX\(((?:"(?:\\.|[^"\\])*"|[^)"])*)\)(?:\s*/\*(.*?)\*/)?|\b(BG_\w+)\(X\)', self.lists[name]):
            if part.group(3):
                found += self.entries(part.group(3))
            else:
                values = re.findall(r'\s*"(?:\\.|[^"\\])*"|[^,]+', part.group(1))
                found.append(([v.strip() for v in values if v.strip()], (part.group(2) or "").strip()))
        return found


def with_version(text):
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        version = f.readline().strip()
    parts = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split(".")))
    text = re.sub(r"@PROJECT_VERSION_(\w+)@", lambda m: parts[m.group(1)], text)
    return text.replace("@PROJECT_VERSION@", version)


def comment_lines(comment):
    """Returns the lines of a comment without its decoration and without empty lines at either end."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in lines]
    lines[0] = lines[0].strip()
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def split_top(text, separator):
    """Splits C text at separators outside brackets."""
    parts, depth, part = [], 0, ""
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == separator and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += sign
    return [*parts, part]


def breaks(head, parts):
    """Returns `head` and the parameters, aligned, in as few lines as possible."""
    lines, indent = [head], " " * len(head)
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        part += ");" if last else ","
        line = lines[-1]
        joined = line + part if line in (head, indent) else line + " " + part
        if len(joined) > CODE_WIDTH and line not in (head, indent):
            lines.append(indent + part)
        else:
            lines[-1] = joined
    return lines


def members(body, separator):
    """Returns [comment before, member, comment after] for each member of a struct or enum."""
    token = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|[\s\S]', re.S)
    found, before, member, depth = [], "", "", 0
    line_of_last = False  # whether the last member ended on this line
    for sign in token.findall(body):
        if sign.startswith("/*"):
            text = " ".join(comment_lines(sign))
            if line_of_last and not member.strip():
                found[-1][2] = text
            elif member.strip():
                found.append([before, " ".join(member.split()) + ("," if separator == "," else ""), text])
                before, member = "", ""
            else:
                before = f"{before} {text}".strip()
            continue
        depth += (sign in "({[") - (sign in ")}]") if len(sign) == 1 else 0
        if sign == "\n":
            line_of_last = False
        if sign == separator and depth == 0:
            if member.strip():
                found.append([before, " ".join(member.split()) + separator, ""])
                before, member = "", ""
            line_of_last = True
        else:
            member += sign
    if member.strip():
        found.append([before, " ".join(member.split()), ""])
    return found


def without_trailing(line):
    """Returns a line of code without the comment at its end, and the text of that comment."""
    found = re.fullmatch(r"(.*?)\s*/\*\s*(.*?)\s*\*/", line, re.S)
    return (found.group(1), " ".join(found.group(2).split())) if found else (line, "")


def wrap_member(indent, member, comment):
    """Returns a member and its comment, on one line if they fit, otherwise with the comment first."""
    if comment and len(indent + member + comment) + 7 <= CODE_WIDTH:
        return [f"{indent}{member} /* {comment} */"]
    lines = textwrap.wrap(member, CODE_WIDTH, initial_indent=indent, subsequent_indent=indent + "    ",
                          break_long_words=False, break_on_hyphens=False)
    if not comment:
        return lines
    return [*textwrap.wrap(comment + " */", CODE_WIDTH, initial_indent=indent + "/* ",
                           subsequent_indent=indent + " * ", break_on_hyphens=False), *lines]


# ---- Writing a page ----------------------------------------------------------------------


def code(line):
    """Escapes a line of code for a literal block."""
    line = line.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    line = line.replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + line if line.startswith((".", "\\(aq")) else line


class Page:
    """Writes mdoc(7): prose, literal blocks, lists."""

    def __init__(self, headers):
        self.out = []
        self.names = {f.name for header in headers for f in header.functions()}
        self.pages = {header.name: header.page for header in headers}
        self.parameters = set()

    def add(self, *lines):
        if lines and lines[0].startswith(".Bl") and self.out and self.out[-1] == ".Pp":
            self.out.pop()  # a list has its own vertical space
        self.out += lines

    def inline(self, text):
        """Marks function names, constants, parameters and references to headers."""
        def mark(match):
            word = match.group()
            if word.startswith("`"):
                inside = word[1:-1]
                font = "I" if inside in self.parameters else "B"
                return f"\\f{font}{code(inside)}\\fR"
            if word in self.pages:
                return f"\\fB{self.pages[word]}\\fR(3)"
            if word in self.names:
                return f"\\fB{word}\\fR" + ("" if text[match.end():match.end() + 1] == "(" else "()")
            if word.startswith(("BG_", "BLOOMGATE_")):
                return f"\\fB{word}\\fR"
            if word.endswith("()"):
                return f"\\fB{word[:-2]}\\fR()"
            if word in (r"\fB", r"\fR"):
                return word
            return {"\\": "\\e", "^": "\\(ha", "~": "\\(ti"}.get(word, word)
        return re.sub(r"`[^`]+`|\b\w+\.h\b|\b(?:bg_\w+|BG_\w+|BLOOMGATE_\w+)\b|\b\w+\(\)|\\f[BR]|[\\^~]", mark, text)

    def text(self, words):
        """Writes a paragraph. Every sentence starts a new line, as mdoc requires."""
        for sentence in re.split(r"(?<=[.!?])\s+(?=\S)|(?<=[.!?][)\"])\s+(?=[A-Z(\"`])", " ".join(words.split())):
            for line in textwrap.wrap(self.inline(sentence), WIDTH, break_long_words=False,
                                      break_on_hyphens=False):
                self.add("\\&" + line if line.startswith((".", "'")) else line)

    def literal(self, lines):
        """Writes lines literally, without their common indentation."""
        lines = textwrap.dedent("\n".join(lines)).split("\n")
        self.add(".Bd -literal -offset indent", *map(code, lines), ".Ed")

    def prose(self, lines, tags=False):
        """Writes a comment: paragraphs, lists, literal blocks, and tagged paragraphs at its end."""
        blocks, tagged = [], []
        for block in paragraphs(lines):
            first = block[0]
            if first.startswith("    ") and not re.match(r"\s+[-*] ", first):
                blocks.append((self.literal, block))
            elif re.match(r"\s+[-*] ", first):
                blocks.append((self.bullets, block))
            elif re.match(r"\s+\(\w+\) ", first):
                blocks.append((self.tagged_list, block))
            elif first.startswith(" ") and definitions(block):
                blocks.append((self.definition_list, block))
            elif first.startswith(" "):
                blocks.append((self.literal, block))
            else:
                text = " ".join(block)
                if len(block) == 1 and re.fullmatch(r"[A-Z][\w ]{2,30}", text):
                    text = f"\\fB{text}\\fR"  # the heading of a list
                found = split_tags(text) if tags else [("", text)]
                if found[0][1]:
                    blocks.append((self.text, found[0][1]))
                tagged += found[1:]
        for i, (write, block) in enumerate(blocks):
            if i > 0 and write == self.text:
                self.add(".Pp")
            write(block)
        if tagged:
            self.add('.Bl -tag -width "Thread safety"')
            for tag, text in tagged:
                self.add(f".It {tag}")
                self.text(text[0].upper() + text[1:] if re.match(r"[a-z]+\b(?!_)", text) else text)
            self.add(".El")

    def bullets(self, block):
        self.add(".Bl -bullet")
        for item in items(block, r"\s+[-*] "):
            self.add(".It")
            self.text(re.sub(r"^\s+[-*] ", "", item))
        self.add(".El")

    def tagged_list(self, block):
        self.add(".Bl -tag -width Ds")
        for item in items(block, r"\s+\(\w+\) "):
            tag, text = re.match(r"\s+(\(\w+\)) (.*)", item, re.S).groups()
            self.add(f".It {tag}")
            self.text(text)
        self.add(".El")

    def definition_list(self, block):
        self.add(".Bl -tag -width Ds")
        for term, text in definitions(block):
            self.add(f".It {self.inline(term)}")
            self.text(text)
        self.add(".El")

    def page(self, title, date):
        head = ['.\\" Generated by tools/gen_man.py from the headers. Do not edit.',
                f".Dd {date}".rstrip(), f".Dt {title.upper()} 3", ".Os"]
        return "\n".join(head + self.out) + "\n"


def paragraphs(lines):
    """Splits lines into blocks of text and blocks of indented lines."""
    blocks = []
    for i, line in enumerate(lines):
        indented = line.startswith(" ")
        if not line:
            blocks.append(None)
        elif blocks and blocks[-1] and blocks[-1][0].startswith(" ") == indented \
                and not (indented and is_item(blocks[-1][0]) and not is_item(line)
                         and indent_of(line) <= indent_of(blocks[-1][0])):
            blocks[-1].append(line)
        elif indented and len(blocks) > 1 and blocks[-1] is None and blocks[-2] \
                and blocks[-2][0].startswith("    ") and line.startswith("    "):
            blocks.pop()
            blocks[-1] += ["", line]  # a literal block that contains an empty line
        else:
            blocks.append([line])
    return [block for block in blocks if block]


def indent_of(line):
    return len(line) - len(line.lstrip())


def is_item(line):
    return bool(re.match(r"\s+([-*]|\(\w+\)) ", line))


def definitions(block):
    """Returns [(term, text)] for a block of two columns whose second column has wrapped text, and [] for other
    blocks."""
    found, column = [], None
    for line in block:
        row = re.fullmatch(r"( {1,3}\S+(?: \S+)* {2,})(\S+(?: \S+)*)", line)
        if row and column in (None, len(row.group(1))):
            column = len(row.group(1))
            found.append((row.group(1).strip(), row.group(2)))
        elif found and indent_of(line) == column and not re.search(r"\S  +\S", line):
            found[-1] = found[-1][0], f"{found[-1][1]} {line.strip()}"
        else:
            return []
    return found if len(found) < len(block) else []


def items(block, start):
    found = []
    for line in block:
        if re.match(start, line):
            found.append(line)
        else:
            found[-1] += " " + line.strip()
    return found


def split_tags(text):
    """Returns [("", text before), ("Errors", text), ...] in the order in which the tags occur."""
    word = r"(?:[Ee]rrors|[Tt]hread safety|[Cc]ost|[Mm]emory)"
    found = re.split(rf"(?:^|(?<=[.;)]) )({word}(?:(?:,| and) {word})*): ", text)
    return [("", found[0].strip()), *zip(found[1::2], (part.strip() for part in found[2::2]))]


def write_functions(page, header):
    """Writes the sections that document functions: the names, declarations and comment of each group."""
    section = None
    for group in header.groups:
        if not group.functions:
            continue
        if section != group.section:
            section = group.section
            page.add(f".Sh FUNCTIONS: {section.upper()}" if section else ".Sh FUNCTIONS")
        page.add(".Ss " + " , ".join(f.name for f in group.functions))
        page.add(".Bd -literal")
        for function in group.functions:
            page.add(*function.lines())
        page.add(".Ed", ".Pp")
        page.parameters = {p for f in group.functions for p in f.parameters()}
        page.prose(group.comment, tags=True)
        for function in group.functions:
            if function.note:
                page.add(".Pp", f"\\fB{function.name}\\fR():")
                page.text(function.note)
    page.parameters = set()


def write_types(page, header):
    first = True
    for group in header.groups:
        if not group.types:
            continue
        if first:
            page.add(".Sh TYPES AND CONSTANTS")
        elif group.comment and not group.functions:
            page.add(".Pp")
        first = False
        if group.comment and not group.functions:
            page.prose(group.comment)
        page.add(".Bd -literal -offset indent")
        for lines in group.types:
            page.add(*map(code, lines))
        page.add(".Ed")


def write_see_also(page, names):
    page.add(".Sh SEE ALSO")
    names = sorted(set(names))
    page.add(*(f".Xr {name} 3" + (" ," if name != names[-1] else "") for name in names))


def header_page(header, headers, date):
    page = Page(headers)
    page.add(".Sh NAME", f".Nm {header.page}", ".Nd " + page.inline(header.title).replace('"', "\\(dq"))
    page.add(".Sh SYNOPSIS", f".In bloomgate/{header.name}")
    index = {}
    for group in header.groups:
        if group.functions:
            index.setdefault(group.section, []).extend(f.name for f in group.functions)
    for section, names in index.items():
        page.add(".Pp")
        if section:
            page.text(section + ":")
        page.add(*textwrap.wrap(", ".join(rf"\fB{name}\fR()" for name in names), WIDTH))
    page.add(".Sh DESCRIPTION")
    page.prose(header.prose or [header.title[0].upper() + header.title[1:] + "."])
    write_functions(page, header)
    write_types(page, header)
    by_name = {other.name: other.page for other in headers}
    write_see_also(page, ["libbloomgate", *(by_name[name] for name in header.includes if name in by_name)])
    return page.page(header.page, date)


def overview_page(header, headers, date):
    """Returns libbloomgate.3: the prose from bloomgate.h, the headers by group, the environment, and an example."""
    page = Page(headers)
    by_name = {other.name: other for other in headers}
    page.add(".Sh NAME", ".Nm libbloomgate", ".Nd " + page.inline(header.title).replace('"', "\\(dq"), ".Sh SYNOPSIS",
             ".In bloomgate/bloomgate.h", ".Pp", ".Dl cc prog.c $(pkg\\-config \\-\\-cflags \\-\\-libs libbloomgate)",
             ".Sh DESCRIPTION")
    page.prose(header.prose)
    page.add(".Sh HEADERS")
    listed = set(TIERS)
    for tier, title in TIERS.items():
        page.text(title)
        page.add(".Bl -tag -width Ds")
        for name in (name for name in by_name[tier].includes if name not in listed):
            listed.add(name)
            other = by_name[name]
            page.add(f".It In bloomgate/{name}")
            page.text(f"{other.title[0].upper()}{other.title[1:].rstrip('?')}; see `{other.page}`(3)")
        page.add(".El", ".Pp")
    page.out.pop()
    variables = sorted({(name, other.page) for other in headers
                        for name in re.findall(r"\b(BLOOMGATE_[A-Z]+)=", other.text)})
    if variables:
        page.add(".Sh ENVIRONMENT", ".Bl -tag -width Ds")
        for name, where in variables:
            page.add(f".It Ev {name}", "See", f".Xr {where} 3 .")
        page.add(".El")
    example = next((block for block in paragraphs(by_name["filter.h"].prose) if block[0].startswith("    ")), None)
    if example:
        page.add(".Sh EXAMPLES")
        page.literal(example)
    write_see_also(page, [other.page for other in headers if other is not header])
    return page.page("libbloomgate", date)


def release_date():
    """Returns the release date of this version from the changelog, or "" before the release."""
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        version = re.escape(f.readline().strip())
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as f:
        found = re.search(rf"^## \[?{version}\]? - (\d+)-(\d+)-(\d+)", f.read(), re.M)
    months = ("January February March April May June July August September October November December").split()
    return f"{months[int(found[2]) - 1]} {int(found[3])}, {found[1]}" if found else ""


def read_headers():
    paths = sorted(glob.glob(f"{HEADERS}/*.h") + glob.glob(f"{HEADERS}/*.h.in"))
    headers = [Header(path) for path in paths if os.path.basename(path) not in NO_PAGE]
    undocumented = [problem for header in headers for problem in header.undocumented]
    if undocumented:
        raise HeaderError("\n".join(undocumented))
    seen = {}
    for header in headers:
        for function in header.functions():
            if function.name in seen:
                raise HeaderError(f"{header.name}: {function.name} is also declared in {seen[function.name]}")
            seen[function.name] = header.name
    return headers


def pages():
    """Returns the text of every page, by file name."""
    headers, date, made = read_headers(), release_date(), {}
    for header in headers:
        write = overview_page if header.page == "libbloomgate" else header_page
        made[header.page + ".3"] = write(header, headers, date)
    for header in headers:
        for function in header.functions():
            made.setdefault(function.name + ".3", f".so man3/{header.page}.3\n")
    return made


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        made = pages()
    except HeaderError as error:
        sys.exit(f"gen_man.py: the man pages cannot be generated:\n{error}")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for stale in set(os.path.basename(path) for path in glob.glob(f"{folder}/*.3")) - set(made):
        os.remove(os.path.join(folder, stale))
    for name, text in made.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
