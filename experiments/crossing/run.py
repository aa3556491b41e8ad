"""At equal upstream bits: random masks beside the largest entries, over budgets and lengths.

Run: ``fedsim experiment crossing --only digits_iid,digits_skewed,125,500 --jobs 2``
Run: ``fedsim experiment crossing --data DIR --jobs 2``
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table, write_csv
from fedsim import Results
from fedsim.show.plot import save

from . import law as laws
from .answer import answers
from .rows import BESIDE, DENSE, MASK, ROWS, SCALES, SETTINGS, TOPK
from .stages import Stages

FRAMES = ("trials", "finals")


def show(asked: Asked, results: Results | None) -> Shown:
    """Runs a setting's lengths, the shortest first; tables of it, and above it those of all."""
    scale = SCALES[asked.scale]
    lengths = SETTINGS[asked.task].lengths or scale.lengths
    wanted = [n for n in lengths if not asked.rows or str(n) in asked.rows]
    for iterations in wanted:
        stages = Stages(asked.task, scale, iterations, asked.out, asked.jobs, asked.data)
        for name, frame in zip(FRAMES, stages.frames(), strict=True):
            write_csv(asked.out / f"{name}-{iterations}.csv", frame)
    trials, finals = read(asked.out.parent, asked.scale)
    told = laws.differences(trials, finals)
    for name, frame in tables(trials, finals).items():
        write_csv(asked.out.parent / f"{name}.csv", frame)
    save(figure(told), asked.out.parent / "crossing.png")
    mine = finals[finals["setting"] == asked.task]
    return Shown({"means": laws.means(mine)}, {"means": scores(laws.means(mine))})


def read(folder: Path, scale: str = "short") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trials and finals of all settings in a folder, of the lengths that the scale has."""
    made = []
    for name in FRAMES:
        paths = [
            folder / setting / f"{name}-{n}.csv"
            for setting in SCALES[scale].settings
            for n in sorted(SETTINGS[setting].lengths or SCALES[scale].lengths, key=str)
        ]
        there = [pd.read_csv(path) for path in paths if path.exists()]
        made.append(pd.concat(there, ignore_index=True))
    return made[0], made[1]


def compared(trials: pd.DataFrame, finals: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The differences that the law is tested on: as planned, then in two other ways."""
    planned = laws.differences(trials, finals)
    limits = laws.differences(*laws.as_limits(trials, finals))
    return {"all": planned, "equal bits": laws.of_equal_bits(planned), "smaller budgets": limits}


