"""DeepReduce's figures: Bloom filters for indices, fitted curves for values.

    python -m fedsim experiment deepreduce --scale short --data DIR

``--only`` takes tasks, rows or both; the results of a task are in a folder of its name. Runs that
are there are not run again; times are measured anew at every call.
"""

import sys
from pathlib import Path

import pandas as pd
from torch import Tensor, autograd, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "topk-cnat"))
sys.path.insert(0, str(Path(__file__).parent))  # the other two files stand beside this one
from deepreduce_figures import FIGURES, has_rows
from deepreduce_rows import DOZEN, ROWS, predicted_percent
from run_curves import learning, rows_of, shown
from task_lengths import DEAR, Length, split_only

from fedsim import measure
from fedsim.federation.trainer import build_model
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.runs.launch import run_shown
from fedsim.runs.sweep import Cell
from fedsim.tasks import get_task

SMOKE = [
    "dense", "topr", "topr-p0-0.01", "topr-p1-0.01", "randr-p2-0.1", "rle", "fit-poly",
    "skcompress", "3lc",
]  # fmt: skip
TASKS = {
    "digits": {"smoke": Length(2, 8, 1, clients=2)},
    "fashion_lenet5": {
        "short": Length(200, 32, 1, evaluations=8), "paper": Length(2000, 128, 3, evaluations=8),
    },
    **DEAR,
}  # fmt: skip
"""A row a task and scale; the paper's own task is ResNet-20 on CIFAR-10."""
NAMES = {"digits": SMOKE, "fashion_lenet5": list(ROWS)}
"""The rows of a task; ``DOZEN`` of the others."""
TIMED = ("digits", "fashion_lenet5")
"""Tasks on whose gradient encoding and decoding are timed (Figure 10b)."""
SAMPLES = 128  # of the gradient on which encoding and decoding are timed
BITS = {"index": "position", "value": "value", "side": "side", "header": "header"}


