#!/usr/bin/env python3
"""Checks the rules, alerts, dashboard and documents against the table of metrics in the code, which the program
METRICS_SAMPLE prints:
  - Every metric name, label and label value in the rules, the dashboard and the documents is in the table.
  - Every metric is in docs/metrics.md.
  - Every alert has tests in which it fires and tests in which it does not, and a section in
    docs/runbook.md.
The service's metrics are read from a separate list in docs/metrics.md, which
tests/server/test_prometheus.py compares with a running service. Prints every violation, and exits with status 1 if
there is one.
usage: check_ops.py METRICS_SAMPLE [--update]      --update: write the list in docs/metrics.md"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RULES = ["ops/prometheus/bloomgate.rules.yml", "ops/prometheus/bloomgated.rules.yml"]
DASHBOARD, METRICS, RUNBOOK = "ops/grafana/bloomgate.json", "docs/metrics.md", "docs/runbook.md"
MARKS = "<!-- metrics -->\n", "<!-- /metrics -->"
SERVICE = "<!-- service -->\n", "<!-- /service -->"
SCRAPED = {"job", "instance", "alertname"}  # labels that Prometheus adds
# Metrics with these prefixes have the label "filter".
FILTERED = ("bloomgate_filter_", "bloomgate_gate_", "bloomgate_tenant_", "bloomgate_front_")
GROUPS = [("bloomgate_filter", "Slots"), ("bloomgate_gate", "Gates"), ("bloomgate_tenant", "Tenants"),
          ("bloomgate_registry", "Registries"), ("bloomgate_", "The process")]

breaches = []


def breach(path, text):
    breaches.append(f"{path}: {text}")


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            return f.read()
    except OSError as error:
        breach(path, error.strerror)
        return ""


def metrics(program):
    """Returns the table as {name: (type, unit, help, {label: values})}."""
    made = subprocess.run([program, "made", "json"], check=True, stdout=subprocess.PIPE).stdout
    table = {}
    for name, family in json.loads(made)["metrics"].items():
        labels = {}
        for sample in family["samples"]:
            for label, value in sample["labels"].items():
                labels.setdefault(label, []).append(value)
        table[name] = family["type"], family["unit"], family["help"], labels
    return table


def service_metrics():
    """Returns a table of the service's metrics in the same format, from the list in docs/metrics.md."""
    text = read(METRICS)
    if SERVICE[0] not in text or SERVICE[1] not in text:
        breach(METRICS, "missing markers: " + " ".join(mark.strip() for mark in SERVICE))
        return {}
    table = {}
    for line in text[text.index(SERVICE[0]):text.index(SERVICE[1])].splitlines():
        entry_of = re.fullmatch(r"- `(bloomgate_\w+)`(?: \(([^)]*)\))?: (.+)", line)
        if entry_of:
            name, details, meaning = entry_of.groups(default="")
            labels = {"filter": []} if name.startswith(FILTERED) else {}
            labels.update({label: values.split(", ") for label, values in re.findall(r"`(\w+)`: ([\w, ]+)", details)})
            kind = "histogram" if details.startswith("histogram") else ""
            table[name] = kind, "", meaning, labels
            if kind:  # the series that Prometheus stores for a histogram
                table.update({name + part: (kind, "", meaning, {**labels, "le": []}) for part in ("_bucket", "_sum", "_count")})
    return table


# ---- Names in queries --------------------------------------------------------------------


def check_matchers(path, name, kind, labels, text):
    for label, how, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', text):
        if label not in labels and label not in SCRAPED:
            breach(path, f"{name} has no label {label}")
        elif how == "=" and label not in {"filter"} | SCRAPED and kind != "info" and value not in labels[label]:
            breach(path, f'{name} has no {label}="{value}"')


def check_names(path, text, table):
    """Checks every metric in a text and its labels. Names with a colon must be names of recording rules."""
    recorded = set(re.findall(r"- record: (\S+)", "".join(map(read, RULES))))
    known = SCRAPED.union(*(labels for *_, labels in table.values()))
    for name, braces in re.findall(r"(?<![\w:/.-])([\w:]*bloomgate_[\w:]*\w)(?:\{([^}]*)\})?", text):
        if ":" in name:
            if name not in recorded:
                breach(path, f"{name} is not recorded in {' or '.join(RULES)}")
        elif name in table:
            check_matchers(path, name, table[name][0], table[name][3], braces)
        else:
            breach(path, f"unknown metric {name}")
    for labels in re.findall(r"\b(?:by|without) \(([^)]*)\)", text):
        for label in re.findall(r"\w+", labels):
            if label not in known:
                breach(path, f"unknown label {label}")


# ---- Alerts --------------------------------------------------------------------------------


