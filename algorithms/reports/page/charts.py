"""The charts of the page as inline SVG: lines with bands, paths, scatters, dots by category.

Colours are CSS classes (`c0` .. `c7`), so that one drawing serves light and dark, and a class `k0`, `k1`, ... says
whose an element is; hovering over a point tells its values. Every chart is 560 x 320 and scales with its column of
the page. What is plotted is an SVG of its own within the chart, which cuts off what a zoom moves outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

NUM_COLOURS = 8


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """One SVG or HTML element; text children and attribute values are escaped, Markup is kept.

    A trailing underscore of an attribute's name is dropped (`class_`), others become hyphens.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
    )
    inner = Markup("").join(children)
    return Markup(f"<{tag}{written}>{inner}</{tag}>" if inner else f"<{tag}{written}/>")


def colour(index: int) -> str:
    """Classes of the index-th column: its colour, which from the ninth on comes again, dashed; and its own."""
    return f"c{index % NUM_COLOURS}" + (" dashed" if index >= NUM_COLOURS else "") + f" k{index}"


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels.

    Attributes:
        low: the value at `start`.
        high: the value at `end`, above `low`.
        start: pixels.
        end: pixels; below `start` for an axis that points up.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Pixels of one value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """About five round values within the scale."""
        step = tick_step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def tick_step(width: float) -> float:
    """The round step (1, 2 or 5 times a power of ten) that cuts `width` into about five parts."""
    rough = width / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * k for k in (1.0, 2.0, 5.0, 10.0) if power * k >= rough * 0.999)


def bounds(values: NDArray[np.float64]) -> tuple[float, float]:
    """(low, high) of an axis that shows 0 and all finite `values`, and ends on round numbers.

    Raises:
        ValueError: no value is finite: there is nothing to draw.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise ValueError("no finite value to draw: say so in a sentence instead of a chart")
    low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
    if high == low:
        high = 1.0
    step = tick_step(high - low)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def short(value: float) -> str:
    """A number for an axis or a tooltip: three or four digits, k and M for thousands and millions."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.2g}".replace("e-0", "e-").replace("e+", "e").replace("-", "−")
    for unit, suffix in ((1e6, "M"), (1e4, "k")):
        if size >= unit:
            scaled = value / (1e3 if suffix == "k" else unit)
            return f"{scaled:.4g}{suffix}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks of one axis as text, all in the same unit: k from 10,000 on, M from ten million on."""
    largest = max(map(abs, ticks), default=0.0)
    divisor, suffix = next(
        (d, unit)
        for at, d, unit in ((1e7, 1e6, "M"), (1e4, 1e3, "k"), (0.0, 1.0, ""))
        if largest >= at
    )
    return [f"{short(value / divisor)}{suffix if value else ''}" for value in ticks]


def _attribute(value: str | float) -> str:
    if isinstance(value, str):
        return str(escape(value))
    if not math.isfinite(value):
        raise ValueError(f"an SVG coordinate is {value}: leave that point out")
    return f"{value:.1f}".removesuffix(".0")


