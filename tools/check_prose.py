#!/usr/bin/env python3
"""Checks that the prose of the project is plain technical American English.

The table RULES below lists words and phrases that this project does not use, each with what to write
instead. They are searched for in all prose (tools/prose_text.py): Markdown and man pages outside of
code blocks, comments, and string literals that look like text. Inline code in backticks,
identifiers, paths, options and URLs are ignored.

A rule must need almost no exceptions. To allow a phrase in some files, add a line to
tools/prose_allow.txt: a path pattern, the phrase exactly as in the text, and the reason, separated
by " | ". An unused line is an error.

usage: check_prose.py [PATH...]            print the findings (default: in all files)
       check_prose.py --summary [PATH...]  count the findings by directory and by rule
       check_prose.py --self-test          only check the rules with SENTENCES, as every run does"""

import bisect
import collections
import fnmatch
import os
import re
import sys

import prose_text

ALLOW = os.path.join(prose_text.ROOT, "tools/prose_allow.txt")
EVERYWHERE, DOCS, STRINGS = {"doc", "comment", "string"}, {"doc"}, {"string"}

THING = r"(?:filters?|slots?|keys?|gates?|memory|bits?|base|deltas?|canar(?:y|ies)|stores?|databases?|kernel|system|" \
        r"planner|windows?|generations|shards?|nodes?|registry|caches?|layers?|lists?|lines?|tables?|disk|server)"
DETERMINER = r"(?:an?|the|every|each|its|that|this|both|all|one|these|those|their|any|no|another|other)"

