"""Names next to lines and points, in their colours, instead of a legend that is too long to keep in
mind."""

from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from fedsim.show.chart import Chart, Marks
from fedsim.show.plot.styles import Style
from fedsim.show.style import readable

MAX_LABELS = 6
"""Names that a legend has at most, if each could be next to its line."""

_WIDE, _HIGH = 0.56, 1.2  # of a letter, of a line: times the size of the letters
_FAR = (0.0, 8.0, 16.0, 28.0, 40.0)  # points
_CLEAR = 100.0  # of what is in a name's way: two points of a line at its border
_SAME = 0.06  # of the axes' width: so near are ends that are one below the other


def _overlap(one: Bbox, other: Bbox) -> float:
    """How much of the two is the same, in square points."""
    common = Bbox.intersection(one, other)
    return 0.0 if common is None else float(common.width * common.height)


def named(chart: Chart) -> list[Marks]:
    """The marks whose names may be written next to them."""
    return [m for m in chart.marks if m.name and len(m.x) and m.direct_label]


def place_labels(axes: Axes, chart: Chart, style: Style, names: Collection[str]) -> bool:
    """Writes the names of marks next to their ends, and a chart's notes next to their points.

    Each text is placed where it covers least, with a line to its point where that is far. Returns
    whether no text lies on a mark, on another text or outside of the axes.
    """
    figure: Any = axes.get_figure(root=True)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # places what there is: names need to know where
    points, to_paper = 72 / figure.dpi, axes.transData.transform
    labelled = [marks for marks in named(chart) if marks.name in names]
    texts = [(m.name, m.end(chart.higher), m.look.colour) for m in labelled]
    texts += [(note, (x, y), "#000000") for x, y, note in chart.notes]
    places = to_paper([end for _, end, _ in texts]) * points
    frame = Bbox.from_extents(*axes.bbox.extents * points)
    sizes = [(_WIDE * style.small * len(text), _HIGH * style.small) for text, _, _ in texts]
    joined = not chart.notes and all(marks.kind != "points" for marks in labelled)
    clear = True
    if joined and frame.x1 - places[:, 0].min() < _SAME * frame.width:
        order = np.argsort(places[:, 1])
        heights = spread_labels(places[order, 1], _HIGH * style.small)
        offsets = {int(k): (9.0, h - places[k, 1]) for k, h in zip(order, heights, strict=True)}
    else:
        lines = [
            _covered(to_paper(marks.corners) * points, marks, style)
            for marks in chart.marks
            if len(marks.x)
        ]
        lines += [to_paper(_bars(marks)) * points for marks in chart.marks if len(marks.x)]
        offsets, clear = _where_room_is(
            places, sizes, np.concatenate(lines), frame, 4 + 4 * style.scale
        )
    for place, (text, end, colour) in enumerate(texts):
        (dx, dy), (wide, high) = offsets[place], sizes[place]
        side = (0.0, 0.5) if dx > 0 else (1.0, 0.5) if dx + wide < 0 else (0.5, float(dy < 0))
        far = joined or np.hypot(dx + side[0] * wide, dy + (side[1] - 0.5) * high) > 1.2 * high
        arrow = {"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 0, "shrinkB": 1}
        axes.annotate(
            text.replace("$", r"\$"),
            end,
            (dx, dy),
            textcoords="offset points",
            fontsize=style.small,
            color=readable(colour),
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops=arrow | {"relpos": side} if far else None,
        )
    return clear


def spread_labels(heights: np.ndarray, step: float) -> np.ndarray:
    """The nearest heights in the same order that are `step` apart.

    Example:
        >>> spread_labels(np.array([0.0, 1.0, 20.0]), 10.0)
        array([-4.5,  5.5, 20. ])
    """
    from scipy.optimize import isotonic_regression  # half a second that few figures wait

    places = step * np.arange(len(heights))
    spread: np.ndarray = isotonic_regression(heights - places).x + places
    return spread


def _where_room_is(
    ends: np.ndarray,
    sizes: Sequence[tuple[float, float]],
    target: np.ndarray,
    frame: Bbox,
    gap: float,
) -> tuple[dict[int, tuple[float, float]], bool]:
    """Each name at the side of its end where the fewest points and names are, in points from it.

    And whether no name lies on what is drawn, on another name or outside of the axes.
    """
    taken, offsets, clear = list[Bbox](), dict[int, tuple[float, float]](), True
    for place in np.argsort(-ends[:, 1]):
        (x, y), (wide, high) = ends[place], sizes[place]
        cost = np.inf
        sides = (gap, -wide / 2, -gap - wide)
        for far, sideways, up in product(_FAR, sides, (0, 1, -1)):
            dx = sideways + (np.sign(sideways + wide / 2) * far if up == 0 else 0.0)
            dy = up * (high + far)
            box = Bbox.from_extents(x + dx, y + dy - high / 2, x + dx + wide, y + dy + high / 2)
            if up == 0 and sideways == -wide / 2:
                continue  # on its own mark
            crowd = 5 * sum(_overlap(box, other) for other in taken) + 40 * box.count_contains(
                target
            )
            crowd += 9 * (wide * high - _overlap(box, frame))
            if (total := crowd + 6 * far) < cost:
                cost, room, offsets[int(place)], free = total, box, (dx, dy), crowd < _CLEAR
        taken.append(room)
        clear = clear and free
    return offsets, clear


def _bars(marks: Marks) -> np.ndarray:
    """Points (M, 2) all along the bars of single points."""
    if marks.kind != "points" or marks.low is None or marks.high is None:
        return np.empty((0, 2))
    heights = np.linspace(marks.low, marks.high, 40)
    return np.column_stack([np.tile(np.asarray(marks.x, float), 40), heights.ravel()])


def _covered(points: np.ndarray, marks: Marks, style: Style) -> np.ndarray:
    """Points (M, 2) all over what marks at (N, 2) cover: their lines, or their symbols."""
    if marks.kind == "points":
        angles = np.linspace(0, 2 * np.pi, 9)
        ring = np.column_stack([np.cos(angles), np.sin(angles)]) * marks.size * style.scale / 2
        return (points[:, None] + np.vstack([ring, 2 * [(0, 0)]])).reshape(-1, 2)
    along = np.concatenate([[0], np.hypot(*np.diff(points, axis=0).T).cumsum()])
    steps = np.arange(0, along[-1] + 3, 3)
    return np.column_stack([np.interp(steps, along, column) for column in points.T])