def check_alert(path, name, text, tests, runbook):
    for word in ["expr:", "summary:", "description:"]:
        if word not in text:
            breach(path, f"{name} has no {word}")
    if not re.search(r"severity: (page|warning)\b", text):
        breach(path, f"{name} does not have the severity page or warning")
    if f"runbook: {RUNBOOK}#{name.lower()}\n" not in text:
        breach(path, f"{name} does not link to its section in {RUNBOOK}")
    if f"\n## {name}\n" not in runbook:
        breach(RUNBOOK, f"section {name} is missing")
    outcomes = re.findall(rf"alertname: {name}\n\s*exp_alerts:( \[\])?\n", tests)
    if "" not in outcomes or " []" not in outcomes:
        breach(tests_of(path), f"{name} needs a test in which it fires and a test in which it does not")


def tests_of(path):
    return path.replace(".rules.", ".test.")


def check_alerts():
    runbook, names, tested = read(RUNBOOK), set(), ""
    for path in RULES:
        rules, tests = read(path), read(tests_of(path))
        alerts = re.findall(r"- alert: (\w+)\n(.*?)(?=\n\s*- alert:|\n  - name:|\Z)", rules, re.S)
        for name, text in alerts:
            check_alert(path, name, text.rstrip() + "\n", tests, runbook)
        names |= {name for name, _ in alerts}
        tested += tests
    for name in set(re.findall(r"\bBloomgate[A-Z]\w+", tested + runbook)) - names:
        breach(RUNBOOK, f"unknown alert {name}")
    return len(names)


# ---- The dashboard -------------------------------------------------------------------------


def check_places(panels):
    """Checks that no two panels overlap or have the same ID."""
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if taken.setdefault((x, y), panel["title"]) != panel["title"]:
                    breach(DASHBOARD, f"{panel['title']} overlaps {taken[x, y]}")
                    return
        if place["x"] + place["w"] > 24:
            breach(DASHBOARD, f"{panel['title']} extends beyond the right edge")
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        breach(DASHBOARD, "two panels have the same id")


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def check_dashboard(table):
    try:
        board = json.loads(read(DASHBOARD))
    except ValueError as error:
        breach(DASHBOARD, f"not valid JSON: {error}")
        return
    check_places(board["panels"])
    for text in strings(board):
        check_names(DASHBOARD, text, table)


# ---- Documents -----------------------------------------------------------------------------


def entry(name, kind, text, labels):
    """Returns the list item for a metric in docs/metrics.md. The item states the type only for histograms; for other
    metrics, the name shows the type and unit."""
    if ("filter" in labels) != name.startswith(FILTERED):
        breach(METRICS, f"{name} must have the label filter if and only if its name begins with {', '.join(FILTERED)}")
    named = "counter" if name.endswith("_total") else "info" if name.endswith("_info") else "gauge"
    if kind not in (named, "histogram"):
        breach(METRICS, f"{name} is a {kind}, but has the name of a {named}")
    others = {label: values for label, values in labels.items() if label != "filter"}
    details = ["histogram"] if kind == "histogram" else []
    if kind == "info":
        details.append(", ".join(f"`{label}`" for label in others))
    else:
        details += [f"`{label}`" + (f": {', '.join(values)}" if values else "") for label, values in others.items()]
    return f"- `{name}`" + (f" ({'; '.join(details)})" if details else "") + f": {text}\n"


def document(table):
    text, left = "", dict(table)
    for prefix, title in GROUPS:
        names = [name for name in left if name.startswith(prefix)]
        text += f"\n### {title}\n\n"
        for name in names:
            kind, _, meaning, labels = left.pop(name)
            text += entry(name, kind, meaning, labels)
    return MARKS[0] + text + "\n" + MARKS[1]


def check_documents(table, update):
    text, wanted = read(METRICS), document(table)
    if MARKS[0] not in text or MARKS[1] not in text:
        breach(METRICS, "missing markers: " + " ".join(mark.strip() for mark in MARKS))
        return
    begin, end = text.index(MARKS[0]), text.index(MARKS[1]) + len(MARKS[1])
    if update:
        text = text[:begin] + wanted + text[end:]
        with open(os.path.join(ROOT, METRICS), "w", encoding="utf-8") as f:
            f.write(text)
    elif text[begin:end] != wanted:
        breach(METRICS, "the list differs from the table in the code; run tools/check_ops.py METRICS_SAMPLE --update")
    both = {**table, **service_metrics()}
    check_names(METRICS, text[:begin] + text[end:], both)
    check_names(RUNBOOK, read(RUNBOOK), both)


def main():
    table = metrics(sys.argv[1])
    check_documents(table, sys.argv[2:] == ["--update"])
    table.update(service_metrics())
    for path in RULES:
        check_names(path, read(path), table)
        check_names(tests_of(path), read(tests_of(path)), table)
    check_dashboard(table)
    alerts = check_alerts()
    print("\n".join(breaches) if breaches else f"ops: {len(table)} metrics, {alerts} alerts, no violations")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