# (name, regular expression, where, what to write). Case is ignored, except in rules with capitals.
RULES = [
    ("look-up", r"\blook-ups?\b", EVERYWHERE, "lookup"),
    ("ask", rf"\bask(?:s|ed|ing)? (?:{DETERMINER} )?(?:(?!for\b|about\b)\w+ )?{THING}\b", EVERYWHERE, "query, look up, request"),
    ("ask for", r"\bask(?:s|ed|ing)? (?:for|about) (?:\w+ ){0,2}(?:keys?|memory|pages?)\b", EVERYWHERE, "query, look up; prefetch; request"),
    ("is asked", r"\b(?:is|are|was|were|be|been|being|not) asked\b(?! (?:for (?:a|the|his|her|its) (?:password|name)|to\b))",
     EVERYWHERE, "is queried"),
    ("for ever", r"\bfor ever\b", EVERYWHERE, "permanently, always"),
    ("anew", r"\banew\b", EVERYWHERE, "again; rebuild, reload, re-create"),
    ("in vain", r"\bin vain\b", EVERYWHERE, "unnecessary, wasted"),
    ("whoever", r"\b(?:whoever|whosoever|nobody|somebody|anybody|everybody|strangers?)\b", EVERYWHERE,
     "the caller, the client, an attacker; no other thread"),
    ("he", r"\b(?:[Hh]e|[Hh]im|[Hh]imself|[Hh]is)\b", EVERYWHERE, "it, its, they, the caller"),
    ("who", r"(?:^|[.:;!?] )Who\b(?![^.\n]*\?)", EVERYWHERE, "the caller, clients that"),
    ("who asks", r"\b(?:for|of|by|from|than|to) who\b|\bwho asks\b", EVERYWHERE, "the caller, the client"),
    ("gone", r"\bgone\b", EVERYWHERE, "lost, deleted, missing, closed"),
    ("beside", r"\bbeside\b", EVERYWHERE, "alongside, next to, in addition to, compared with"),
    ("behind", r"\bbehind (?:the |its |their )?(?:last|first|end|name|number|metadata|colon|comma|slash|header|value|word|"
     r"line|option|digits?|frame|dash|key)\b|\bbehind an? [-=:]", EVERYWHERE, "after"),
    ("so many", r"\bso (?:many|often|long)\b(?!,? (?:that|as)\b)(?![^.\n]{0,60}\bthat\b)", EVERYWHERE,
     "this many, up to N; at this interval; for this long"),
    ("as many as", r"(?<!twice )\bas many as (?:there are )?(?:processors|cores|cpus)\b", EVERYWHERE, "default: all cores"),
    ("said", r"\b(?:is|are|was|were|be|been|being|not) said\b|\bunsaid\b|\bas said\b", EVERYWHERE,
     "specified, reported; default"),
    ("truth", r"(?<!source of )(?<!ground )\btruths?\b(?! table)", EVERYWHERE, "backing store"),
    ("begin", r"\bbegin of\b|\b(?:the|at) begin\b(?! and)", EVERYWHERE, "start, beginning, startup"),
    ("of ours", r"\bof (?:ours|yours|theirs|mine|hers)\b|\bof the (?:caller|user|client|owner|system|program)'s(?=[.,;:)]|$)",
     EVERYWHERE, "our, your, user-defined; of the caller"),
    ("folder", r"\b(?:sub)?folders?\b", EVERYWHERE, "directory"),
    ("but for", r"\b(?:all |none |nothing |false |no )?but for\b(?! (?:the )?(?:sake|example))", EVERYWHERE, "except for"),
    ("tell", r"\b(?:is|are|was|were|be|been|being|not) told\b(?! apart)|\btells\b(?! (?:\w+ ){1,3}(?:apart|from)\b)", EVERYWHERE, "reports, returns, shows, prints"),
    ("says", r"\bsays\b", EVERYWHERE, "returns, reports, states, shows, means"),
    ("moment", r"\bof some moment\b", EVERYWHERE, "a snapshot"),
    ("percent", r"\d %(?=$|[\s.,;:)\"'%])(?! \d)|%(?:\.\d)?[dfgu] %%", EVERYWHERE, "no space before %"),
    ("contain", r"\bfilters? (?:that )?contains?\b(?! (?:a|an|no|the|its|at|all|about|\d)\b)|\bmay be contained\b|"
     r"\bis contained in (?:the|a) filter\b", EVERYWHERE, "may contain"),
    ("sense of", r"\bmakes? sense of\b", EVERYWHERE, "interpret, parse"),
    ("rooms", r"\brooms\b|\b(?:a|the|this|each|every|which|that) room (?:of|in|may|has|is|comes|before)\b", EVERYWHERE, "directory"),
    ("rawest", r"\brawest\b", EVERYWHERE, "lowest-level"),
    ("processors", r"\b(?:many|per|number of|all|some|one|two|four|eight|\d+) processors?\b|\bprocessor times?\b", EVERYWHERE, "CPU, core"),
    ("the system", r"\bthe system(?!'?s? (?:\w+ )?(?:catalogs?|calls?|clocks?|time|journal|allocator|librar\w+|resolver|"
     r"administrator|certificates?|tables?|headers?|under test)\b)\b", EVERYWHERE, "the OS, the kernel"),
    ("usual", r"\ball usual\b|\bthe usual (?:ones?|values?)\b", EVERYWHERE, "default"),
    ("comes of it", r"\bcomes? of it\b", EVERYWHERE, "even on failure"),
    ("as far as", r"\bas far as\b(?! (?:possible|we|i|the \w+ knows|\w+ (?:is|are) concerned)\b)", EVERYWHERE,
     "if, where, up to; to the extent that"),
    ("takes adds", r"\b(?:takes?|taking|took|taken) (?:no |the )?adds\b", EVERYWHERE, "accepts adds"),
    ("that much memory", r"\bthat much (?:free )?memory\b", EVERYWHERE, "cannot allocate N bytes"),
    ("for want of", r"\bfor want of\b", EVERYWHERE, "for lack of, because there is no"),
    ("to be had", r"\bto be had\b", EVERYWHERE, "available"),
    ("see to it", r"\bsees? to it\b", EVERYWHERE, "ensure"),
    ("namesake", r"\bnamesakes?\b", EVERYWHERE, "with the same name"),
    ("let go", r"\blets? go\b", EVERYWHERE, "release, unlock"),
    ("in no time", r"\bin no time\b|\btakes? no time\b", EVERYWHERE, "in constant time, at once"),
    ("knows of itself", r"\bknows? of (?:itself|themselves)\b", EVERYWHERE, "statistics, state"),
    ("wrong maybes", r"\bwrong maybes?\b", EVERYWHERE, "false positives"),
    ("rate of false positives", r"\brates? of false positives\b", EVERYWHERE, "false-positive rate"),
    ("inside of", r"\binside of\b", EVERYWHERE, "inside"),
    ("American", r"\b(?:(?:mis)?behaviours?|neighbour\w*|colour\w*|honour\w*|favour\w*|catalogues?|cancell(?:ed|ing)|grey\w*|"
     r"licences?|centres?|centred|analys(?:e|ed|es|ing)|(?:un)?modell(?:ed|ing)|(?:un)?labell(?:ed|ing)|travell\w+|"
     r"signall(?:ed|ing)|artefacts?|defences?|judgements?|programmes?|whilst|amongst|learnt|spelt|metres?|"
     r"(?:un|de|re)?(?:initial|random|recogn|optim|serial|normal|organ|summar|minim|maxim|character|author|synchron|custom|"
     r"general|material|special|standard|util|visual|priorit|token|parallel|vector|final|equal|real|categor|emphas|penal|"
     r"sanit|symbol|local|canonical|central|stabil|capital|anonym|digit|item|memor|modern)is(?:e|ed|es|er|ers|ing|ations?))\b",
     EVERYWHERE, "American spelling"),
]

