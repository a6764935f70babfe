"""Draws line charts and bar charts as SVG, using only the standard library.

A chart is described by the data classes below; draw() converts a chart to text. The text depends only on the
description, so the same data always produces the same bytes. Charts have their own background and follow the
reader's preference for light or dark mode, even if a page embeds them with <img>."""

import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH = 860
MARGIN = 24
LINE = 16
TICKS = 34  # width of the labels next to a y axis
FOOTER_CHARS = 122  # characters per footer line, in the monospaced font

# Maps each color name to its values in light mode and in dark mode. The colors are used for text and lines.
COLORS = {
    "blue": ("#0969da", "#58a6ff"),
    "orange": ("#bc4c00", "#f0883e"),
    "green": ("#1a7f37", "#3fb950"),
    "purple": ("#8250df", "#bc8cff"),
    "red": ("#cf222e", "#ff7b72"),
    "teal": ("#0b7285", "#39c5cf"),
    "pink": ("#bf3989", "#f778ba"),
    "olive": ("#7d6a00", "#d4b73e"),
    "lime": ("#4d7c0f", "#a3c940"),
    "brown": ("#8a4b2a", "#d29b76"),
    "indigo": ("#4350c4", "#9aa5ff"),
    "gray": ("#656d76", "#8b949e"),
}
# Maps each part of the chart to a CSS property and the values of that property in light mode and in dark mode.
PARTS = {
    "card": ("fill", "#ffffff", "#0d1117"),
    "edge": ("stroke", "#d0d7de", "#30363d"),
    "grid": ("stroke", "#e7eaee", "#21262d"),
    "axis": ("stroke", "#8c959f", "#6e7681"),
    "strong": ("fill", "#1f2328", "#e6edf3"),
    "muted": ("fill", "#59636e", "#9198a1"),
}
FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"


@dataclass
class Axis:
    label: str  # if empty, the plot shares the axis of the plot to its left
    low: float
    high: float
    ticks: list  # (value, text) pairs
    log: bool = True

    def place(self, value, start, end):
        """Returns the coordinate of a value on an axis that runs from `start` to `end`."""
        f = math.log10 if self.log else float
        return start + (f(value) - f(self.low)) / (f(self.high) - f(self.low)) * (end - start)


@dataclass
class Series:
    name: str
    color: str
    points: list  # (x, y) pairs, from left to right
    note: str = ""
    style: str = ""  # "thick", "dashed" or neither


@dataclass
class Plot:
    """A pair of axes and the curves drawn on them."""
    x: Axis
    y: Axis
    series: list
    title: str = ""
    marks: list = field(default_factory=list)  # (x value, text) pairs for vertical lines
    labels: int = 150  # width of the labels on the right
    dots: bool = True


@dataclass
class Bar:
    name: str
    color: str
    value: float
    text: str


@dataclass
class Chart:
    """A chart with plots side by side, or with groups of bars. Each group is a (title, [Bar]) pair."""
    title: str
    subtitle: str
    machine: str
    date: str
    command: str
    plots: list = field(default_factory=list)
    groups: list = field(default_factory=list)
    height: int = 360  # height of the plots


def number(value):
    return f"{value:.1f}".removesuffix(".0")


def element(name, text=None, **attributes):
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{number(v) if isinstance(v, float) else escape(str(v))}"'
                    for key, v in attributes.items())
    return f"<{name}{pairs}/>" if text is None else f"<{name}{pairs}>{escape(text)}</{name}>"


def label(x, y, text, kind, anchor="start"):
    return element("text", text, x=float(x), y=float(y), class_=kind, text_anchor=anchor)


def segment(x1, y1, x2, y2, kind):
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=kind)


def style():
    """Returns the style sheet: light colors, then dark colors for readers who prefer them."""
    def rules(which):
        for name, (prop, *colors) in PARTS.items():
            yield f".{name}{{{prop}:{colors[which]}}}"
        for name, colors in COLORS.items():
            yield f".{name}{{stroke:{colors[which]};fill:{colors[which]}}}"
    base = [f"text{{font:12px {FONT};stroke:none!important}}", ".title{font-size:17px;font-weight:600}",
            ".name{font-weight:600}", ".small{font-size:11px}", f".command{{font:11px {MONO}}}",
            "path.line{fill:none;stroke-width:2;stroke-linejoin:round}", "path.thick{stroke-width:3.5}",
            "path.dashed{stroke-dasharray:6 4}", ".lead{stroke-width:1;stroke-opacity:.5}",
            ".mark{stroke-dasharray:2 4}"]
    light, dark = "".join([*rules(0), *base]), "".join(rules(1))
    return f"<style>{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"


def wrap(command, width=FOOTER_CHARS):
    """Wraps a command at spaces."""
    lines = [""]
    for word in command.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def header(chart):
    return [label(MARGIN, 36, chart.title, "title strong"), label(MARGIN, 57, chart.subtitle, "muted")]


def footer(chart, y):
    """Draws the CPU, the date and the command. Returns the elements and the y coordinate of the last line."""
    out = [label(MARGIN, y, f"{chart.machine} · {chart.date}", "small muted")]
    for line in wrap(chart.command):
        y += LINE
        out.append(label(MARGIN, y, line, "command muted"))
    return out, y


