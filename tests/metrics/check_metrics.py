#!/usr/bin/python3
"""Checks the output of metrics_sample. promtool must accept it, and the parsers of the Prometheus client library must
find the same samples as a strict JSON parser. Runs with Debian's Python interpreter, because the client library is a
Debian package.
usage: check_metrics.py METRICS_SAMPLE"""

import json
import math
import subprocess
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

TYPES = {"counter": "counter", "gauge": "gauge", "info": "gauge"}


def document(program, what, form):
    return subprocess.run([program, what, form], check=True, stdout=subprocess.PIPE).stdout.decode("utf-8")


def promtool(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode or done.stdout:
        sys.exit(f"promtool check metrics: {done.stdout}")


def no_duplicates(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        sys.exit(f"JSON: a name occurs twice in {names}")
    return dict(pairs)


def no_constants(text):
    sys.exit(f"JSON: {text} is not a valid number")


def from_json(text):
    """Returns {(name, labels): value} for the samples, and {name: (type, unit, help)} for the families."""
    made = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    if made["schema"] != "bloomgate-metrics-1":
        sys.exit(f"JSON: unexpected schema {made['schema']}")
    samples = {(name, frozenset(s["labels"].items())): math.nan if s["value"] is None else float(s["value"])
               for name, family in made["metrics"].items() for s in family["samples"]}
    return samples, {name: (family["type"], family["unit"], family["help"])
                     for name, family in made["metrics"].items()}


def from_text(families, about, form):
    """Returns {(name, labels): value} for a parser's results. `about` describes the expected families."""
    samples = {}
    seen = set()
    for family in families:
        names = {s.name for s in family.samples}
        if len(names) != 1 or names & seen:
            sys.exit(f"{form}: {family.name} has samples with the names {names}, or occurs more than once")
        seen |= names
        kind, unit, text = about[names.pop()]
        wanted = (TYPES[kind], "") if form == "prometheus" else (kind, unit)
        if (family.type, family.unit, family.documentation) != (*wanted, text):
            sys.exit(f"{form}: {family.name} has an unexpected type, unit or help text: {family.type}, {family.unit}, {family.documentation}")
        for s in family.samples:
            key = s.name, frozenset(s.labels.items())
            if key in samples:
                sys.exit(f"{form}: {key} occurs twice")
            samples[key] = float(s.value)
    return samples


def compare(form, found, wanted):
    if found.keys() != wanted.keys():
        sys.exit(f"{form} and JSON contain different samples: {found.keys() ^ wanted.keys()}")
    for key, value in found.items():
        if value != wanted[key] and not (not math.isfinite(value) and math.isnan(wanted[key])):
            sys.exit(f"{form}: {key} is {value}, but {wanted[key]} in JSON")


def main():
    program = sys.argv[1]
    for what in ["made", "real"]:
        plain = document(program, what, "prometheus")
        promtool(plain)
        wanted, about = from_json(document(program, what, "json"))
        if len(wanted) < len(about) or not about:
            sys.exit(f"{what}: expected a sample for every family, got {len(about)} families and {len(wanted)} samples")
        compare("prometheus", from_text(parser.text_string_to_metric_families(plain), about, "prometheus"), wanted)
        text = document(program, what, "openmetrics")
        compare("openmetrics", from_text(openmetrics.text_string_to_metric_families(text), about, "openmetrics"),
                wanted)
        print(f"{what}: {len(about)} families and {len(wanted)} samples are identical in three formats")


if __name__ == "__main__":
    main()
