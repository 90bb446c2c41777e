"""SVG built from escaped elements, and what a chart needs of a scale: nice ticks and short numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Classes of the index-th colour; from the ninth on the colours come again, dashed."""
    return f"c{index % NUM_COLOURS}" + (" dashed" if index >= NUM_COLOURS else "")


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

    def ticks(self, wanted: int = 5) -> list[float]:
        """About `wanted` round values within the scale."""
        step = tick_step(self.high - self.low, wanted)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def tick_step(width: float, wanted: int = 5) -> float:
    """The round step (1, 2 or 5 times a power of ten) that cuts `width` into about `wanted` parts."""
    rough = width / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * k for k in (1.0, 2.0, 5.0, 10.0) if power * k >= rough * 0.999)


def bounds(values: NDArray[np.float64], include_zero: bool) -> tuple[float, float]:
    """(low, high) of an axis that shows all finite `values`, ends on round numbers.

    Raises:
        ValueError: no value is finite: there is nothing to draw.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise ValueError("no finite value to draw: say so in a sentence instead of a chart")
    low, high = float(finite.min()), float(finite.max())
    if include_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        # A constant gets an axis around it; of a constant 0 it is 0 to 1.
        low, high = (low - abs(low) * 0.1, high + abs(high) * 0.1) if high or low else (0.0, 1.0)
        low = 0.0 if include_zero and low > 0 else low
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
