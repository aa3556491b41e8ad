"""Forty runs, bit for bit: `python -m tests.support.same > FILE.txt` before a change and after it.

Columns that a change adds or takes away are left out where they are named behind the command.

Each line is a digest of what a run leaves and the settings of that run: its messages, its weights,
every row of rounds and clients without measured times. Each strategy, late policy and controller
is in the list, and every engine. Digests are of one machine: compare two trees on the same.
"""

import os
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch

from fedsim import RunConfig, run

_LINKS = "up=2Mbit, down=8Mbit, latency=30ms, compute=lognormal(20ms, 0.7)"
_SHARED = _LINKS + ", server_up=6Mbit, server_down=3Mbit"
_SLOW = "up=200kbit, down=1Mbit, compute=lognormal(50ms, 1.2)"
_LATE = {
    "network": _SLOW,
    "cohort": 3,
    "clients": 8,
    "deadline": "2s",
    "method": "topk(0.2) | float32 | golomb",
}
_PART = {"clients": 8, "cohort": 3}

RUNS: tuple[dict[str, Any], ...] = (
    {},
    {"method": "raw", "weighting": "samples", "partition": "dirichlet(0.3)"},
    {"method": "raw", "proximal": 0.1, "lr": 0.05},
    {"method": "ef(topk(0.05) | cnat | golomb)", "downlink": "ef(topk(0.2) | float32 | golomb)",
     **_PART},
    {"method": "qsgd(7)", "downlink": "cnat", "catch_up": True, **_PART},
    {"method": "sbc(0.02)", "momentum_masking": "off", "momentum": 0.9},
    {"method": "dgc(0.02)", "temporal": 1, "momentum": 0.0},
    {"method": "sbc(0.05)", "max_norm": 0.5, "min_replies": 1},
    {"method": "ef(sign)", "strategy": "majority"},
    {"method": "cnat(5, 0)", "strategy": "innetwork"},
    {"method": "ef21(topk(0.1) | float32)", "strategy": "ef21", **_PART},
    {"method": "ef21(cnat)", "strategy": "ef21", "downlink": "ef21(cnat)"},
    {"method": "diana(qsgd(7))", "strategy": "diana", **_PART},
    {"method": "marina(cnat, 0.3)", "strategy": "marina", "temporal": 1, "iterations": 8},
    {"method": "fetchsgd(0.05)", "strategy": "fetchsgd", "momentum": 0.0},
    {"method": "sbc(0.05)", "strategy": "nesterov", "server_lr": 0.5, **_PART},
    {"method": "topk(0.1) | float32 | golomb", "strategy": "fedavg"},
    {"method": "topk(0.1) | float32 | golomb", "strategy": "fedavgm", "cohort": 3},
    {"method": "qsgd(7)", "strategy": "fedadagrad"},
    {"method": "qsgd(7)", "strategy": "fedadam", "downlink": "ef(topk(0.5) | float32)"},
    {"method": "qsgd(7)", "strategy": "fedyogi", "server_lr": 0.02},
    {"method": "raw", "strategy": "scaffold", "momentum": 0.0, **_PART},
    {"method": "topk(0.3) | float32 | golomb", "strategy": "scaffold", "momentum": 0.0,
     "dropout": "after=0.3"},
    {"method": "sbc(0.05)", "strategy": "gradients", "temporal": 1, "iterations": 8},
    {"method": "sbc(0.05)", "strategy": "fedbuff", "network": _LINKS, "buffer_size": 3, **_PART},
    {"method": "raw", "strategy": "fedbuff", "network": _SHARED, "staleness": "hinge(1, 0.5)"},
    {"method": "qsgd(7)", "strategy": "fedasync", "network": _LINKS, "downlink": "cnat", **_PART},
    {"method": "topk(0.1) | float32 | golomb", "strategy": "sharded", "network": _LINKS,
     "temporal": 1, "iterations": 8},
    {"late": "hold", **_LATE},
    {"late": "drop", **_LATE},
    {"late": "count", **_LATE},
    {**_LATE, "method": "raw", "deadline": None, "ask": 5, "availability": "onoff(20s, 5s)"},
    {"network": _SHARED, "dropout": "before=0.1, after=0.2", "method": "sbc(0.05)"},
    {"controller": "warmup(3)", "gradient": 0.02, "method": "sbc"},
    {"controller": "delay_first", "method": "ef(topk({p}) | float32)"},
    {"controller": "plateau(2)", "temporal": 4, "method": "sbc"},
    {"controller": "link(0.1)", "network": _LINKS, "method": "sbc"},
    {"controller": "pace(1)", "network": _SLOW, "method": "topk({p}) | float32",
     "weighting": "nova"},
    {"controller": "noise(2)", "temporal": 4, "method": "sbc"},
    {"controller": "adacomm(2)", "temporal": 4, "method": "raw"},
    *({"engine": engine, "workers": 2, "method": "ef(topk(0.1) | cnat)",
       "strategy": "nesterov"} for engine in ("ray", "flower")),
)  # fmt: skip
"""What differs from a run of the digits with four clients, five iterations per round and four
rounds."""

_STANDS = {
    "clients": 4,
    "temporal": 5,
    "iterations": 20,
    "method": "sbc(0.05)",
    "seed": 3,
    "keep_payloads": True,
}


def digest(folder: Path, without: Sequence[str] = ()) -> str:
    """Sixteen hex digits of what a run left, less measured times and the columns ``without``."""
    made = blake2b(digest_size=8)
    for file in sorted((folder / "payloads").rglob("*")):
        if file.is_file():
            made.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    made.update((folder / "model.safetensors").read_bytes())
    for name in ("rounds", "clients"):
        frame = pd.read_parquet(folder / f"{name}.parquet")
        measured = [c for c in frame if c.endswith("seconds") and "sim" not in c]
        kept = sorted({*frame} - {*measured, *without})
        made.update(frame[kept].to_csv(float_format="%.17g").encode())
    return made.hexdigest()


def main(without: Sequence[str]) -> None:
    """Prints a line per run; a column that only one version has is named on the command line."""
    torch.set_num_threads(1)
    for settings in RUNS:
        with TemporaryDirectory() as folder:
            try:
                run(RunConfig.of(**_STANDS | settings), Path(folder) / "run", progress=False)
                told = digest(Path(folder) / "run", without)
            except Exception as error:
                told = f"{type(error).__name__}: {error}"[:200]
        print(told, settings, flush=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