# Sentences with the rule that must find something in them, or None.
SENTENCES = [
    ("A look-up reads one cache line.", "look-up"),
    ("A lookup reads one cache line.", None),
    ("Ask the filter first.", "ask"),
    ("The client asks another node.", "ask"),
    ("It asked for memory early.", "ask for"),
    ("Ask your administrator.", None),
    ("The store is asked only if needed.", "is asked"),
    ("The user is asked for a password.", None),
    ("The bit stays set for ever.", "for ever"),
    ("Whether forever is long enough.", None),
    ("The filter is built anew.", "anew"),
    ("It is a new filter.", None),
    ("90% of the reads were in vain.", "in vain"),
    ("Whoever opens the file finds it.", "whoever"),
    ("Keys that strangers choose.", "whoever"),
    ("No other thread may use it.", None),
    ("The caller frees it himself.", "he"),
    ("The header is hers, the history is this.", None),
    ("Who is over it gets an error.", "who"),
    ("Who is this page for? Operators.", None),
    ("Operators who run several nodes.", None),
    ("It is there for who wants it.", "who asks"),
    ("The old file is gone.", "gone"),
    ("It runs beside the server.", "beside"),
    ("Besides, it is fast.", None),
    ("What follows behind the last frame is cut off.", "behind"),
    ("It runs behind a proxy.", None),
    ("Disconnects clients that send nothing for so long.", "so many"),
    ("There were so many keys that it overflowed.", None),
    ("Threads: as many as processors.", "as many as"),
    ("The size may be given, if not said.", "said"),
    ("Writes go to the truth first.", "truth"),
    ("The database is the source of truth.", None),
    ("The begin of a dump.", "begin"),
    ("Begin with BG_SPEC_INIT.", None),
    ("A filter of ours.", "of ours"),
    ("The file is in its folder.", "folder"),
    ("The variable `folder` and bg_folder_open.", None),
    ("False, but for 1 key in 100.", "but for"),
    ("The caller is told why.", "tell"),
    ("It cannot tell whether the key was added.", None),
    ("The filter says no.", "says"),
    ("The answer is of some moment.", "moment"),
    ("A rate of 1 % is enough.", "percent"),
    ("A rate of 1% is enough.", None),
    ("Bit i % 64 of word i / 64.", None),
    ("If the filter contains it.", "contain"),
    ("The filter may contain the key.", None),
    ("A room of src/ may use the rooms before it.", "rooms"),
    ("There is room for 100 keys.", None),
    ("One lock per processor.", "processors"),
    ("Needs a processor with AES.", None),
    ("When the system writes it.", "the system"),
    ("The file system is full.", None),
    ("It is freed whatever comes of it.", "comes of it"),
    ("The rate of false positives rises.", "rate of false positives"),
    ("Inside of Redis.", "inside of"),
    ("Undefined behaviour.", "American"),
    ("It was cancelled and reinitialised.", "American"),
    ("Otherwise, emphasis, organisms and promises are analyses.", "American"),
    ("Otherwise, emphasis and promises.", None),
    ("It makes sense of the header.", "sense of"),
    ("The rawest layer.", "rawest"),
    ("NULL: all usual.", "usual"),
    ("One wrong maybe in a hundred.", "wrong maybes"),
    ("It is cleared as far as it was set.", "as far as"),
    ("As far as possible.", None),
    ("The base takes no adds.", "takes adds"),
    ("Expected that much free memory.", "that much memory"),
    ("Failed for want of space.", "for want of"),
    ("It is not to be had here.", "to be had"),
    ("The loader sees to it.", "see to it"),
    ("The file of a namesake.", "namesake"),
    ("Unpin lets go of it.", "let go"),
    ("It is done in no time.", "in no time"),
    ("What a slot knows of itself.", "knows of itself"),
    ("The system clock, the system's clock, the file system.", None),
    ("These keys cannot be told apart.", None),
    ('It returns "gone" or "told" in {folder}.', None),
    ("Run `look-up` in tests/look-up.t with --ask-for-keys.", None),
]

COMPILED = [(name, re.compile(pattern, re.M), bool(re.search("[A-Z]", pattern)), scopes, advice) for name, pattern, scopes, advice in RULES]
NO_PROSE = re.compile(
    r"`[^`]*`"                                  # inline code
    r"|\b[a-z]+://\S+"                          # addresses
    r"|(?<!\w)--?[a-z][\w-]*"                   # options
    r"|[\w.$-]*[_/\\][\w./$\\-]*"               # identifiers and paths
    r"|\b\w+\.(?:c|h|cc|py|md|js|sh|t|sql|conf|yml|yaml|json|html|css|txt|svg|scd|db)\b"
    r"|\b[a-z]+[A-Z]\w*|\b\w+\(\)|\b[\w-]+(?==)"
    r"|<[^<>]+>|\{[^{}]*\}|\"[a-z]+\"")              # placeholders, and values in quotes


