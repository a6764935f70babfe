#!/usr/bin/env python3
"""Checks docs/charts: each SVG is identical to a new rendering of its JSON file, is well-formed XML, loads no external
resources, and shows the CPU, date and command of the measurement. docs/benchmarks.md must show every chart."""

import json
import os
import sys
import unittest
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import charts  # noqa: E402

FOLDER = os.path.join(ROOT, "docs", "charts")
TEXT = "{http://www.w3.org/2000/svg}text"


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="") as f:
        return f.read()


class Charts(unittest.TestCase):
    def test_files_are_those_of_the_charts(self):
        expected = {f"{name}.{ending}" for name in charts.CHARTS for ending in ("json", "svg")}
        self.assertEqual(set(os.listdir(FOLDER)), expected)

    def test_drawing_gives_the_same_bytes(self):
        for name in charts.CHARTS:
            with self.subTest(name):
                self.assertEqual(charts.render(name, FOLDER), read(f"{name}.svg"), "run make bench-charts")

    def test_each_names_cpu_date_and_command(self):
        for name in charts.CHARTS:
            with self.subTest(name):
                record = json.loads(read(f"{name}.json"))
                texts = list(ET.fromstring(read(f"{name}.svg")).iter(TEXT))
                footer = " ".join(t.text for t in texts if "small" in t.get("class") and "·" in t.text)
                self.assertIn(record["cpu"], footer)
                self.assertRegex(record["date"], r"^\d{4}-\d\d-\d\d$")
                self.assertIn(record["date"], footer)
                self.assertEqual(record["command"], " ".join(t.text for t in texts if "command" in t.get("class")))

    def test_commands_are_those_that_are_measured(self):
        for name, command in charts.COMMANDS.items():
            with self.subTest(name):
                shown = command.replace("BUILD", "build").replace("OUT", f"{name}.json")
                self.assertEqual(json.loads(read(f"{name}.json"))["command"], shown)

    def test_nothing_is_loaded_from_elsewhere(self):
        for name in charts.CHARTS:
            with self.subTest(name):
                text = read(f"{name}.svg").replace('xmlns="http://www.w3.org/2000/svg"', "")
                for needle in ("http:", "https:", "url(", "@import", "<script", "<image"):
                    self.assertNotIn(needle, text)

    def test_the_page_shows_every_chart(self):
        with open(os.path.join(ROOT, "docs", "benchmarks.md"), encoding="utf-8") as f:
            page = f.read()
        for name in charts.CHARTS:
            self.assertIn(f"(charts/{name}.svg)", page)


if __name__ == "__main__":
    unittest.main()
