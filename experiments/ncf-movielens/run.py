"""NCF on MovieLens: DeepReduce's Table 2 and natural compression's Figure 11.

    fedsim experiment ncf-movielens --scale short --data DIR

Clients send gradients and the task's Adam steps at the server, as in both papers.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from compressors import compress, parse
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import of_row
from experiments.common.tables import spread, table
from fedsim import Cell, Data, Evaluation, Machine, Results, RunConfig, Training
from fedsim.federation import ClientData, Trainer
from fedsim.tasks import get_task

from .figures import curves, figure

SCALES = {
    "smoke": (2, 2, 50, 1),
    "short": (160, 2, 1800, 2),
    "paper": (750, 4, 200_000, 3),
}
"""Local iterations, clients, ratings per client and iteration, seeds.

1,800 ratings and their negatives leave 39 % of a gradient zero here, the published 10^6 samples
about 40 % on ml-20m: volumes can be compared.
"""
ONCE = ("updates",)
"""One seed at the short scale: it is of neither paper."""
SMOKE = ("dense", "skcompress", "p0-qsgd", "cnat")
_QSGD = "dither(63, bucket=512)"  # 7 bits: a sign and a level in one of 127 symbols


@dataclass(frozen=True)
class Row:
    """A method: ``volume`` relative to dense float32 and best ``hit_rate`` as the paper prints."""

    name: str
    title: str
    method: str
    where: str
    volume: float | None = None
    hit_rate: float | None = None
    strategy: str = "gradients"


ROWS = {
    row.name: row
    for row in (
        Row("dense", "Baseline", "raw", "Table 2, Fig. 11", 1.0, 0.9497),
        Row(
            "p2-fit-poly",
            "BF-P2, Fit-Poly",
            "per_tensor(nonzero | fit_poly | bloom(0.01, p2))",
            "Table 2",
            0.5879,
            0.9519,
        ),
        Row(
            "skcompress",
            "SKCompress",
            "per_tensor(nonzero | sketch(128) | delta_huffman | huffman)",
            "Table 2",
            0.2175,
            0.9513,
        ),
        Row(
            "p0-qsgd",
            "BF-P0, QSGD",
            f"per_tensor(nonzero | {_QSGD} | bloom(0.6))",
            "Table 2",
            0.2063,
            0.9496,
        ),
        Row("cnat", "Natural compression", "cnat", "Fig. 11"),
        Row(
            "updates",
            "each client its own Adam",
            "per_tensor(nonzero | float32 | rle)",
            "",
            strategy="dsgd",
        ),
    )
}
"""No memory anywhere, as the authors of DeepReduce ran it. ``updates`` is of neither paper."""

COLUMNS = (
    "method",
    "of",
    "seeds",
    "relative volume",
    "paper",
    "best hit rate",
    "last",
    "paper",
    "sent",
)
POSITIONS = {
    "keys of 32 bits": "raw32",
    "Golomb": "golomb",
    "delta, Huffman": "delta_huffman",
    "Bloom 0.6, P0": "bloom(0.6)",
    "Bloom 0.01, P0": "bloom(0.01)",
    "run lengths": "rle",
}
"""How one gradient's positions can travel; all but a Bloom filter give exactly the nonzero."""