WIDTH, HEIGHT = 560.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 546.0, 40.0, 268.0
MAX_TIPS = 24  # points of one line that answer to the mouse


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: in the legend and the tooltips.
        index: its colour.
        x: float64 [K].
        y: float64 [K]; nan leaves a gap.
        low: float64 [K], lower edge of the band; None draws none.
        high: float64 [K], upper edge.
        thin: drawn fine and without points: a single run behind a mean.
        tips: a text for each point, shown when hovering; made from x and y where empty.
    """

    name: str
    index: int
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    thin: bool = False
    tips: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Axes:
    """Titles and labels of a chart's axes, which include 0.

    Attributes:
        title: the chart's name, for readers that do not see it.
        x_label: quantity and unit.
        y_label: quantity and unit.
        x_reach: a value that the x axis includes too, so that all charts over time are equally long.
    """

    title: str
    x_label: str
    y_label: str
    x_reach: float = 0.0


def line_chart(axes: Axes, lines: Sequence[Line], over_time: bool = True) -> Markup:
    """SVG: the lines with their bands; a point that has gaps on both sides is a dot.

    Args:
        axes: its titles.
        lines: to draw.
        over_time: whether the page's tools (zoom, smoothing, log scale) apply to it.

    Raises:
        ValueError: no line has a finite value.
    """
    x_scale, y_scale = _scales(axes, lines)
    parts: list[Markup] = []
    for line in lines:
        parts += _band(line, x_scale, y_scale)
    for line in lines:
        parts += _strokes(line, x_scale, y_scale)
    for line in lines:
        parts += _tips(line, x_scale, y_scale, visible=len(line.x) <= 16)
    tools = (x_scale, y_scale) if over_time else None
    return _svg(axes, _frame(axes, x_scale, y_scale), parts, tools)


def path_chart(axes: Axes, lines: Sequence[Line]) -> Markup:
    """SVG: paths through a plane, time along the line: a ring where each begins, a disc where it ends.

    Raises:
        ValueError: no line has a finite value.
    """
    x_scale, y_scale = _scales(axes, lines)
    parts: list[Markup] = []
    for line in lines:
        parts += _strokes(line, x_scale, y_scale)
    for line in (line for line in lines if not line.thin):
        parts += _tips(line, x_scale, y_scale, visible=True)
        seen = np.flatnonzero(np.isfinite(line.x) & np.isfinite(line.y))
        for at, shape in ((seen[:1], "ring"), (seen[-1:], "disc")):
            parts += [
                element("circle", class_=f"{shape} {colour(line.index)}", cx=x_scale(line.x[i]),
                        cy=y_scale(line.y[i]), r=6)
                for i in at
            ]  # fmt: skip
    return _svg(axes, _frame(axes, x_scale, y_scale), parts)


def scatter_chart(axes: Axes, clouds: Sequence[Line], identity: bool) -> Markup:
    """SVG: one dot per point; with `identity` both axes share a scale and the line y = x is drawn.

    Raises:
        ValueError: no cloud has a finite point.
    """
    if identity:
        both = np.concatenate([np.concatenate([cloud.x, cloud.y]) for cloud in clouds])
        low, high = bounds(both)
        x_scale, y_scale = Scale(low, high, LEFT, RIGHT), Scale(low, high, BOTTOM, TOP)
    else:
        x_scale, y_scale = _scales(axes, clouds)
    parts: list[Markup] = []
    if identity:
        parts.append(element("line", class_="guide", x1=LEFT, y1=BOTTOM, x2=RIGHT, y2=TOP))
    for cloud in clouds:
        for x, y, tip in zip(cloud.x, cloud.y, _tip_texts(cloud), strict=True):
            if np.isfinite(x) and np.isfinite(y):
                parts.append(_dot(cloud, x_scale(x), y_scale(y), tip, visible=True))
    return _svg(axes, _frame(axes, x_scale, y_scale), parts)


def category_chart(axes: Axes, categories: Sequence[str], lines: Sequence[Line]) -> Markup:
    """SVG: for each category one dot per line (its mean) on a bar from `low` to `high`, side by side.

    `line.x` is the index of the category.

    Raises:
        ValueError: no line has a finite value.
    """
    values = [edge for line in lines for edge in (line.y, line.low, line.high) if edge is not None]
    low, high = bounds(np.concatenate(values))
    y_scale = Scale(low, high, BOTTOM, TOP)
    x_scale = Scale(-0.5, len(categories) - 0.5, LEFT, RIGHT)
    parts: list[Markup] = []
    apart = min(
        14.0 if len(categories) > 1 else 60.0,
        0.8 * (RIGHT - LEFT) / len(categories) / max(len(lines), 1),
    )
    for place, line in enumerate(lines):
        shift = (place - (len(lines) - 1) / 2) * apart
        for i, tip in enumerate(_tip_texts(line)):
            if not np.isfinite(line.y[i]):
                continue
            x = x_scale(line.x[i]) + shift
            if line.low is not None and line.high is not None:
                parts.append(
                    element("line", class_=f"whisker {colour(line.index)}", x1=x, x2=x,
                            y1=y_scale(line.low[i]), y2=y_scale(line.high[i]))
                )  # fmt: skip
            parts.append(_dot(line, x, y_scale(line.y[i]), tip, visible=True))
    return _svg(axes, _frame(axes, x_scale, y_scale, categories), parts)


def _scales(axes: Axes, lines: Sequence[Line]) -> tuple[Scale, Scale]:
    edges = [edge for line in lines for edge in (line.y, line.low, line.high) if edge is not None]
    # Where y is a gap, x has nothing to show either.
    drawn = np.concatenate([line.x[np.isfinite(line.y)] for line in lines])
    x_low, x_high = bounds(np.concatenate([drawn, [axes.x_reach] if axes.x_reach else []]))
    y_low, y_high = bounds(np.concatenate(edges))
    return Scale(x_low, x_high, LEFT, RIGHT), Scale(y_low, y_high, BOTTOM, TOP)


def _svg(
    axes: Axes,
    frame: Iterable[Markup],
    plotted: Sequence[Markup],
    tools: tuple[Scale, Scale] | None = None,
) -> Markup:
    """The chart; `tools` are the scales of x and y where the page's script may change them."""
    # A margin beside the axes, so that no dot at the end of a line is cut.
    inside = element("svg", *plotted, class_="plot", x=LEFT - 8, y=0, width=RIGHT - LEFT + 16, height=HEIGHT,
                     viewBox=f"{LEFT - 8:.0f} 0 {RIGHT - LEFT + 16:.0f} {HEIGHT:.0f}")  # fmt: skip
    named = zip(("data_x", "data_y"), tools or (), strict=False)
    reach = {name: f"{scale.low:.9g} {scale.high:.9g}" for name, scale in named}
    return element("svg", *frame, inside, class_="chart", viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", role="img",
                   aria_label=f"{axes.title}: {axes.y_label} over {axes.x_label}", **reach)  # fmt: skip