def masked(text):
    """Replaces every character of code, identifiers and so on; offsets stay the same."""
    return NO_PROSE.sub(lambda m: "\u00a4" * len(m.group()), text)


def matches(text):
    """Yields (rule, match, scopes, advice) of a text in which each line is one piece."""
    hidden = masked(text)
    lower = hidden.lower()
    for name, pattern, cased, scopes, advice in COMPILED:
        for match in pattern.finditer(hidden if cased else lower):
            yield name, match, scopes, advice


class Allowed:
    """One line of prose_allow.txt."""

    def __init__(self, number, line):
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts):
            sys.exit(f"tools/prose_allow.txt:{number}: expected PATHS | PHRASE | REASON")
        self.number, (self.paths, self.phrase, self.reason) = number, parts
        self.used = False

    def allows(self, path, text, match):
        if not fnmatch.fnmatch(path, self.paths):
            return False
        for place in re.finditer(re.escape(self.phrase), text, re.I):
            if place.start() <= match.start() and match.end() <= place.end():
                self.used = True
                return True
        return False


def allowed():
    with open(ALLOW, encoding="utf-8") as f:
        return [Allowed(number, line) for number, line in enumerate(f, 1)
                if line.strip() and not line.startswith("#")]


def findings(paths):
    """Returns (path, line, rule, advice, phrase, context) of each finding, and the unused exceptions."""
    exceptions, found = allowed(), []
    for path, text in prose_text.files():
        if paths and not any(path == p or path.startswith(p.rstrip("/") + "/") for p in paths):
            continue
        pieces = prose_text.pieces(path, text)
        texts = [piece.text() for piece in pieces]  # all pieces of a file are searched at once, one per line
        starts, whole = [], ""
        for words, _ in texts:
            starts.append(len(whole))
            whole += re.sub(r"\s", " ", words) + "\n"
        for name, match, scopes, advice in matches(whole):
            at = bisect.bisect_right(starts, match.start()) - 1
            if pieces[at].scope in scopes and not any(e.allows(path, whole, match) for e in exceptions):
                start, end = match.start(), match.end()
                context = whole[max(starts[at], start - 30):end + 30].split("\n")[0].strip()
                found.append((path, texts[at][1](start - starts[at]), name, advice, whole[start:end], context))
    found.sort(key=lambda f: f[:2])
    unused = [] if paths else [e for e in exceptions if not e.used]
    return found, unused


def summary(found):
    directories, rules = collections.Counter(), collections.Counter()
    table = collections.defaultdict(collections.Counter)
    for path, _, name, *_ in found:
        directory = path.split("/")[0] if "/" in path else "(root)"
        directories[directory] += 1
        rules[name] += 1
        table[directory][name] += 1
    for directory, count in directories.most_common():
        print(f"{count:6}  {directory:<12} {', '.join(f'{n} {c}' for n, c in table[directory].most_common(6))}")
    print()
    for name, count in rules.most_common():
        print(f"{count:6}  {name}")
    print(f"{len(found):6}  in all")


def self_test():
    """Returns how many sentences do not violate exactly their rule, and how many rules have no sentence."""
    wrong = 0
    for sentence, expected in SENTENCES:
        names = {name for name, *_ in matches(sentence)}
        if names != ({expected} if expected else set()):
            wrong += 1
            print(f"{sentence!r}: found {sorted(names)}, expected {expected}")
    for name, *_ in RULES:
        if name not in {expected for _, expected in SENTENCES}:
            wrong += 1
            print(f"no sentence for the rule {name!r}")
    return wrong


def main():
    arguments = sys.argv[1:]
    wrong = self_test()
    if arguments == ["--self-test"]:
        print(f"{len(SENTENCES)} sentences, {wrong} wrong")
        return 1 if wrong else 0
    paths = [a for a in arguments if a != "--summary"]
    if any(p.startswith("-") for p in paths):
        sys.exit(__doc__)
    found, unused = findings(paths)
    if "--summary" in arguments:
        summary(found)
        return 0
    for path, line, name, advice, phrase, context in found:
        print(f"{path}:{line}: {phrase} -> {advice} [{name}]: ...{context}...")
    for entry in unused:
        print(f"tools/prose_allow.txt:{entry.number}: {entry.phrase!r} is unused; remove the line")
    print(f"prose: {len(found)} findings, {len(unused)} unused exceptions, {wrong} wrong rules")
    return 1 if found or unused or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
