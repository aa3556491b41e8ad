"""What chance gives a run, by fedsim's own generators: the twin shares its dice, and no rule.

Which client is drawn, which sample comes when, which link is how fast, which reply comes first of
those that come at one moment. What becomes of it (who is asked then, how long a message takes, what
a late update does) is for the twin to say.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from compressors import derive
from compressors.base import tensor_seed
from compressors.kernels.noise import words
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import build_model
from fedsim.network.availability import shuffle
from fedsim.settings.config import RunConfig


class Draws:
    """The dice of one run.

    Args:
        config: the run; its seed and its data decide everything here.
        clients: how many the federation has.
    """

    def __init__(self, config: RunConfig, clients: int) -> None:
        self.seed, self.clients = config.seed, clients
        federation = ClientData.of(config)
        self.x, self.y = federation.data.train_x.numpy(), federation.data.train_y.numpy()
        self.test_x = federation.data.test_x.numpy()
        self.test_y = federation.data.test_y.numpy()
        self.shards = federation.shards  # by client: the places of its training samples
        size = config.training.batch_size or config.plan.task.batch_size
        self.batch_size = size
        self._batches = [Batches(s, size, config.seed, c) for c, s in enumerate(self.shards)]
        model = build_model(config.plan.task, config.seed, federation.data)
        self.model = {n: p.detach().double().numpy() for n, p in model.named_parameters()}

    def batch(self, client: int, iteration: int) -> np.ndarray:
        """Places of the samples in a client's own iteration 0, 1, ... (its first, its second)."""
        return self._batches[client].at(iteration).numpy()

    def cohort(self, round_number: int, size: int, among: Sequence[int]) -> list[int]:
        """``size`` of ``among``, which is sorted; all of them where they are not more."""
        if size >= len(among):
            return list(among)
        generator = np.random.default_rng(derive(self.seed, "cohort", round_number))
        return sorted(among[int(i)] for i in generator.choice(len(among), size, replace=False))

    def dropout(self, round_number: int) -> np.ndarray:
        """A number in [0, 1) per client: below ``before`` it leaves before it trains; from there
        up to ``before + after``, when it has trained.
        """
        generator = np.random.default_rng(derive(self.seed, "dropout", round_number))
        return generator.random(self.clients)

    def there(self, round_number: int, attempt: int) -> np.ndarray:
        """A number in [0, 1) per client: it is there where that is below the share that is.

        ``attempt``: 0, 1, ... where the draw before left too few.
        """
        key = derive(self.seed, "availability", round_number, attempt)
        return np.random.default_rng(key).random(self.clients)

    def in_turn(self, round_number: int) -> list[int]:
        """All clients, in the order in which a round asks them whether they are there."""
        return [*shuffle(self.clients, derive(self.seed, "asked in turn", round_number))]

    def on_off(self, client: int, on: float, off: float) -> tuple[bool, Iterator[float]]:
        """Whether a client is there at first, and how long each of its states lasts, in turn."""
        generator = np.random.default_rng(derive(self.seed, "availability", client))
        first = bool(generator.random() < on / (on + off))

        def lasts() -> Iterator[float]:
            means = (on, off) if first else (off, on)
            while True:
                for mean in means:
                    yield generator.exponential(mean)

        return first, lasts()

    def lots(self, round_number: int, count: int) -> np.ndarray:
        """A number per update that comes, by client: of those that come at once the least is first.

        ``count``: how many clients' updates come, whenever they do.
        """
        return np.random.default_rng(derive(self.seed, "arrival", round_number)).random(count)

    def link(self, name: str, kind: str, first: float, second: float) -> np.ndarray:
        """A varying quantity of every client's link.

        Args:
            name: "up", "down", "latency", "compute", or one of its energies or its battery.
            kind: "lognormal" (median, sigma) or "uniform" (least, greatest).
            first: the median, or the least value.
            second: sigma of the logarithm, or the greatest value.
        """
        names = ("up", "down", "latency", "compute", "energy_up", "energy_down", "energy_compute")
        purpose = 1 + (*names, "battery").index(name)
        generator = np.random.default_rng([self.seed, purpose])
        if kind == "lognormal":
            return first * np.exp(second * generator.standard_normal(self.clients))
        return generator.uniform(first, second, self.clients)

    def next_client(self, turn: int, idle: Sequence[int]) -> int:
        """Whom an asynchronous server asks in its turn 1, 2, ... of those that are not at work."""
        return idle[derive(self.seed, "next client", turn) % len(idle)]

    def sampler_lots(self, number: int) -> np.ndarray:
        """A sampler's lot of every client in a draw, exponentially distributed."""
        generator = np.random.default_rng([derive(self.seed, "sampler", number), 0])
        return generator.exponential(size=self.clients)

    def noise(self, client: int, round_number: int, entries: int) -> np.ndarray:
        """In [0, 1) per entry: how a client's fixed point is rounded in a round."""
        seed = tensor_seed(derive(self.seed, "uplink", client, round_number), 0)
        return words(seed, np.arange(entries)) / 2.0**32

    def travels(self, round_number: int, count: int, entries: int) -> np.ndarray:
        """So many places among the entries, the same for all clients of a round, ascending."""
        seed = derive(self.seed, "secagg", round_number)
        lots = words(seed, np.arange(entries)).astype(np.int64)
        return np.sort(np.argsort(lots, kind="stable")[:count])

    def coin(self, round_number: int, p: float) -> bool:
        """MARINA's coin of a round: whether it is dense."""
        return derive(self.seed, "dense", round_number) < p * 2**32


def rows(out: Any) -> tuple[Any, Any]:
    """``rounds.parquet`` and ``clients.parquet`` of a run's folder."""
    import pandas as pd

    return pd.read_parquet(out / "rounds.parquet"), pd.read_parquet(out / "clients.parquet")