def spread(wanted, gap, low, high):
    """Moves labels so that they are at least `gap` apart, in the same order, and between `low` and `high`."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [min(max(wanted[i], low), high) for i in order]
    for _ in range(200):
        moved = False
        for i in range(len(placed) - 1):
            short = gap - (placed[i + 1] - placed[i])
            if short > 0.05:
                placed[i], placed[i + 1], moved = placed[i] - short / 2, placed[i + 1] + short / 2, True
        if placed:
            down = max(0, low - placed[0])
            up = max(0, placed[-1] - high)
            placed[0], placed[-1] = placed[0] + down, placed[-1] - up
        if not moved:
            break
    return {i: y for i, y in zip(order, placed)}


def axes(plot, left, top, right, bottom):
    out = []
    for value, text in plot.y.ticks:
        y = plot.y.place(value, bottom, top)
        out.append(segment(left, y, right, y, "grid"))
        if plot.y.label:
            out.append(label(left - 8, y + 4, text, "small muted", "end"))
    for value, text in plot.x.ticks:
        x = plot.x.place(value, left, right)
        out += [segment(x, bottom, x, bottom + 5, "axis"), label(x, bottom + 19, text, "small muted", "middle")]
    out.append(segment(left, bottom, right, bottom, "axis"))
    out.append(label((left + right) / 2, bottom + 37, plot.x.label, "small muted", "middle"))
    if plot.y.label:
        out.append(label(left - TICKS, top - 12, plot.y.label, "small muted"))
    if plot.title:
        out.append(label(left, top - 34, plot.title, "name strong"))
    return out


def vertical_marks(plot, left, top, right, bottom):
    out = []
    for value, text in plot.marks:
        x = plot.x.place(value, left, right)
        out += [segment(x, top, x, bottom, "axis mark"), label(x - 6, top + 11, text, "small muted", "end")]
    return out


def visible(plot, points):
    """Returns the points of a curve up to where it leaves the plot at the top, and whether the curve was clipped."""
    inside = []
    for x, y in points:
        if y > plot.y.high:
            if inside:
                x0, y0 = inside[-1]
                a, b, c = (plot.y.place(v, 0, 1) for v in (y0, y, plot.y.high))
                u, v = (plot.x.place(w, 0, 1) for w in (x0, x))
                share = (c - a) / (b - a)
                inside.append((None, u + share * (v - u)))
            return inside, True
        inside.append((x, y))
    return inside, False


def curve(plot, series, left, top, right, bottom):
    """Returns the SVG elements of a curve, the point where it ends, and whether it leaves the plot at the top."""
    points, cut = visible(plot, series.points)
    places = [(left + y * (right - left), float(top)) if x is None
              else (plot.x.place(x, left, right), plot.y.place(y, bottom, top)) for x, y in points]
    path = "L".join(f"{number(x)} {number(y)}" for x, y in places)
    out = [element("path", d=f"M{path}", class_=f"line {series.color} {series.style}".strip())]
    if plot.dots:
        out += [element("circle", cx=x, cy=y, r=3.5 if series.style == "thick" else 2.5, class_=series.color)
                for x, y in places if not cut or y > top]
    return out, places[-1], cut


def curves(plot, left, top, right, bottom):
    """Draws all curves, with each curve's name at its end."""
    out, ends = [], []
    for series in reversed(plot.series):
        elements, end, cut = curve(plot, series, left, top, right, bottom)
        out += elements
        if cut:
            out.append(label(end[0], top - 6, series.name, f"small name {series.color}", "middle"))
        else:
            ends.append((series, end))
    gap = 31 if any(series.note for series, _ in ends) else 15
    placed = spread([end[1] for _, end in ends], gap, top + 4, bottom - 4)
    for i, (series, (x, y)) in enumerate(ends):
        at = placed[i]
        out.append(segment(x + 5, y, right + 18, at, f"lead {series.color}"))
        out.append(label(right + 22, at + (4 if not series.note else -1), series.name, f"small name {series.color}"))
        if series.note:
            out.append(label(right + 22, at + 12, series.note, "small muted"))
    return out


def plots(chart, top):
    """Draws plots side by side. Returns the elements and the y coordinate of their lower edge."""
    out, left = [], MARGIN
    labels = sum(plot.labels + (TICKS if plot.y.label else 0) for plot in chart.plots)
    width = (WIDTH - 2 * MARGIN - labels) / len(chart.plots)
    begin, bottom = top + (42 if chart.plots[0].title else 16), top + chart.height
    for plot in chart.plots:
        left += TICKS if plot.y.label else 0
        box = (left, begin, left + width, bottom)
        out += axes(plot, *box) + vertical_marks(plot, *box) + curves(plot, *box)
        left += width + plot.labels
    return out, bottom + 37


def bars(chart, top):
    """Draws groups of horizontal bars. Returns the elements and the y coordinate of their lower edge."""
    out, y = [], top
    left, right = MARGIN + 165, WIDTH - MARGIN - 190
    largest = max(bar.value for _, group in chart.groups for bar in group)
    for title, group in chart.groups:
        out.append(label(left, y + 12, title, "name strong"))
        y += 22
        out.append(segment(left, y - 3, left, y + 23 * len(group) - 2, "axis"))
        for bar in group:
            width = max(2.0, bar.value / largest * (right - left))
            out.append(label(left - 10, y + 13, bar.name, "muted", "end"))
            out.append(element("rect", x=float(left), y=float(y), width=width, height=18, rx=2, class_=bar.color))
            out.append(label(left + width + 8, y + 13, bar.text, "strong"))
            y += 23
        y += 12
    return out, y - 12


def draw(chart):
    """Returns the chart as an SVG document."""
    body, y = plots(chart, 76) if chart.plots else bars(chart, 78)
    foot, y = footer(chart, y + 28)
    height = y + 20
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" width="{WIDTH}" '
             f'height="{number(height)}" role="img">',
             element("title", chart.title), element("desc", chart.subtitle), style(),
             element("rect", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1.0, rx=8, class_="card edge"),
             *header(chart), *body, *foot, "</svg>"]
    return "\n".join(lines) + "\n"
