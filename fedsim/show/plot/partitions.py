"""The labels of each client's samples, as a figure."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes

from fedsim.ground.errors import UsageError, expect
from fedsim.show.plot.paper import Shown, drawing, title, whole_of
from fedsim.show.plot.styles import StyleName, style_of
from fedsim.show.style import ink

_TICKS = 20  # names along an axis, at most
_ROOM = 0.62  # of the size of letters: the width of a digit


def partition(
    held: pd.DataFrame,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """How many samples of each label a client holds: a row per label, a column per client.

    A cell is the darker the more samples it has, and white where it has none; where there is room,
    it has their number.

    Args:
        held: (clients, labels) numbers of samples, what `ClientData.held()` gave. Its `attrs` may
            have a `title`.
        ax: as for `curves`.
        figsize: as for `curves`.
        style: as for `curves`.

    Raises:
        UsageError: `held` has no clients or no labels, or numbers below 0; an unknown `style`.

    Example:
        from fedsim.federation import ClientData
        config = fedsim.RunConfig(clients=fedsim.Clients(10, partition="dirichlet(0.1)"))
        fedsim.plot.partition(ClientData.of(config).held()).savefig("partition.pdf")
    """
    look = style_of(style)
    expect(held, pd.DataFrame, "partition(), of ClientData.of(config).held(),")
    numbers = np.asarray(held, float)
    if not numbers.size or numbers.ndim != 2 or not (numbers >= 0).all():
        raise UsageError(
            f"held has the shape {numbers.shape}: partition() takes numbers of "
            "samples from 0 up, a row per client and a column per label"
        )
    clients, labels = numbers.shape
    if ax is None:
        usual = (look.width + 1.4, 1.2 + min(4.0, 0.28 * labels))
        usual = (look.width, 0.8 + min(2.4, 0.17 * labels)) if look.column else usual
        look = look.fitted(figsize, usual)
        axes: Axes = drawing(*(figsize or usual)).add_subplot(axes_class=Shown)
    else:
        axes = ax
    colours: Any = colormaps["viridis_r"].with_extremes(bad="white")
    shown = np.ma.masked_equal(numbers.T, 0)
    image = axes.imshow(shown, cmap=colours, vmin=0, aspect="auto", interpolation="nearest")
    for ticked, names in ((axes.xaxis, held.index), (axes.yaxis, held.columns)):
        step = -(-len(names) // _TICKS)
        ticked.set_ticks(range(0, len(names), step), [str(name) for name in names[::step]])
    axes.set_xlabel("client", fontsize=look.font)
    axes.set_ylabel(held.columns.name or "label", fontsize=look.font)
    axes.tick_params(length=0, labelsize=look.font)
    axes.spines[:].set_color("#bbbbbb")
    bar = whole_of(axes).colorbar(image, ax=axes, fraction=0.06, pad=0.02)
    bar.set_label("samples", fontsize=look.font)
    bar.ax.tick_params(labelsize=look.font)
    room = 72 * axes.bbox.width / whole_of(axes).dpi / clients
    size = min(look.small, 0.9 * room / (_ROOM * len(f"{numbers.max():.0f}")))
    if size >= 5:  # points: less cannot be read
        for (row, column), count in np.ndenumerate(numbers.T):
            if count:
                colour = ink(colours(image.norm(count)))
                axes.text(
                    column,
                    row,
                    f"{count:.0f}",
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=size,
                    in_layout=False,
                )
    if ax is None and look.titled and (text := held.attrs.get("title")):
        title(whole_of(axes), text, look)
    return axes
