"""DeepReduce's figures: Bloom filters for indices, fitted curves for values.

    python -m fedsim experiment deepreduce --scale short --data DIR

Runs that are in the results folder are not run again; times are measured anew at every call.
"""

import sys
from pathlib import Path

import pandas as pd
from torch import Tensor, autograd, nn

sys.path.insert(0, str(Path(__file__).parent))  # the other two files stand beside this one
from deepreduce_figures import FIGURES
from deepreduce_rows import ROWS, predicted_percent

from fedsim import RunConfig, measure
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.shown import chosen, run_shown
from fedsim.sweeps import Cell
from fedsim.tasks import get_task
from fedsim.trainer import build_model

SCALES = {
    "smoke": ("digits", 2, 8, 1),
    "short": ("fashion_lenet5", 200, 32, 1),
    "paper": ("fashion_lenet5", 2000, 128, 3),
}
"""Task, local iterations, batch size, seeds; the paper's own task is ResNet-20 on CIFAR-10."""
SMOKE = [
    "dense", "topr", "topr-p0-0.01", "topr-p1-0.01", "randr-p2-0.1", "rle", "fit-poly",
    "skcompress",
]  # fmt: skip
SAMPLES = 128  # of the gradient on which encoding and decoding are timed
BITS = {"index": "position", "value": "value", "side": "side", "header": "header"}


def cells(names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run a method and seed, without momentum masking: that is not of this paper."""
    task, iterations, batch_size, seeds = SCALES[scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task=task, method=ROWS[name].method, temporal=1, seed=seed, data=data,
                iterations=iterations, batch_size=batch_size, evaluate_every=-(-iterations // 8),
                momentum_masking="off", clients=2 if scale == "smoke" else None,
            ),
        )
        for seed in range(seeds)
        for name in names
    ]  # fmt: skip


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the methods in ``only`` (default: all); 1 if a run failed."""
    names = chosen(only, ROWS, default=SMOKE if scale == "smoke" else None)
    found = cells(names, scale, data)
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    runs = results.runs
    frame = collect(runs, SCALES[scale][0]).merge(times(runs, scale, data), on="name")
    curves = learning(results.rounds)
    write_text(out / "tables.csv", frame.to_csv(index=False, float_format="%.6g"))
    write_text(out / "curves.csv", curves.to_csv(index=False, float_format="%.6g"))
    text = markdown(frame)
    write_text(out / "tables.md", text)
    for name, draw in FIGURES.items():
        save(draw(frame, curves), out / f"{name}.png")
    print(text)
    return 0


def _rows_of(cell_names: pd.Index | pd.Series) -> list[str]:
    return [str(cell).rpartition("-seed")[0] for cell in cell_names]


def collect(runs: pd.DataFrame, task: str) -> pd.DataFrame:
    """A row a method: accuracy over seeds, bits a client sent in all, and shares of dense float32.

    ``*_percent`` of wire, index, value, side and header are per cent of 32 bits an entry and
    iteration; ``predicted_percent`` is the formulas' volume of a Bloom filter with its values.
    """
    sizes = [x.numel() for x in build_model(get_task(task), 0).parameters()]
    rows = []
    for name, mine in runs.groupby(_rows_of(runs.index), sort=False):
        row = ROWS[str(name)]
        dense_bits = 32 * mine["parameters"].iloc[0] * mine["iterations"].iloc[0]
        bloom = row.policy and row.policy != "naive"
        bits = {"wire": mine["up_wire_bits"].mean()}
        bits |= {part: mine[f"up_{column}_bits"].mean() for part, column in BITS.items()}
        rows.append(
            {
                "name": name, "title": row.title, "method": mine["method"].iloc[0],
                "figures": " ".join(map(str, row.figures)), "sparsifier": row.sparsifier,
                "policy": row.policy, "eps": row.eps, "seeds": len(mine),
                "iterations": mine["iterations"].iloc[0],
                "accuracy_percent": 100 * mine["metric"].mean(),
                "accuracy_spread": 100 * mine["metric"].std(ddof=0),
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


def times(runs: pd.DataFrame, scale: str, data: str | None) -> pd.DataFrame:
    """Milliseconds to encode and decode one update, by method: the median of repeats, one thread.

    The rows are those of ``runs``; each message is the method's first, memory included.
    """
    names = list(dict.fromkeys(_rows_of(runs.index)))
    methods = {name: ROWS[name].method for name in names}
    repeat = 1 if scale == "smoke" else 15
    table = measure(gradient(SCALES[scale][0], data), list(methods.values()), repeat=repeat)
    if (table["error"] != "").any():
        raise RuntimeError("; ".join(table["error"]))
    by_method = table.set_index("method")
    found = by_method.loc[list(methods.values()), ["compress_ms", "decompress_ms"]]
    return found.set_axis(["encode_ms", "decode_ms"], axis=1).assign(name=names)


def learning(rounds: pd.DataFrame) -> pd.DataFrame:
    """Accuracy over iterations and wire bits a client: the means over seeds, a row a moment."""
    table = rounds.assign(name=_rows_of(rounds["run"]))
    share = table["up_wire_bits"] / table["clients"]
    table["up_bits"] = share.groupby(table["run"]).cumsum()
    table = table[table["metric"].notna()]
    mean = table.groupby(["name", "iteration"], sort=False)[["up_bits", "metric"]].mean()
    return mean.reset_index().rename(columns={"metric": "accuracy"})


def markdown(frame: pd.DataFrame) -> str:
    """Every row: accuracy, volume, its parts and what the formulas say, and times."""
    lines = [
        "| method | accuracy | volume | index | value | side | header | formula "
        "| encode ms | decode ms |", "| --- " * 10 + "|",
    ]  # fmt: skip
    for row in frame.to_dict("records"):
        parts = " | ".join(
            f"{row[f'{part}_percent']:.3g} %" for part in ("wire", "index", "value", "side")
        )
        said = "" if pd.isna(row["predicted_percent"]) else f"{row['predicted_percent']:.4g} %"
        lines.append(
            f"| {row['title']} | {row['accuracy_percent']:.2f} | {parts} | "
            f"{row['header_percent']:.2g} % | {said} | "
            f"{row['encode_ms']:.2f} | {row['decode_ms']:.2f} |"
        )
    return "\n".join(lines) + "\n"
