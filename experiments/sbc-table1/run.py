"""Table I of Sattler et al. 2018: what each component of a method saves, and what messages show.

Run: ``fedsim experiment sbc-table1 --data DIR``
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import of_task, table
from fedsim import Cell, Evaluation, Machine, Results, RunConfig, Training
from fedsim.measure.theory.positions import ideal_position_bits
from fedsim.measure.theory.tables import THEORY_TABLES

TASKS = ("digits", "mnist_lenet5", "fashion_lenet5")
SCALES = {"smoke": (2, 8), "short": (10, 32), "paper": (10, 128)}
"""Rounds, and batch size: bits per entry do not need a long run."""

THEORY = (
    "method",
    "temporal sparsity",
    "gradient sparsity",
    "value bits",
    "position bits",
    "compression",
    "printed",
)
MESSAGES = (
    "method",
    "temporal sparsity",
    "entries sent",
    "value bits",
    "position bits",
    "side bits per message",
    "header bits",
    "compression",
    "with headers",
    "theory",
)


@dataclass(frozen=True)
class Row:
    """A method of the table: its value bits as theory has them, and its delay."""

    title: str
    method: str
    value_bits: int
    temporal: int = 1
    masking: str = "auto"


ROWS = {
    "baseline": Row("baseline", "raw", 32),
    "sign": Row("signSGD", "sign(0.001)", 1),
    "terngrad": Row("TernGrad", "terngrad", 2),
    "qsgd": Row("QSGD, 127 levels", "qsgd(127)", 8),
    "dropping": Row("gradient dropping, Golomb", "gradient_dropping(0.001)", 32, masking="on"),
    "fedavg": Row("Federated Averaging", "raw", 32, 100),
    "sbc1": Row("SBC (1)", "sbc(0.001)", 0),
    "sbc2": Row("SBC (2)", "sbc(0.01)", 0, 10),
    "sbc3": Row("SBC (3)", "sbc(0.01)", 0, 100),
}


def cells(task: str, scale: str, data: str | None) -> list[Cell]:
    """A short run a method; long delays have fewer rounds, and ``smoke`` shorter delays."""
    rounds, batch_size = SCALES[scale]
    runs = []
    for name, row in ROWS.items():
        delay = min(row.temporal, rounds) if scale == "smoke" else row.temporal
        many = max(1, rounds // delay)
        config = RunConfig(
            task=task,
            method=row.method,
            temporal=delay,
            iterations=delay * many,
            clients=2,
            training=Training(batch_size=batch_size, momentum_masking=row.masking),
            evaluation=Evaluation(every=many),
            machine=Machine(data=data),
        )
        runs.append(Cell(name, config))
    return runs


def show(asked: Asked, results: Results) -> Shown:
    """What the messages of a task show, below the formulas."""
    frame = measured(results.runs)
    text = of_task(asked.task, results, markdown(frame))
    return Shown({"messages": frame}, {"tables": f"{theory()}\n{text}"})


EXPERIMENT = Experiment(
    show,
    lambda asked: cells(asked.task, asked.scale, asked.data),
    tasks=lambda scale: TASKS,
    default=lambda scale: ["digits" if scale == "smoke" else "mnist_lenet5"],
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the formulas, and the messages that are in ``results``."""
    frame = pd.read_csv(results / "mnist_lenet5" / "messages.csv")
    return {"theory": theory(), "messages": markdown(frame)}


def theory() -> str:
    """The table as `fedsim theory tableI` computes it."""
    lines = []
    for row in THEORY_TABLES["tableI"].rows(0):
        names = ("temporal", "gradient", "value_bits", "position_bits")
        printed = f"×{row['printed']}" if row["printed"] else ""
        values = [_ends(row[name]) for name in names]
        lines.append([row["method"], *values, f"×{_ends(row['compression'])}", printed])
    return table(THEORY, lines)


def _ends(ends: list[float]) -> str:
    return " to ".join(map(_number, ends))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def measured(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per method: bits a sent entry of each component, of the messages of one client."""
    rows = []
    for name, row in ROWS.items():
        run = runs.loc[name]
        p = run["gradient"]
        positions = 0 if p == 1 else ideal_position_bits(p)
        rows.append(
            {
                "name": name,
                "title": row.title,
                "temporal": 1 / run["temporal"],
                "gradient": run["up_sent"] / run["rounds"] / run["parameters"],
                "value_bits": run["up_value_bits"] / run["up_sent"],
                "position_bits": run["up_position_bits"] / run["up_sent"],
                "side_bits": run["up_side_bits"] / run["rounds"],
                "header_bits": run["up_header_bits"] / run["rounds"],
                "compression": run["ratio_content"],
                "wire": run["ratio_wire"],
                "theory": run["temporal"] * 32 / p / (row.value_bits + positions),
            }
        )
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """What the messages show, beside the theory's compression."""
    lines = [
        [
            row["title"],
            f"{row['temporal']:g}",
            f"{row['gradient']:.4g}",
            f"{row['value_bits']:.2f}",
            f"{row['position_bits']:.2f}",
            f"{row['side_bits']:.0f}",
            f"{row['header_bits']:.0f}",
            *(f"×{_number(row[name])}" for name in ("compression", "wire", "theory")),
        ]
        for row in frame.to_dict("records")
    ]
    return table(MESSAGES, lines)
