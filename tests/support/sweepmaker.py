"""Folders of results as runs and sweeps write them, with made-up but plausible numbers."""

import json
import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.results.labels import MethodText, with_labels
from fedsim.results.schema import frame
from fedsim.settings.config import SETTINGS
from fedsim.settings.methods import recorded

PARAMETERS = 5_000
ITERATIONS = 200
CLIENTS = 4

SBC = "ef(per_tensor(one_sided({p}) | mean | golomb), mask=true)"
TOPK = "ef(per_tensor(topk({p}) | float32 | golomb))"

_NAMES = {SBC: "sbc", TOPK: "gradient_dropping"}
"""What a user types for these."""

Cell = tuple[int, float]


def cell_name(temporal: int, gradient: float, seed: int) -> str:
    """The folder name of a cell."""
    return f"n{temporal}-p{gradient:g}-s{seed}"


def rounds_frame(temporal: int, gradient: float, seed: int, perplexity: bool) -> pd.DataFrame:
    """A `rounds.parquet`: the metric nears its end exponentially, evaluated every other round."""
    count = ITERATIONS // temporal
    rounds = np.arange(1, count + 1)
    table = pd.DataFrame({"round": rounds, "iteration": rounds * temporal})
    table["local_iterations"], table["clients"], table["failures"] = temporal, CLIENTS, 0
    end = 0.98 - 0.002 * np.log10(temporal / gradient) ** 2 + 0.001 * seed
    learnt = 1 - np.exp(-5 * table["iteration"] / ITERATIONS)
    metric = 90 - 60 * end * learnt if perplexity else end * learnt
    table["metric"] = metric.where((rounds % 2 == 0) | (rounds == count))
    table["loss"] = 2.3 * (1 - learnt) + 0.1
    table["train_loss"] = table["loss"]
    sent = PARAMETERS if gradient == 1 else max(1, round(gradient * PARAMETERS))
    split = {"header": 64, "position": 0, "value": 32 * sent, "side": 0}
    if gradient != 1:
        split = {"header": 72, "position": round(8.1 * sent), "value": 0, "side": 320}
    for part, number in split.items():
        table[f"up_{part}_bits"] = CLIENTS * number
        table[f"down_{part}_bits"] = CLIENTS * {"header": 64, "value": 32 * PARAMETERS}.get(part, 0)
    for way in ("up", "down"):
        content = sum(table[f"{way}_{part}_bits"] for part in ("position", "value", "side"))
        table[f"{way}_content_bits"] = content
        table[f"{way}_wire_bits"] = content + table[f"{way}_header_bits"]
    table["up_sent"] = CLIENTS * sent
    for part in ("", "train_", "encode_", "decode_", "downlink_", "evaluate_"):
        table[f"{part}seconds"] = 0.01
    return table


def layers_frame(rounds: pd.DataFrame, gradient: float) -> pd.DataFrame:
    """A `layers.parquet`: two tensors, in the rounds that were evaluated."""
    rows = [
        {"round": number, "tensor": name, "entries": entries, "sent": gradient * entries}
        for number in rounds.loc[rounds["metric"].notna(), "round"]
        for name, entries in (("fc.weight", 4900), ("fc.bias", 100))
    ]
    return pd.DataFrame(rows)


def summary(
    rounds: pd.DataFrame,
    temporal: int,
    gradient: float,
    seed: int,
    perplexity: bool,
    form: str = SBC,
) -> dict[str, Any]:
    """The cell of a run that is done; `form`: the method, `{p}` for its fraction."""
    names = [name for name in rounds.columns if name.endswith("_bits")]
    sums = rounds[names].div(rounds["clients"], axis=0).sum()
    per_client = {name: float(sums[name]) for name in names}
    dense_bits = 32 * PARAMETERS * ITERATIONS
    method = form.replace("{p}", f"{gradient:g}") if gradient < 1 else "raw"
    typed = recorded(_NAMES.get(form, form) if gradient < 1 else "raw", method, gradient)
    return {
        "task": "digits", "method": method, "temporal": temporal, "gradient": gradient,
        "seed": seed, "clients": CLIENTS, "iterations": ITERATIONS, "rounds": len(rounds),
        "parameters": PARAMETERS,
        "metric_name": "perplexity" if perplexity else "accuracy",
        "higher_is_better": not perplexity,
        "metric": float(rounds["metric"].iloc[-1]), "loss": float(rounds["loss"].iloc[-1]),
        **{name: per_client[name] for name in names if name.startswith("up_")},
        "down_wire_bits": per_client["down_wire_bits"],
        "down_content_bits": per_client["down_content_bits"],
        "ratio_wire": dense_bits / per_client["up_wire_bits"],
        "ratio_content": dense_bits / per_client["up_content_bits"],
        **{f"{way}_bits_per_client": per_client[f"{way}_bits"]
           for way in ("up_wire", "up_content", "down_wire")},
        "failures": 0, "failure_reasons": "", "failed_up_bits": 0,
        "total_sparsity": gradient / temporal, "up_sent": float(rounds["up_sent"].sum()),
        "seconds": float(rounds["seconds"].sum()), "data_source": "scikit-learn, embedded",
        "engine": "local", "status": "done", "error": None, "told": typed,
    }  # fmt: skip


@cache
def _tables(
    temporal: int, gradient: float, seed: int, perplexity: bool
) -> tuple[pd.DataFrame, bytes, bytes]:
    """The rounds, and what is in ``rounds.parquet`` and ``layers.parquet``: tests ask for a few."""
    rounds = rounds_frame(temporal, gradient, seed, perplexity)
    layers = layers_frame(rounds, gradient)
    return rounds, rounds.to_parquet(index=False), layers.to_parquet(index=False)


