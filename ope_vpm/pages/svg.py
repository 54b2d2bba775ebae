"""Small figures as SVG, drawn at the size of a phone's screen, so that their text is legible there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ope_vpm.arrays import Floats
from ope_vpm.pages.html import Html, element

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 40
"""The size of a figure and its margins, in pixels of a narrow phone."""
TICKS = 5
"""About how many marks an axis has."""
Points = Sequence[tuple[float, float]] | Floats


@dataclass(frozen=True)
class Axis:
    """Numbers to pixels, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a number."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers within the axis."""
        step = nice_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step - 1e-9)
        return [tick * step for tick in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(rough: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten that is no smaller."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def spanning(values: Sequence[float] | Floats, zero: bool = False) -> tuple[float, float]:
    """The range of an axis that holds all values; never empty."""
    low, high = min(values), max(values)
    low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0  # so that no mark lies on the frame
    return (low if zero and low == 0 else low - room), high + room


def figure(title: str, x: Axis, y: Axis, names: tuple[str, str], marks: Sequence[Html], note: str = "") -> Html:
    """A framed picture with axes, a caption, and a note below it."""
    grid = [element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick), class_="grid") for tick in y.ticks()]
    labels = [text(LEFT - 5, y(tick) + 4, f"{tick:.4g}", "end") for tick in y.ticks()]
    labels += [text(x(tick), HEIGHT - BOTTOM + 15, f"{tick:.4g}", "middle") for tick in x.ticks()]
    return framed(title, [*grid, *marks, *labels, *axis_names(names)], note)


def framed(title: str, parts: Sequence[Html], note: str = "") -> Html:
    """A picture with a caption and a note."""
    drawn = element("svg", parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)
    said = element("p", note, class_="quiet") if note else Html("")
    return element("figure", element("figcaption", title), drawn, said)


def axis_names(names: tuple[str, str]) -> list[Html]:
    """The labels of the two axes."""
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    turned = f"rotate(-90 11 {middle})"
    return [
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, names[0], "middle", "faint"),
        element("text", names[1], x=11, y=middle, text_anchor="middle", class_="faint", transform=turned),
    ]


def text(x: float, y: float, words: str, anchor: str, kind: str = "label") -> Html:
    """A label."""
    return element("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def across(low: float, high: float) -> Axis:
    """A horizontal axis."""
    return Axis(low, high, LEFT, WIDTH - RIGHT)


def upward(low: float, high: float) -> Axis:
    """A vertical axis; pixels are counted downwards."""
    return Axis(low, high, HEIGHT - BOTTOM, TOP)


def line(points: Points, x: Axis, y: Axis, kind: str) -> Html:
    """A line through points."""
    path = " ".join(f"{x(float(across)):.1f},{y(float(up)):.1f}" for across, up in points)
    return element("polyline", points=path, class_=kind)


def dots(points: Points, x: Axis, y: Axis, kind: str) -> list[Html]:
    """One dot per point."""
    return [element("circle", cx=x(float(one)), cy=y(float(two)), r=2.2, class_=kind) for one, two in points]


def bars(
    groups: Sequence[tuple[float, ...]], labels: Sequence[str], kinds: Sequence[str], y: Axis, between: bool = False
) -> list[Html]:
    """Groups of bars side by side, each with a label below it, or below its right end if it stands `between` groups."""
    width = (WIDTH - LEFT - RIGHT) / len(groups)
    each = 0.8 * width / len(kinds)
    made: list[Html] = []
    for place, (group, label) in enumerate(zip(groups, labels, strict=True)):
        start = LEFT + place * width + 0.1 * width
        for number, (height, kind) in enumerate(zip(group, kinds, strict=True)):
            top = y(height)
            box = {"x": start + number * each, "y": top, "width": each, "height": max(y(0) - top, 0.0)}
            made.append(element("rect", class_=kind, **box))
        made.append(text(start + (0.9 if between else 0.4) * width, HEIGHT - BOTTOM + 15, label, "middle"))
    return made
