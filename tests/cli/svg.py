#!/usr/bin/env python3
"""Reads an SVG file with charts that bloomgate created. Prints its title and, for each chart, the heading and
the number of lines or rows of bars. Fails if the file is not well-formed, or if any text extends beyond the edges of
the image.
usage: svg.py FILE.svg"""

import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def inside(root):
    """Exits with an error if any text extends beyond the edges of the image."""
    width, height = float(root.get("width")), float(root.get("height"))
    for text in root.iter(SVG + "text"):
        x, y, size = (float(text.get(name)) for name in ("x", "y", "font-size"))
        length = 0.62 * size * len(text.text)  # assume wide letters
        shift = {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        upright = not text.get("transform")
        left, right = (x - shift * length, x + (1 - shift) * length) if upright else (x - size, x)
        if left < 0 or right > width or y < 0 or y > height:
            sys.exit(f"this text extends beyond the edges of the image: {text.text}")


def main():
    root = tree.parse(sys.argv[1]).getroot()
    inside(root)
    print(root.find(SVG + "title").text)
    counts = {}
    heading = None
    for element in root:
        if element.tag == SVG + "text" and element.get("font-weight") == "bold":
            heading = element.text
        elif element.tag == SVG + "g" and element.get("class"):
            kind = (heading, element.get("class"))
            counts[kind] = counts.get(kind, 0) + 1
    for (heading, kind), n in counts.items():
        print(f"{heading}: {n} of class {kind}")
    names = [e.find(SVG + "title").text for e in root.iter(SVG + "g") if e.get("class") == "series"]
    if names:
        print(*sorted(set(names)))


main()
