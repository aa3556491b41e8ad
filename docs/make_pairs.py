"""Which algorithm goes with which feature: every pair is run, and what is refused is listed.

``PYTHONPATH=. python docs/make_pairs.py`` trains a run of two rounds for each pair, writes
``docs/pairs.csv`` and puts its tables into ``docs/pairs.md`` (two minutes on one core). ``--print``
writes nothing and prints the tables, for a checkout of another commit. ``--page`` writes the page
from the CSV file alone. A test compares both with the code.
"""

import csv
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from torch import nn

from fedsim import TASKS, RunConfig, UsageError, run
from fedsim.federation import precheck

HERE = Path(__file__).parent
TABLE, PAGE = HERE / "pairs.csv", HERE / "pairs.md"
WRAPPED = run_path(str(HERE / "wrap.py"))["wrapped"]

BASE: dict[str, Any] = {
    "task": "digits",
    "clients": 4,
    "temporal": 2,
    "iterations": 4,
    "batch_size": 8,
    "method": "topk(0.1) | float32 | golomb",
    "network": "up=2Mbit, down=8Mbit, latency=30ms, compute=lognormal(20ms, 0.7)",
}
"""What all runs have: two rounds of two local iterations, on links."""

_ONE = {"temporal": 1, "iterations": 2}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "dsgd": {},
    "fedavg": {"strategy": "fedavg"},
    "fedadam": {"strategy": "fedadam"},
    "nesterov": {"strategy": "nesterov"},
    "diloco": {"strategy": "diloco"},
    "scaffold": {"strategy": "scaffold", "momentum": 0.0},
    "fedprox": {"proximal": 0.1},
    "gradients": {"strategy": "gradients", **_ONE},
    "fedbuff": {"strategy": "fedbuff", "buffer_size": 2},
    "fedasync": {"strategy": "fedasync"},
    "sharded": {"strategy": "sharded", **_ONE},
    "ef21": {"strategy": "ef21", "method": "ef21(topk(0.1) | float32)"},
    "majority": {"strategy": "majority", "method": "ef(sign)"},
    "in-network": {"strategy": "innetwork", "method": "cnat(5, 0)"},
    "permk": {"strategy": "permk", "method": "permk(4)"},
    "marina": {"strategy": "marina", "method": "marina(cnat, 0.3)", **_ONE},
    "diana": {"strategy": "diana", "method": "diana(qsgd(7))"},
    "fetchsgd": {"strategy": "fetchsgd", "method": "fetchsgd(0.05)", "momentum": 0.0},
    "secagg": {
        "strategy": "secagg(0)",
        "method": "secagg(8, 0.5, 10)",  # two replies, of 6 ms each
        "network": "up=40Mbit, down=80Mbit, latency=20ms, compute=lognormal(20ms, 0.7)",
    },
    "fedper": {"strategy": "fedper"},
    "fedrep": {"strategy": "fedrep(head_steps=1)"},
    "fedbabu": {"strategy": "fedbabu"},
    "median": {"strategy": "median"},
    "trimmed mean": {"strategy": "trimmed_mean(0.4)"},
    "krum": {"strategy": "krum(1)", "clients": 5},
    "dp": {"strategy": "dp"},
}
"""Each with a method that it takes."""

FEATURES: dict[str, dict[str, Any]] = {
    "late updates held": {"late": "hold", "deadline": "120ms"},
    "late updates dropped": {"late": "drop", "deadline": "120ms"},
    "late updates counted": {"late": "count", "deadline": "120ms"},
    "a deadline": {"deadline": "1s"},
    "dropout": {"dropout": "before=0.2, after=0.2"},
    "over-sampling": {"cohort": 2, "ask": 3},
    "availability": {"availability": "onoff(20s, 5s)"},
    "a minimum of replies": {"min_replies": 1},
    "a cohort": {"cohort": 2},
    "a sampler by samples": {"cohort": 2, "sampler": "weighted(samples)"},
    "a sampler by stale losses": {"cohort": 2, "sampler": "oort"},
    "a sampler that asks for losses": {"cohort": 2, "sampler": "power_of_choice(3)"},
    "a compressed downlink": {"downlink": "ef(topk(0.2) | float32 | golomb)"},
    "a relayed downlink": {"downlink": "relay"},
    "catch-up": {
        "downlink": "ef(topk(0.2) | float32 | golomb)",
        "catch_up": True,
        "cohort": 2,
    },
    "a controller": {"controller": "adacomm(2)"},
    "n > 1": {"temporal": 2, "iterations": 4},
    "FedProx's pull": {"proximal": 0.1},
    "momentum masking": {"momentum_masking": "on", "momentum": 0.9},
    "stateless clients": {"stateless": True},
    "averaged buffers": {"task": "digits_bn", "buffers": "mean"},
    "checkpoints": {"checkpoint_every": 1},
    "weights by samples": {"weighting": "samples"},
    "client state in bfloat16": {"memory_as": "bfloat16"},
    "evaluation at clients": {"evaluate_clients": 0.5},
    "a bound on the norm": {"max_norm": 1e6},
    "a trace of links": {"network": "trace={trace}, compute=20ms"},
    "kept payloads": {"keep_payloads": True},
    "energy": {
        "network": "4g, compute=2GFLOP/s, energy_up=1uJ/bit, energy_compute=2W",
        "stop_at_joules": 1e6,
    },
    "a battery": {"network": "4g, compute=20ms, energy_up=1uJ/bit, battery=uniform(1J, 2J)"},
}
"""What each adds to the settings of an algorithm."""