def tables(trials: pd.DataFrame, finals: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What the runs say, by the names of CSV files."""
    told = laws.differences(trials, finals)
    found = {"differences": told, "collapses": laws.collapses(finals)}
    if told["x"].nunique() > 2:
        found["law"] = pd.DataFrame(
            [
                {"of": name, **asdict(laws.law(part))}
                for name, part in compared(trials, finals).items()
                if part["x"].nunique() > 2
            ]
        )
    return found


def scores(means: pd.DataFrame) -> str:
    """A row per length and budget, a column per method: the mean in per cent ± the deviation.

    Bold: the mask and the top-k method of the highest mean there.
    """
    names = [name for name in ROWS if name in set(means["method"]) and name != DENSE]
    lines = []
    for iterations in sorted(means["iterations"].unique()):
        own = means[means["iterations"] == iterations]
        dense = own[own["method"] == DENSE].iloc[0]
        lines.append([f"{iterations}", "dense", _cell(dense, False), *[""] * (len(names) - 1)])
        for budget in sorted(own["budget"].dropna().unique(), reverse=True):
            here = own[own["budget"] == budget].set_index("method")
            tops = [
                here.loc[[n for n in names if ROWS[n].kind == kind and n in here.index], "mean"]
                for kind in (MASK, TOPK)
            ]
            bold = {top.idxmax() for top in tops if len(top)}
            lines.append(
                [
                    f"{iterations}",
                    f"{budget:g}",
                    *(_cell(here.loc[n], n in bold) if n in here.index else "—" for n in names),
                ]
            )
    return table(("iterations", "budget", *names), lines)


def _cell(row: pd.Series, bold: bool) -> str:
    text = f"{row['mean']:.1f} ± {row['sd']:.1f}"
    return f"**{text}**" if bold else text


def places(told: pd.DataFrame) -> str:
    """A row per place: what met, how often an entry was sent, and the mask's gain in points."""
    in_order = told.assign(by=pd.factorize(told["setting"])[0]).sort_values(
        ["by", "iterations", "budget"], ascending=[True, True, False], kind="stable"
    )
    grouped = in_order.groupby(laws.PLACE, sort=False)
    lines = [
        [
            setting,
            f"{iterations}",
            f"{budget:g}",
            part["mask"].iloc[0],
            part["topk"].iloc[0],
            f"{10 ** part['x'].iloc[0]:.2g}",
            f"{part['bits'].mean():.2g}",
            f"{part['points'].mean():+.1f} ± {part['points'].std():.1f}",
            f"{part['gain'].mean():+.2f}",
        ]
        for (setting, iterations, budget), part in grouped
    ]
    head = ("setting", "iterations", "budget", "mask", "top-k", "R p", "bits", "points", "log-odds")
    return table(head, lines)


def collapsed(frame: pd.DataFrame) -> str:
    """A row per method: runs, how many collapsed, and the interval of their share."""
    lines = [
        [
            row["method"],
            f"{row['runs']}",
            f"{row['collapsed']}",
            f"{100 * row['low']:.1f} to {100 * row['high']:.1f}",
        ]
        for row in frame.to_dict("records")
    ]
    return table(("method", "runs", "collapsed", "95 % interval (%)"), lines)


def verdict(frame: pd.DataFrame) -> str:
    """The test of all places, of those of equal bits, and where a part of a budget may be left."""
    lines = []
    for row in frame.to_dict("records"):
        low, at, high = (f"{10 ** row[name]:.2g}" for name in ("low", "crossing", "high"))
        found = "none: any is in it" if (low, high) == ("0", "inf") else f"{low} to {high}"
        lines.append(
            [
                row["of"],
                f"{row['places']:.0f}",
                f"{row['runs']:.0f}",
                f"{row['slope']:.3f} ± {row['error']:.3f}",
                f"{row['chance']:.2f}" if row["chance"] > 0.01 else f"{row['chance']:.1g}",
                "none" if at == "nan" else at,
                found,
            ]
        )
    head = (
        "of",
        "places",
        "runs",
        "slope",
        "likelihood ratio's p",
        "crossing at R p",
        "95 % interval",
    )
    return table(head, lines)


def figure(told: pd.DataFrame) -> Figure:
    """The mask's gain over rounds times the fraction, a mark per place, a colour per setting."""
    drawn = canvas(7, 4.2)
    axes = drawn.subplots()
    for colour, (setting, part) in zip(COLOURS, told.groupby("setting", sort=False), strict=False):
        every = part.groupby(laws.PLACE)
        x, gain, sd = 10 ** every["x"].mean(), every["gain"].mean(), every["gain"].std()
        axes.errorbar(x, gain, sd / every.size() ** 0.5, fmt="o", color=colour, label=setting)
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set(
        xscale="log",
        xlabel="R p: how often the mask sends an entry in the whole run",
        ylabel="log-odds of an error, top-k less mask\n(above 0: the mask is better; bars: "
        "standard errors)",
    )
    axes.legend(fontsize="small", loc="lower right")
    grids([axes])
    return drawn


EXPERIMENT = Experiment(
    show,
    tasks=lambda scale: SCALES[scale].settings,
    rows=lambda scale: tuple(str(n) for n in SCALES[scale].lengths),
    what="settings and lengths",
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the methods, and what the CSV files say."""
    lines = [
        [
            name,
            f"`{row.text}`".replace("|", "\\|"),
            "" if row.kind == BESIDE else row.kind,
            row.source,
        ]
        for name, row in ROWS.items()
    ]
    made = {"methods": table(("name", "method", "kind", "source"), lines)}
    if not (results / "differences.csv").exists():
        return made
    made["places"] = places(pd.read_csv(results / "differences.csv"))
    made["collapses"] = collapsed(pd.read_csv(results / "collapses.csv"))
    if (results / "law.csv").exists():
        made["law"] = verdict(pd.read_csv(results / "law.csv"))
        made |= answers(results, read(results)[1])
    return made | {
        f"{name}/means": scores(pd.read_csv(results / name / "means.csv"))
        for name in SETTINGS
        if (results / name / "means.csv").exists()
    }
