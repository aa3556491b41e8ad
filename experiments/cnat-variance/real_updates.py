"""The same measurement on real updates: one client's, whole, as the message of a run carries it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from compressors import decompress, parse
from fedsim import RunConfig, run
from fedsim.trainer import build_model


@dataclass(frozen=True)
class Moment:
    """When the update is taken: that of the last of ``rounds`` rounds."""

    rounds: int
    temporal: int
    batch_size: int


MODELS = {"cifar_resnet20": Moment(4, 5, 32), "char_lstm": Moment(20, 5, 5)}
SMOKE = Moment(1, 1, 2)
METHODS = ("cnat", "natural_dither(8)", "dither(8)", "dither(128)")


def update(task: str, moment: Moment, data: str | None) -> torch.Tensor:
    """All entries of the update (n,), float32, of a client that trains alone."""
    config = RunConfig(
        task=task, method="raw", temporal=moment.temporal, clients=1, batch_size=moment.batch_size,
        iterations=moment.rounds * moment.temporal, evaluate_every=moment.rounds, test_samples=1,
        data=data, keep_payloads=True,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        run(config, Path(folder, "run"))
        payload = sorted(Path(folder).rglob("client-000-up.bin"))[-1]
        named = config.plan.task
        model = build_model(named, 0, named.load(Path(data) if data else None, False))
        template = {name: p.detach() for name, p in model.named_parameters()}
        found = decompress(parse("raw"), payload.read_bytes(), template)
    return torch.cat([x.flatten() for x in found.values()])