_TRACE = "client,seconds,up,down\n*,0,2000000,8000000\n*,1,1000000,4000000\n"


class Pair(NamedTuple):
    """A row of the table; ``refusal`` is empty where the run ends well."""

    algorithm: str
    feature: str
    refusal: str


def with_batch_norm() -> nn.Module:
    """A small model whose statistics travel."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def settings(algorithm: str, feature: str, trace: Path) -> dict[str, Any]:
    """The settings of a pair, as ``RunConfig.of`` takes them."""
    TASKS.setdefault("digits_bn", replace(TASKS["digits"], name="digits_bn", build=with_batch_norm))
    merged = BASE | ALGORITHMS[algorithm] | FEATURES[feature]
    if algorithm == "secagg" and "weighting" in merged:
        merged["method"] = "secagg(8, 0.5, 22, weight=10)"
    return merged | {"network": merged["network"].format(trace=trace)}


def refusal(algorithm: str, feature: str, folder: Path, *, train: bool = True) -> str:
    """Why a pair is refused; empty where it runs to its end.

    Raises what a run raises that was not refused before: a pair that is let in has to train.
    """
    trace = folder / "links.csv"
    trace.write_text(_TRACE, encoding="utf-8")
    try:
        config = RunConfig.of(**settings(algorithm, feature, trace))
        precheck.check_trainable(config)
        if train:
            run(config, folder / f"{algorithm}-{feature}".replace(" ", "-"), progress=False)
    except UsageError as error:
        return str(error).replace(str(trace), "links.csv")
    return ""


def pairs() -> list[Pair]:
    """Every pair, tried."""
    tried = []
    for algorithm in ALGORITHMS:
        with TemporaryDirectory() as folder:
            for feature in FEATURES:
                tried.append(Pair(algorithm, feature, refusal(algorithm, feature, Path(folder))))
        print(
            algorithm,
            sum(not pair.refusal for pair in tried if pair.algorithm == algorithm),
            "of",
            len(FEATURES),
            file=sys.stderr,
            flush=True,
        )
    return tried


def read() -> list[Pair]:
    """The pairs of ``docs/pairs.csv``."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Pair(**row) for row in csv.DictReader(file)]


def matrix(rows: list[Pair]) -> str:
    """A table with an algorithm in each column and a feature in each row."""
    refused: Mapping[tuple[str, str], str] = {(a, f): why for a, f, why in rows}
    lines = ["| | " + " | ".join(ALGORITHMS) + " |", "| --- |" + " --- |" * len(ALGORITHMS)]
    for feature in FEATURES:
        cells = ("no" if refused[a, feature] else "" for a in ALGORITHMS)
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reasons(rows: list[Pair]) -> str:
    """What fedsim says of each pair that it refuses, by algorithm."""
    lines = []
    for algorithm in ALGORITHMS:
        said = [(f, why) for a, f, why in rows if a == algorithm and why]
        lines += [f"\n**{algorithm}**\n"] if said else []
        lines += [line for feature, why in said for line in WRAPPED([f"* {feature}: {why}."])]
    return "\n".join(lines)


def page(rows: list[Pair]) -> str:
    """The text of ``docs/pairs.md`` with the tables of ``rows``."""
    count = sum(bool(pair.refusal) for pair in rows)
    parts = {
        "count": f"{len(rows) - count} of {len(rows)} pairs run, and {count} are refused.",
        "matrix": matrix(rows),
        "reasons": reasons(rows),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, part in parts.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = place.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)
    return text


def main(arguments: list[str]) -> None:
    """See the module."""
    rows = read() if "--page" in arguments else pairs()
    if "--print" in arguments:
        print(matrix(rows), reasons(rows), sep="\n")
        print(sum(bool(pair.refusal) for pair in rows), "of", len(rows), "pairs are refused")
        return
    if "--page" not in arguments:
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([Pair._fields, *rows])
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
