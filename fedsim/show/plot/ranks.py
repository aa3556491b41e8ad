"""The critical-difference figure: mean ranks, with bars over methods that are not told apart."""

from math import ceil

from matplotlib.axes import Axes

from fedsim.results.ranks import Comparison
from fedsim.show.plot.paper import Shown, drawing, title, whole_of, without_formulas
from fedsim.show.plot.styles import StyleName, style_of

_BAR = 0.28  # of a line of text: how far one bar is from the next


def critical_difference(
    comparison: Comparison,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """Draws the mean ranks of methods, the best at the left, as Demsar 2006, figure 1.

    A thick bar joins methods whose mean ranks Nemenyi's test at 5 % does not tell apart; a line
    above the axis has the length of the critical difference.

    Args:
        comparison: what `fedsim.compare_methods` gave.
        ax: as for `curves`.
        figsize: as for `curves`.
        style: as for `curves`.

    Returns:
        The axes.

    Raises:
        UsageError: an unknown `style`.

    Example:
        found = fedsim.compare_methods("results/sbc", "results/dropping", "results/stc")
        fedsim.plot.critical_difference(found).savefig("ranks.pdf")
    """
    look = style_of(style)
    table = comparison.methods.sort_values("rank", kind="stable")
    labels, ranks = table["label"].tolist(), dict(zip(table["label"], table["rank"], strict=True))
    count, groups = len(labels), comparison.groups()
    bars = _BAR * len(groups) + 0.4
    deep = bars + ceil(count / 2)
    if ax is None:
        lines = (deep + 3.1) * look.font * 1.9 / 72
        look = look.fitted(figsize, (look.width, lines))
        axes: Axes = drawing(*(figsize or (look.width, lines))).add_subplot(axes_class=Shown)
    else:
        axes = ax
    axes.set_xlim(1 - 0.02 * (count - 1), count + 0.02 * (count - 1))
    axes.set_ylim(deep, -2.1)
    axes.set_yticks([])
    axes.xaxis.set_ticks(range(1, count + 1), [str(rank) for rank in range(1, count + 1)])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.spines["top"].set_position(("data", 0))
    axes.xaxis.tick_top()
    axes.tick_params(labelsize=look.font)
    length = min(comparison.critical_difference, count - 1)
    axes.plot([1, 1 + length], [-1.7, -1.7], color="black", lw=1.5 * look.scale, marker="|")
    axes.annotate(
        f"CD = {comparison.critical_difference:.2f}",
        (1 + length, -1.7),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=look.small,
    )
    for place, group in enumerate(groups):
        ends = ranks[group[0]], ranks[group[-1]]
        axes.plot(
            ends, [0.3 + _BAR * place] * 2, color="black", lw=4 * look.scale, solid_capstyle="round"
        )
    for place, label in enumerate(labels):
        left = place < ceil(count / 2)
        level = bars + 0.4 + (place if left else count - 1 - place)
        end = 1.0 if left else float(count)
        axes.plot(
            [ranks[label], ranks[label], end], [0, level, level], color="#555555", lw=look.scale
        )
        axes.annotate(
            f"{without_formulas(label)} ({ranks[label]:.2f})",
            (end, level),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            va="center",
            ha="right" if left else "left",
            fontsize=look.small,
            annotation_clip=False,
        )
    axes.set_xlabel(f"mean rank over {comparison.blocks} blocks; 1 is the best", fontsize=look.font)
    axes.xaxis.set_label_position("bottom")
    if ax is None and look.titled:
        title(
            whole_of(axes),
            ", ".join(dict.fromkeys(map(str, comparison.values.index.get_level_values("task")))),
            look,
        )
    return axes