def cells(task: str, names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run a method and seed, without momentum masking: that is not of this paper."""
    size = TASKS[task][scale]
    return [
        Cell(f"{name}-seed{seed}", size.config(task, ROWS[name].method, seed, data, "off"))
        for seed in range(size.seeds)
        for name in names
    ]


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks and rows in ``only`` (default: all; smoke: digits); 1 if a run failed."""
    known = [name for name, sizes in TASKS.items() if scale in sizes]
    tasks, names = split_only(only, known, ROWS)
    tasks = tasks or known[: 1 if scale == "smoke" else None]
    return max(_task(t, names or NAMES.get(t, DOZEN), scale, out / t, jobs, data) for t in tasks)


def _task(task: str, names: list[str], scale: str, out: Path, jobs: int, data: str | None) -> int:
    results = run_shown(cells(task, names, scale, data), out, jobs)
    if results is None:
        return 1
    runs = results.runs
    frame, curves = collect(runs, task, data), learning(results)
    if task in TIMED:
        frame = frame.merge(times(runs, task, scale, data), on="name")
    write_text(out / "tables.csv", frame.to_csv(index=False, float_format="%.6g"))
    write_text(out / "curves.csv", curves.to_csv(index=False, float_format="%.6g"))
    text = f"{task}: {runs['data_source'].iloc[0]}\n\n{markdown(frame)}"
    write_text(out / "tables.md", text)
    for name, draw in FIGURES.items():
        if has_rows(name, frame):
            save(draw(frame, curves), out / f"{name}.png")
    print(text)
    return 0


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its scores and volumes in ``results``."""
    named = [name for name, sizes in TASKS.items() if "short" in sizes]
    return {name: volume_table(pd.read_csv(results / name / "tables.csv")) for name in named}


def volume_table(frame: pd.DataFrame) -> str:
    """The table of ``markdown`` with a digit more, and without headers and times."""
    lines = [
        f"| method | {frame['metric'].iloc[0]} | volume | index | value | side | formula |",
        "| --- " * 7 + "|",
    ]
    for row in frame.to_dict("records"):
        named = ("wire", "index", "value", "side", "predicted")
        parts = [row[f"{part}_percent"] for part in named]
        shown_ = ("" if pd.isna(part) else f"{part:.4g} %" for part in parts)
        lines.append(f"| {row['title']} | {row['score']:.2f} | {' | '.join(shown_)} |")
    return "\n".join(lines) + "\n"


def collect(runs: pd.DataFrame, name_of_task: str, data: str | None) -> pd.DataFrame:
    """A row a method: score over seeds, bits a client sent in all, and shares of dense float32.

    ``score`` is accuracy in per cent, or perplexity. ``*_percent`` of wire, index, value, side,
    header and buffer are per cent of 32 bits an entry and iteration. ``wire`` is the updates'
    whole messages; ``buffer`` is BatchNorm's statistics, beside them in messages of their own.
    ``predicted_percent`` is the formulas' volume of a Bloom filter with its values.
    """
    task, metric = get_task(name_of_task), runs["metric_name"].iloc[0]
    samples = task.load(Path(data) if data else None, False)
    sizes = [x.numel() for x in build_model(task, 0, samples).parameters()]
    rows = []
    for name, mine in runs.groupby(rows_of(runs.index), sort=False):
        row = ROWS[str(name)]
        dense_bits = 32 * mine["parameters"].iloc[0] * mine["iterations"].iloc[0]
        bloom = row.policy and row.policy != "naive"
        score = shown(mine["metric"], metric)
        bits = {
            "wire": (mine["up_wire_bits"] - mine["up_buffer_bits"]).mean(),
            "buffer": mine["up_buffer_bits"].mean(),
        }
        bits |= {part: mine[f"up_{column}_bits"].mean() for part, column in BITS.items()}
        rows.append(
            {
                "name": name, "title": row.title, "method": mine["method"].iloc[0],
                "figures": " ".join(map(str, row.figures)), "sparsifier": row.sparsifier,
                "policy": row.policy, "eps": row.eps, "seeds": len(mine),
                "iterations": mine["iterations"].iloc[0],
                "metric": metric, "score": score.mean(), "score_spread": score.std(ddof=1),
                "ratio_wire": mine["ratio_wire"].mean(),
                "sent_percent": 100 * mine["up_sent"].mean() / (dense_bits / 32),
                **{f"{part}_bits": count for part, count in bits.items()},
                **{f"{part}_percent": 100 * count / dense_bits for part, count in bits.items()},
                "predicted_percent":
                    predicted_percent(row, sizes) if bloom else float("nan"),
            }
        )  # fmt: skip
    order = {name: i for i, name in enumerate(ROWS)}
    return pd.DataFrame(rows).sort_values("name", key=lambda names: names.map(order))


def gradient(task_name: str, data: str | None) -> dict[str, Tensor]:
    """The gradient of the task's model, as initialised, over its first training samples."""
    task = get_task(task_name)
    model, samples = build_model(task, 0), task.load(Path(data) if data else None, False)
    named: dict[str, nn.Parameter] = dict(model.named_parameters())
    loss = task.loss(model(samples.train_x[:SAMPLES]), samples.train_y[:SAMPLES])
    return dict(zip(named, autograd.grad(loss, list(named.values())), strict=True))


def times(runs: pd.DataFrame, task: str, scale: str, data: str | None) -> pd.DataFrame:
    """Milliseconds to encode and decode one update, by method: the median of repeats, one thread.

    The rows are those of ``runs``; each message is the method's first, memory included.
    """
    names = list(dict.fromkeys(rows_of(runs.index)))
    methods = {name: ROWS[name].method for name in names}
    repeat = 1 if scale == "smoke" else 15
    table = measure(gradient(task, data), list(methods.values()), repeat=repeat)
    if (table["error"] != "").any():
        raise RuntimeError("; ".join(table["error"]))
    by_method = table.set_index("method")
    found = by_method.loc[list(methods.values()), ["compress_ms", "decompress_ms"]]
    return found.set_axis(["encode_ms", "decode_ms"], axis=1).assign(name=names)


def markdown(frame: pd.DataFrame) -> str:
    """Every row: score, volume, its parts and what the formulas say, and times if measured."""
    timed = "encode_ms" in frame
    lines = [
        f"| method | {frame['metric'].iloc[0]} | volume | index | value | side | header | formula |"
        + (" encode ms | decode ms |" if timed else ""),
        "| --- " * (10 if timed else 8) + "|",
    ]
    for row in frame.to_dict("records"):
        parts = " | ".join(
            f"{row[f'{part}_percent']:.3g} %" for part in ("wire", "index", "value", "side")
        )
        said = "" if pd.isna(row["predicted_percent"]) else f"{row['predicted_percent']:.4g} %"
        end = f" {row['encode_ms']:.2f} | {row['decode_ms']:.2f} |" if timed else ""
        lines.append(
            f"| {row['title']} | {row['score']:.2f} | {parts} | "
            f"{row['header_percent']:.2g} % | {said} |{end}"
        )
    return "\n".join(lines) + "\n"
