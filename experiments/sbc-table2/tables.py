"""Table II in Markdown: ours beside the paper's numbers."""

import pandas as pd

from experiments.common.tables import table
from fedsim.tasks import get_task

from .rows import PAPER, columns


def markdown(task: str, frame: pd.DataFrame) -> str:
    """Ours beside the paper's; where less is better, both over their baselines too.

    Args:
        task: the row of Table II.
        frame: what ``compare`` of ``run.py`` gives: a row per method.
    """
    rises = get_task(task).higher_is_better
    scores = ("paper",) if rises else ("above our baseline", "paper", "above its baseline")
    heading = (
        "method",
        "n",
        "p",
        "ours",
        "best on the way",
        *scores,
        "content ratio",
        "wire ratio",
        "paper",
    )
    lines = []
    rows = frame.set_index("name")
    for column in columns(task):
        row, printed = rows.loc[column.name], PAPER.get(task, {})
        metric, ratio = printed.get(column.name, (None, None))
        digits = 4 if rises else 3
        cells = [
            column.title,
            f"{row['temporal']:g}",
            f"{row['gradient']:g}",
            f"{row['metric']:.{digits}f}",
            f"{row['best']:.{digits}f}",
        ]
        if not rises:
            cells.append(_above(row["metric"], rows["metric"]["baseline"]))
        cells.append("–" if metric is None else f"{metric:g}")
        if not rises:
            cells.append("–" if metric is None else _above(metric, printed["baseline"][0]))
        ratios = f"×{row['ratio_content']:.1f}", f"×{row['ratio_wire']:.1f}"
        cells += [*ratios, "–" if ratio is None else f"×{ratio}"]
        lines.append(cells)
    return table(heading, lines)


def _above(metric: float, baseline: float) -> str:
    """How many per cent it is above; a dash for the baseline itself."""
    return "–" if metric == baseline else f"{100 * (metric / baseline - 1):.1f} %"