def make_run(
    folder: Path,
    temporal: int = 10,
    gradient: float = 0.01,
    seed: int = 0,
    failed: bool = False,
    perplexity: bool = False,
    form: str = SBC,
    **changes: Any,
) -> dict[str, Any]:
    """Writes a run's folder and returns its cell; `changes` replace fields of the cell."""
    folder.mkdir(parents=True)
    rounds, *tables = _tables(temporal, gradient, seed, perplexity)
    cell = summary(rounds, temporal, gradient, seed, perplexity, form)
    if failed:
        keep = ("task", "method", "temporal", "gradient", "seed", "metric_name", "told")
        cell = {name: cell[name] if name in keep else None for name in cell}
        cell |= {"status": "failed", "error": "RunFailed: a weight is not finite in round 3"}
        (folder / "error.txt").write_text(f"Traceback (most recent call last):\n{cell['error']}\n")
    else:
        for name, content in zip(("rounds", "layers"), tables, strict=True):
            (folder / f"{name}.parquet").write_bytes(content)
    if "method" in changes:
        cell["told"] = recorded(changes["method"], changes["method"], gradient)
    cell |= changes
    (folder / "summary.json").write_text(json.dumps(cell))
    settings = {name: cell[name] for name in ("task", "method", "temporal", "gradient", "seed")}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    clients = ['clients.partition = "iid"', "clients.count = 4"]
    (folder / "config.toml").write_text("\n".join([*lines, *clients]))
    environment = {"python": "3.11.9", "packages": {"torch": "2.15.0", "flwr": "1.41.0"}}
    (folder / "environment.json").write_text(json.dumps(environment))
    return cell


def make_sweep(
    root: Path,
    temporals: Sequence[int] = (1, 10, 100),
    gradients: Sequence[float] = (1, 0.1, 0.01, 0.001),
    seeds: Sequence[int] = (0,),
    baseline: bool = True,
    failed: Collection[Cell] = (),
    missing: Collection[Cell] = (),
    unfinished: Collection[Cell] = (),
    **options: Any,
) -> list[dict[str, Any]]:
    """Writes a sweep's folder and returns the cells that have a summary, as their folders sort."""
    grid = [(n, p) for n in temporals for p in gradients]
    grid += [(1, 1)] if baseline and (1, 1) not in grid else []
    cells = {}
    for n, p in grid:
        for seed in seeds:
            name = cell_name(n, p, seed)
            if (n, p) in unfinished:
                (root / "cells" / name / "checkpoint").mkdir(parents=True)
            elif (n, p) not in missing:
                folder = root / "cells" / name
                cells[name] = make_run(folder, n, p, seed, (n, p) in failed, **options)
    (root / "sweep.toml").write_text('task = "digits"\nmethod = "sbc({p})"\n')
    return [cells[name] for name in sorted(cells)]


def make_cell(
    temporal: int, gradient: float, metric: float, bits: float = 8.0, **more: Any
) -> dict[str, Any]:
    """The cell of a run without a folder, with just what tables and figures need."""
    named = {} if "method" in more or gradient == 1 else {"typed": "sbc({p})"}
    return (
        {
            "task": "digits",
            "method": f"sbc({gradient:g})" if gradient < 1 else "raw",
            "temporal": temporal,
            "gradient": gradient,
            "seed": 0,
            "metric_name": "accuracy",
            "higher_is_better": True,
            "metric": metric,
            "up_content_bits": bits,
            "ratio_content": 1 / bits,
            "up_wire_bits": bits,
            "ratio_wire": 1 / bits,
            "total_sparsity": gradient / temporal,
            "status": "done",
        }
        | named
        | more
    )


def rounds_of(label: str, bits: list[float], metric: list[float], **more: object) -> pd.DataFrame:
    """Rounds of one cell, from its upstream bits and its metric as they stand after each round."""
    count = len(bits)
    return pd.DataFrame(
        {
            "task": "t",
            "method": label,
            "temporal": 1,
            "gradient": 0.1,
            "seed": 0,
            "label": label,
            "dense": False,
            "ends_dense": False,
            "run": label,
            "round": range(1, count + 1),
            "iteration": range(1, count + 1),
            "clients": 2,
            "metric": metric,
            "up_wire_bits": [2 * b for b in np.diff([0, *bits])],
            "up_content_bits": [3 * b for b in np.diff([0, *bits])],
        }
        | more
    )


def runs_of(cells: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The frame of cells without folders, as `fedsim.load(...).runs`: what a cell has under `typed`
    and `name`, its run was told."""
    facts = [
        MethodText(
            *recorded(cell.get("typed", cell["method"]), cell["method"], cell["gradient"]).values(),
            name=cell.get("name", ""),
        )
        for cell in cells
    ]
    plain = [{k: v for k, v in cell.items() if k not in ("typed", "name")} for cell in cells]
    return with_labels(frame(plain), facts)


def say(root: Path, line: str, cells: str = "*") -> None:
    """Adds lines ``NAME = VALUE``, names as flags have them, to the config.toml of cells."""
    for name, one in SETTINGS.items():
        if one.group:
            line = re.sub(rf"^{name} =", f"{one.group}.{one.attr} =", line, flags=re.MULTILINE)
    for file in root.glob(f"cells/{cells}/config.toml"):
        file.write_text(file.read_text() + f"\n{line}")
