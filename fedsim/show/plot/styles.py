"""The sizes of figures and their letters: on a screen, or in a column of a paper."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

from fedsim.ground.errors import UsageError

StyleName = Literal["screen", "paper", "page"]
"""A figure for a screen; for a column of a paper: 3.4 inch, 8 points, without a title; or for the
report's page: wide, and without a title, which its section has."""


_LEAST = 5.0  # points of the smallest letters
_NARROW = 4.2  # inches: below, a legend at the side would leave a line's axes too little


@dataclass(frozen=True)
class Style:
    """The sizes of a figure.

    Attributes:
        width, height: of a figure with one pair of axes, in inches.
        font: of the names of axes and ticks, in points.
        small: of texts within axes, in points.
        titled: whether task and method are above it; in a paper they are in the caption.
        column: whether it is as narrow as a column: legends are below it, and panels below each
            other.
        scale: factor on the chart's sizes of marks and widths of lines.
    """

    width: float
    height: float
    font: float
    small: float
    titled: bool
    column: bool
    scale: float

    def letters(self, inches: float) -> int:
        """About how many letters of `font` points fit in a line of `inches`."""
        return max(12, int(72 * inches / (0.53 * self.font)))

    def fitted(self, size: tuple[float, float] | None, usual: tuple[float, float]) -> "Style":
        """The style of a figure of another size: letters, marks and lines are smaller where it is
        smaller than usual, and a narrow figure is laid out as a column.

        Example:
            >>> style_of("screen").fitted((3.4, 2.5), (5.2, 4.4)).font
            7.5
        """
        share = 1.0 if size is None else min(size[0] / usual[0], size[1] / usual[1])
        if size is None or share >= 1:
            return self
        factor = sqrt(share)
        return replace(
            self,
            font=round(max(_LEAST, factor * self.font), 1),
            small=round(max(_LEAST, factor * self.small), 1),
            scale=factor * self.scale,
            column=self.column or size[0] < _NARROW,
        )


STYLES: Mapping[str, Style] = {
    "screen": Style(5.2, 4.4, 10, 8.5, True, False, 1.0),
    "paper": Style(3.4, 2.5, 8, 7, False, True, 0.65),
    "page": Style(7.4, 4.6, 10, 8.5, False, False, 1.0),
}


def style_of(name: str) -> Style:
    """The style of that name."""
    if name not in STYLES:
        raise UsageError(f"style is {name!r}: it must be one of {', '.join(STYLES)}.")
    return STYLES[name]