def cells(names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per method and seed."""
    iterations, clients, batch_size, seeds = SCALES[scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task="ncf",
                method=ROWS[name].method,
                strategy=ROWS[name].strategy,
                temporal=1,
                seed=seed,
                machine=Machine(data=data),
                clients=clients,
                iterations=iterations,
                training=Training(batch_size=batch_size),
                evaluation=Evaluation(every=max(2, iterations // 10)),
            ),
        )
        for seed in range(seeds)
        for name in names
        if not (seed and scale == "short" and name in ONCE)
    ]


def runs(asked: Asked) -> list[Cell]:
    """The runs of the methods that are asked for."""
    return cells(asked.rows or list(ROWS), asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """Table 2, the bits of positions, and the hit rate over rounds and bits."""
    config = runs(asked)[0].config
    federation = ClientData.of(config)
    guess, frame, lines = popularity(federation.data), collect(results), curves(results)
    positions = position_bits(gradient(config, federation))
    titles = {name: row.title for name, row in ROWS.items()}
    return Shown(
        {"table2": frame, "positions": positions, "curves": lines},
        {"tables": markdown(frame, positions, guess)},
        {"hits": figure(lines, titles, guess)},
    )


EXPERIMENT = Experiment(
    show,
    runs,
    rows=lambda scale: ROWS,
    default=lambda scale: SMOKE if scale == "smoke" else None,
    what="rows",
)


def popularity(data: Data) -> float:
    """The hit rate of a guess that knows no user: the items that most users rated in training."""
    assert isinstance(data.train_x, Tensor) and isinstance(data.test_x, Tensor)
    items = data.test_x[:, :, 1].long()
    count = max(int(items.max()), int(data.train_x[:, 1].max())) + 1
    rated = data.train_x[:, 1].long().bincount(minlength=count).float()
    hits = get_task("ncf").metric(rated[items], data.test_y)
    return float(hits) / len(items)


def gradient(config: RunConfig, federation: ClientData) -> dict[str, Tensor]:
    """What the first client sends in the first round, before it is compressed."""
    trainer = Trainer(config, federation)
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    return trainer.train(0, weights, {}, 0, 1).update


def position_bits(update: dict[str, Tensor]) -> pd.DataFrame:
    """A row per way of sending positions: bits per entry, and the volume with values of QSGD."""
    entries = sum(x.numel() for x in update.values())
    kept = int(sum(torch.count_nonzero(x) for x in update.values()))
    rows = []
    for title, code in POSITIONS.items():
        packet, _ = compress(parse(f"per_tensor(nonzero | {_QSGD} | {code})"), update)
        rows.append(
            {
                "title": title,
                "code": code,
                "entries": entries,
                "nonzero": kept,
                "zero_share": 1 - kept / entries,
                "position_bits_an_entry": packet.spans["positions"] / entries,
                "relative_volume": 8 * len(packet.payload) / (32 * entries),
            }
        )
    return pd.DataFrame(rows)


def collect(results: Results) -> pd.DataFrame:
    """A row per method: volume relative to dense float32, hit rates over seeds, what travelled."""
    rows = []
    best = results.rounds.groupby("run")["metric"].max()
    for name, row in ROWS.items():
        mine = of_row(results.runs, name)
        if mine.empty:
            continue
        entries = mine["parameters"] * mine["iterations"]
        hits = best[mine.index]
        rows.append(
            {
                "name": name,
                "title": row.title,
                "where": row.where,
                "seeds": len(mine),
                "method": mine["method"].iloc[0],
                "strategy": row.strategy,
                "iterations": mine["iterations"].iloc[0],
                "relative_volume": (mine["up_wire_bits"] / (32 * entries)).mean(),
                "sent_share": (mine["up_sent"] / entries).mean(),
                "best_hit_rate": hits.mean(),
                "best_spread": hits.std(ddof=1),
                "last_hit_rate": mine["metric"].mean(),
                "paper_volume": row.volume,
                "paper_hit_rate": row.hit_rate,
            }
        )
    return pd.DataFrame(rows)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``; popularity's hits are in ``checks.csv``."""
    checks = pd.read_csv(results / "checks.csv").set_index("what")["value"]
    guess = checks["users hit by popularity"] / checks["users"]
    return {
        "table2": hit_table(pd.read_csv(results / "table2.csv"), guess),
        "positions": position_table(pd.read_csv(results / "positions.csv")),
    }


def markdown(frame: pd.DataFrame, positions: pd.DataFrame, guess: float) -> str:
    """Table 2 and Figure 11, ours beside the paper's, and what positions take."""
    return (
        f"{hit_table(frame, guess)}\nFirst gradient of a client, "
        f"{100 * positions['zero_share'][0]:.1f} % zeros, with QSGD's values:\n\n"
        f"{position_table(positions)}"
    )


def hit_table(frame: pd.DataFrame, guess: float) -> str:
    """Table 2 and Figure 11, ours beside the paper's, below the guess that knows no user."""
    guessed = [f"{guess:.4f}"] * 2
    lines = [["popularity: no user, no training", "", "", "", "", *guessed, "", ""]]
    for row in frame.to_dict("records"):
        printed = ROWS[row["name"]]
        paper = ["" if x is None else f"{x:.4f}" for x in (printed.volume, printed.hit_rate)]
        lines.append(
            [
                row["title"],
                row["where"],
                f"{row['seeds']}",
                f"{row['relative_volume']:.4f}",
                paper[0],
                spread(row["best_hit_rate"], row["best_spread"], row["seeds"], 4),
                f"{row['last_hit_rate']:.4f}",
                paper[1],
                f"{100 * row['sent_share']:.1f} %",
            ]
        )
    return table(COLUMNS, lines)


def position_table(positions: pd.DataFrame) -> str:
    """What the positions of one gradient take, by code."""
    lines = [
        [
            row["title"],
            f"{row['position_bits_an_entry']:.3f}",
            f"{row['relative_volume']:.4f}",
        ]
        for row in positions.to_dict("records")
    ]
    return table(("positions", "bits per entry of the tensor", "relative volume"), lines)