def _frame(
    axes: Axes, x_scale: Scale, y_scale: Scale, categories: Sequence[str] | None = None
) -> Iterator[Markup]:
    """Grid, tick labels, axis and labels; behind everything else."""
    heights = y_scale.ticks()
    for value, text in zip(heights, tick_texts(heights), strict=True):
        y = y_scale(value)
        yield element("line", class_="grid up", x1=LEFT, y1=y, x2=RIGHT, y2=y)
        yield element("text", text, class_="up", x=LEFT - 8, y=y + 4.5, text_anchor="end")
    places = x_scale.ticks() if categories is None else list(range(len(categories)))
    texts = tick_texts(places) if categories is None else categories
    for value, text in zip(places, texts, strict=True):
        x = x_scale(value)
        yield element("line", class_="tick over", x1=x, y1=BOTTOM, x2=x, y2=BOTTOM + 5)
        anchor = "end" if categories is None and x > RIGHT - 12 else "middle"
        place = min(x, RIGHT + 8) if anchor == "end" else x
        yield element("text", text, class_="over", x=place, y=BOTTOM + 22, text_anchor=anchor)
    zero_inside = y_scale.low < 0 < y_scale.high
    if zero_inside:
        yield element("line", class_="axis", x1=LEFT, y1=y_scale(0), x2=RIGHT, y2=y_scale(0))
    yield element("line", class_="axis", x1=LEFT, y1=BOTTOM, x2=RIGHT, y2=BOTTOM)
    yield element("text", axes.y_label, class_="label", x=4, y=18)
    yield element("text", axes.x_label, class_="label", x=RIGHT, y=HEIGHT - 6, text_anchor="end")


def _pieces(line: Line) -> Iterator[NDArray[np.int64]]:
    """Indices of each stretch of the line without a gap."""
    seen = np.flatnonzero(np.isfinite(line.x) & np.isfinite(line.y))
    if len(seen):
        yield from np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1)


def _points(x: NDArray[np.float64], y: NDArray[np.float64], x_scale: Scale, y_scale: Scale) -> str:
    # On a log scale the page's script reads small values back from their height.
    return " ".join(f"{x_scale(a):.1f},{y_scale(b):.3f}" for a, b in zip(x, y, strict=True))


def _band(line: Line, x_scale: Scale, y_scale: Scale) -> Iterator[Markup]:
    if line.low is None or line.high is None or np.array_equal(line.low, line.high, equal_nan=True):
        return
    for at in _pieces(line):
        edge = np.concatenate([line.high[at], line.low[at][::-1]])
        around = np.concatenate([line.x[at], line.x[at][::-1]])
        yield element("polygon", class_=f"band {colour(line.index)}",
                      points=_points(around, edge, x_scale, y_scale))  # fmt: skip


def _strokes(line: Line, x_scale: Scale, y_scale: Scale) -> Iterator[Markup]:
    thin = " thin" if line.thin else ""
    for at in _pieces(line):
        if len(at) == 1:
            yield element("circle", class_=f"dot {colour(line.index)}", cx=x_scale(line.x[at[0]]),
                          cy=f"{y_scale(line.y[at[0]]):.3f}", r=3)  # fmt: skip
        else:
            yield element("polyline", class_=f"line {colour(line.index)}{thin}",
                          points=_points(line.x[at], line.y[at], x_scale, y_scale))  # fmt: skip


def _tips(line: Line, x_scale: Scale, y_scale: Scale, visible: bool) -> Iterator[Markup]:
    """Points that answer to the mouse: at most MAX_TIPS of a line, evenly chosen, the ends among them."""
    seen = np.flatnonzero(np.isfinite(line.x) & np.isfinite(line.y))
    if line.thin or not len(seen):
        return
    chosen = np.unique(np.linspace(0, len(seen) - 1, min(len(seen), MAX_TIPS)).round().astype(int))
    texts = _tip_texts(line)
    for i in seen[chosen]:
        yield _dot(line, x_scale(line.x[i]), y_scale(line.y[i]), texts[i], visible)


def _dot(line: Line, x: float, y: float, tip: str, visible: bool) -> Markup:
    shape = f"dot {colour(line.index)}" if visible else "tip"
    return element(
        "circle", element("title", tip), class_=shape, cx=x, cy=f"{y:.3f}", r=3.5 if visible else 8
    )


def _tip_texts(line: Line) -> Sequence[str]:
    if line.tips:
        return line.tips
    write: Callable[[float], str] = short
    texts = []
    for i in range(len(line.x)):
        spread = ""
        if line.low is not None and line.high is not None and line.high[i] > line.low[i]:
            spread = f" ({write(line.low[i])} to {write(line.high[i])})"
        texts.append(f"{line.name}: {write(line.y[i])}{spread} at {write(line.x[i])}")
    return texts
