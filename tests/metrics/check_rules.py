#!/usr/bin/env python3
"""Checks the files in ops/ with promtool: the rules are valid, their tests pass, and the dashboard queries are valid
PromQL."""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMETHEUS = os.path.join(ROOT, "ops/prometheus")
DASHBOARD = os.path.join(ROOT, "ops/grafana/bloomgate.json")


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"promtool {' '.join(arguments)}:\n{done.stdout}")


def queries():
    with open(DASHBOARD, encoding="utf-8") as f:
        board = json.load(f)
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for note in board["annotations"]["list"]:
        yield note["expr"]


def check_queries():
    """Checks the dashboard queries. promtool can check only rules, so each query is wrapped in a rule, and Grafana's
    variables are replaced with constants. Returns the number of queries."""
    rules = [{"record": f"panel:{i}", "expr": query.replace("$__rate_interval", "5m").replace("$__interval", "1m")}
             for i, query in enumerate(queries())]
    with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)  # JSON is valid YAML
        file.flush()
        promtool("check", "rules", file.name)
    return len(rules)


def main():
    promtool("check", "rules", "bloomgate.rules.yml", "bloomgated.rules.yml")
    promtool("test", "rules", "bloomgate.test.yml", "bloomgated.test.yml")
    print(f"the rules are valid and pass their tests; {check_queries()} dashboard queries are valid PromQL")


if __name__ == "__main__":
    main()
