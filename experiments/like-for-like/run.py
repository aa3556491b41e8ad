"""Every method within equal budgets of bits up and down, tuned by the same number of runs.

    fedsim experiment like-for-like --only digits_skewed
    fedsim experiment like-for-like --only digits_skewed --add 'ef(topk({p}) | cnat | golomb)'

The second trains one method more and puts its rows beside the others', which are not run again.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import canvas
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table, write_csv
from fedsim import Results
from fedsim.ground.units import duration, round_bits
from fedsim.show.plot import save

from . import analysis
from .answer import answers
from .coded import coder_tables
from .masking import masking_tables
from .rows import ROWS, SCALES, TASKS, Row, added
from .stages import Stages

RESULTS = Path(__file__).parent / "results"
FRAMES = ("trials", "finals")


def stages(asked: Asked) -> Stages:
    """The runs that are asked for."""
    scale = SCALES[asked.scale]
    rows: dict[str, Row] = {name: ROWS[name] for name in asked.rows}
    if asked.added:
        rows |= added(asked.added)
    rows = rows or {name: ROWS[name] for name in scale.rows}
    return Stages(asked.task, TASKS[asked.task], rows, scale, asked.out, asked.jobs, asked.data)


def show(asked: Asked, results: Results | None) -> Shown:
    """Runs what is asked for and shows it beside what was run before."""
    before = kept(asked.out.parent, asked.scale == "short")
    for name, mine in zip(FRAMES, stages(asked).frames(), strict=True):
        frames = before.setdefault(asked.task, {})
        frames[name] = beside(mine, frames.get(name))
        write_csv(asked.out / f"{name}.csv", frames[name])
    finals = analysis.ranked(pd.concat([frames["finals"] for frames in before.values()]))
    if finals.loc[finals["budget"] < 1, ["task", "budget"]].drop_duplicates().shape[0] > 1:
        told = analysis.verdict(finals)
        write_csv(asked.out.parent / "verdict.csv", told)
        alike = analysis.each_place_once(analysis.scored(finals))
        write_csv(asked.out.parent / "places.csv", alike)
        if finals["task"].nunique() > 1:
            left = analysis.leaving_out(analysis.scored(finals))
            write_csv(asked.out.parent / "leaving.csv", left)
        if (ranked := analysis.ranks(analysis.scored(finals))).size:
            save(figure(ranked), asked.out.parent / "ranks.png")
    mine = analysis.means(before[asked.task]["finals"])
    return Shown({"means": mine}, {"means": scores(mine)})


def kept(folder: Path, committed: bool) -> dict[str, dict[str, pd.DataFrame]]:
    """Trials and finals by task: of a folder, else those that are committed, where they count."""
    places = [folder, RESULTS] if committed else [folder]
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for task in TASKS:
        have = (p / task for p in places if all((p / task / f"{n}.csv").exists() for n in FRAMES))
        if (place := next(have, None)) is not None:
            found[task] = {name: pd.read_csv(place / f"{name}.csv") for name in FRAMES}
    return found


def beside(mine: pd.DataFrame, others: pd.DataFrame | None) -> pd.DataFrame:
    """The lines of these methods and of the others, which stay where they were."""
    if others is None:
        return mine
    rest = others[~others["method"].isin(mine["method"].unique())]
    return pd.concat([rest, mine], ignore_index=True)


def scores(means: pd.DataFrame) -> str:
    """A row per method, a column per budget: mean ± deviation (median), and how many collapsed.

    Bold: within a point of the highest mean at that budget.
    """
    budgets = sorted(means["budget"].unique(), reverse=True)
    at = means.set_index(["method", "budget"])
    lines = []
    for method in means["method"].unique():
        cells = []
        for budget in budgets:
            if (method, budget) not in at.index:
                cells.append("—")
                continue
            row = at.loc[(method, budget)]
            text = f"{row['mean']:.1f} ± {row['std']:.1f} ({row['median']:.1f})"
            top = means.loc[means["budget"] == budget, "mean"].max() - analysis.EQUAL
            text = f"**{text}**" if row["mean"] >= top else text
            cells.append(text + (f", {row['fell']:.0f} fell" if row["fell"] else ""))
        lines.append([method, *cells])
    return table(["method", *(share(budget) for budget in budgets)], lines)


def costs(means: pd.DataFrame, budget: float) -> str:
    """A row per method at a budget: what was chosen, bits, and seconds."""
    lines = [
        [
            row["method"],
            f"{row['rounds']}",
            f"{row['n']}",
            "" if pd.isna(row["strength"]) else str(row["strength"]),
            f"{row['factor']:g}",
            share(row["tuned_at"]),
            round_bits(row["bits_up"]),
            round_bits(row["bits_down"]),
            f"{100 * row['used']:.0f}",
            f"{row['encode_ms']:.1f}",
            duration(row["4g_seconds"]),
            duration(row["wifi_seconds"]),
        ]
        for row in means[means["budget"] == budget].to_dict("records")
    ]
    head = ("method", "rounds", "n", "strength", "rate", "tuned at", "bits up", "bits down",
            "used (%)", "encoding (ms)", "on 4g", "on wifi")  # fmt: skip
    return table(head, lines)


def share(budget: float) -> str:
    """A budget in words.

    Example:
        >>> share(1.0), share(0.00333)
        ('1 of dense', '1/300 of dense')
    """
    part = float(f"{1 / budget:.2g}")  # budgets have three digits
    return "1 of dense" if part == 1 else f"1/{part:.0f} of dense"


def verdict(told: pd.DataFrame) -> str:
    """A row per method, the best of the model first."""
    lines = [
        [
            row["method"],
            f"{row['effect']:.2f} ± {row['error']:.2f}",
            *("" if pd.isna(row[p]) else f"{row[p]:.2g}" for p in ("chance", "elsewhere")),
            f"{row['behind']:.1f} ({row['low']:.1f} to {row['high']:.1f})",
            "yes" if row["equal"] else "no",
            f"{row['rank']:.1f}",
        ]
        for row in told.to_dict("records")
    ]
    head = (
        "method",
        "log-odds of an error, less the best's",
        "p (Holm)",
        "p, other places",
        "points behind (90 % interval)",
        "practically equal",
        "mean rank",
    )
    return table(head, lines)


def places(alike: pd.DataFrame) -> str:
    """A row per method where every place weighs alike, the best first."""
    lines = [
        [
            row["method"],
            f"{row['places']}",
            f"{row['effect']:.2f}",
            *(
                "" if pd.isna(row[p]) else f"{row[p]:.2g}" if row[p] > 1e-99 else "< 1e-99"
                for p in ("seeds", "chance")
            ),
            f"{row['behind']:.1f} ({row['low']:.1f} to {row['high']:.1f})",
        ]
        for row in alike.to_dict("records")
    ]
    head = (
        "method",
        "places",
        "log-odds of an error, less the best's",
        "p (Holm), seeds vary",
        "p (Holm), places vary",
        "points behind (90 % interval)",
    )
    return table(head, lines)


def figure(ranked: pd.DataFrame) -> Figure:
    """Mean ranks on a line; a bar joins methods whose ranks the places do not tell apart."""
    width, chance = analysis.difference(ranked)
    mean = ranked.mean().sort_values()
    drawn = canvas(7, 0.22 * len(mean) + 1)
    axes = drawn.subplots()
    axes.scatter(mean, range(len(mean)), color="black", zorder=2)
    for place, (name, rank) in enumerate(mean.items()):
        reach = mean[mean <= rank + width].iloc[-1]
        axes.plot([rank, reach], [place, place], color="0.7", linewidth=3, zorder=1)
        axes.annotate(f"{name}  ", (rank, place), ha="right", va="center", fontsize="small")
    axes.set(
        xlim=(min(0, mean.iloc[0] - 0.2 * len(mean)), len(mean)),
        yticks=[],
        ylim=(len(mean), -1),
        xlabel=f"mean rank over {len(ranked)} places; a bar reaches to the last method that is not "
        f"told apart\n(critical difference {width:.1f}; Friedman's p {chance:.2g})",
    )
    return drawn


EXPERIMENT = Experiment(
    show,
    tasks=lambda scale: SCALES[scale].tasks,
    rows=lambda scale: ROWS,
    what="tasks and methods",
    adds=True,
    plan=lambda asked: stages(asked).plan(),
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the methods, the tasks, and what the CSV files say."""
    lines = [
        [
            name,
            f"`{row.spelled}`".replace("|", "\\|"),
            ", ".join(map(str, row.strengths)) if row.strengths[0] is not None else "",
            row.kind,
            row.source,
        ]
        for name, row in ROWS.items()
    ]
    tasks = [
        [
            name,
            task.task.rpartition(":")[2].lower(),
            task.partition,
            f"{task.clients}" + (f", {task.cohort} per round" if task.cohort else ""),
            f"{task.batch_size or 'own'}",
            f"{task.iterations}",
            f"{task.seeds}",
        ]
        for name, task in TASKS.items()
    ]
    head = ("name", "task", "samples by", "clients", "batch", "iterations", "seeds")
    made = {
        "methods": table(("name", "method", "knob", "kind", "source"), lines),
        "tasks": table(head, tasks),
    }
    for name in TASKS:
        if (results / name / "means.csv").exists():
            means = pd.read_csv(results / name / "means.csv")
            made[f"{name}/scores"] = scores(means)
            made[f"{name}/costs"] = costs(means, 0.00333)
    if (results / "verdict.csv").exists():
        made["verdict"] = verdict(pd.read_csv(results / "verdict.csv"))
        made["places"] = places(pd.read_csv(results / "places.csv"))
        left = pd.read_csv(results / "leaving.csv").fillna("none")
        made["leaving"] = table(("without", "best", "not told from it"), left.to_numpy().tolist())
        made |= answers(results) | masking_tables(results)
    return made | coder_tables(results / "coders")
