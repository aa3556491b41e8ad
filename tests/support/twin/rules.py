"""Server strategies: what a client makes of a model, and what the server makes of the replies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.support.twin import task
from tests.support.twin.client import Client, Training
from tests.support.twin.draws import Draws
from tests.support.twin.keys import FixedPoint
from tests.support.twin.messages import Method
from tests.support.twin.network import call

ENTRIES = sum(task.TENSORS)


@dataclass(frozen=True)
class Uplink:
    """What the server has of a client's message."""

    client: int
    seen: np.ndarray
    samples: int
    n: int  # local iterations


class Mean:
    """dsgd: the model moves by the mean of the clients' updates."""

    tensors: Sequence[int] = task.TENSORS  # what travels
    by_rounding = False  # whether roundings of float32 decided what was sent

    def __init__(
        self, settings: dict[str, Any], training: Training, draws: Draws, known: Sequence[str]
    ) -> None:
        self.settings, self.training, self.draws, self.known = settings, training, draws, known
        self.weighting = settings.get("weighting", "uniform")

    def start(self, model: np.ndarray) -> np.ndarray:
        """What is sent down at first."""
        return model

    def begin(self, number: int) -> None:
        """What is known before a round."""

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        """What a client has to send, and its training loss."""
        return client.train(model, n, first)

    def loss(self, model: np.ndarray) -> float:
        """The loss on the test set of what is sent down."""
        return task.loss(model[:ENTRIES], self.draws.test_x, self.draws.test_y)

    def mean(self, uplinks: Sequence[Uplink]) -> np.ndarray:
        """By ``--weighting``."""
        samples = np.array([u.samples for u in uplinks], float)
        weights = np.ones(len(uplinks)) if self.weighting == "uniform" else samples
        weights = weights / weights.sum()
        if self.weighting == "nova":  # Wang et al. 2020
            n = np.array([u.n for u in uplinks], float)
            weights = weights / n * (weights @ n)
        return np.asarray(sum(w * u.seen for w, u in zip(weights, uplinks, strict=True)))

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        """By what the model should move.

        Args:
            model: as it is.
            uplinks: the replies, by client.
            number: of the round.
            first: the number of the round's first local iteration.
        """
        return self.mean(uplinks)


class FedPer(Mean):
    """Arivazhagan et al. 2019, or ``fedbabu``, Oh et al. 2022: the bias stays with each client."""

    tensors = task.TENSORS[:1]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trains = self.settings["strategy"].startswith("fedper")
        self.first = self.draws.model["bias"].ravel()
        self.biases: dict[int, np.ndarray] = {}  # of clients that have taken part

    def start(self, model: np.ndarray) -> np.ndarray:
        return model[: task.TENSORS[0]]

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        bias = self.biases.get(client.number, self.first)
        moves = np.append(np.ones(len(model)), float(self.trains))
        weights = np.append(model, bias)
        update, loss = client.train(weights, n, first, moves=moves, sent=len(model))
        self.biases[client.number] = bias + update[len(model) :]
        return update[: len(model)], loss

    def loss(self, model: np.ndarray) -> float:
        """The mean over the clients, each with its own bias."""
        losses = [super(FedPer, self).loss(np.append(model, b)) for b in self.biases.values()]
        return float(np.mean(losses)) if losses else math.nan


class Median(Mean):
    """Yin et al. 2018, Definition 1."""

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        return np.median([u.seen for u in uplinks], axis=0)


class TrimmedMean(Mean):
    """Yin et al. 2018, Definition 2: without the floor(beta m) smallest and largest."""

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        beta = Fraction(call(self.settings["strategy"])[1][0])
        k = math.floor(beta * len(uplinks))
        return np.sort([u.seen for u in uplinks], axis=0)[k : len(uplinks) - k].mean(0)


class Krum(Mean):
    """Blanchard et al. 2017, Section 4: the update nearest to its m - f - 2 nearest."""

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        f, m = int(call(self.settings["strategy"])[1][0]), len(uplinks)
        if m < 2 * f + 3:
            return np.zeros(len(model))
        scores = []
        for k, one in enumerate(uplinks):
            far = [((one.seen - u.seen) ** 2).sum() for j, u in enumerate(uplinks) if j != k]
            scores.append(sum(sorted(far)[: m - f - 2]))
        return uplinks[int(np.argmin(scores))].seen


class SecAgg(Mean):
    """Bonawitz et al. 2017: the mean, or that by samples, of fixed point (docs/secagg.md)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.round, self.sent = 0, list[FixedPoint]()  # in the round

    def begin(self, number: int) -> None:
        self.round, self.sent = number, []

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        fixed = FixedPoint(self.settings["method"], self.draws, client.number, self.round)
        client.method = fixed
        self.sent.append(fixed)
        return client.train(model, n, first)

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        self.by_rounding |= any(fixed.near for fixed in self.sent)
        return self.mean(uplinks)


class Nesterov(Mean):
    """DiLoCo's outer step (Douillard et al. 2023): momentum 0.9, a rate of 0.7."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lr = self.settings.get("server_lr") or 0.7
        self.velocity: Any = 0.0

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        mean = self.mean(uplinks)
        self.velocity = 0.9 * self.velocity + mean
        return self.lr * (mean + 0.9 * self.velocity)


class DiLoCo(Nesterov):
    """Douillard et al. 2025: a model at each client, which merges the server's after a delay."""

    tau, alpha = 1, 0.5

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.models: dict[int, np.ndarray] = {}  # by client

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        local = self.models.get(client.number)
        start = model if local is None else local
        early = min(self.tau, n)  # the last round may be as short as the delay
        change, loss = client.train(start, early, first)
        now = start + change
        if n > early:
            if local is not None:
                now = self.alpha * now + (1 - self.alpha) * model
            change, late_loss = client.train(now, n - early, first + early, again=True)
            now, loss = now + change, (early * loss + (n - early) * late_loss) / n
        self.models[client.number] = now
        return now - model, loss


class FedAvg(Mean):
    """Flower's: by samples."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.weighting = "samples"


class FedAvgM(FedAvg):
    """Hsu et al. 2019, with a momentum of 0.9."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lr = self.settings.get("server_lr") or 1.0
        self.velocity: Any = 0.0

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        self.velocity = 0.9 * self.velocity + self.mean(uplinks)
        return self.lr * self.velocity


class FedOpt(FedAvg):
    """Reddi et al. 2021, with Flower's constants, and Flower's correction of Adam's rate."""

    rates = {"fedadagrad": 0.1, "fedadam": 0.1, "fedyogi": 0.01}
    tau, beta_1, beta_2 = 1e-3, 0.9, 0.99

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.name = self.settings["strategy"]
        self.lr = self.settings.get("server_lr") or self.rates[self.name]
        self.m: Any = 0.0
        self.v: Any = np.zeros(ENTRIES)

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        delta = self.mean(uplinks)
        square = delta**2
        beta_1 = 0.0 if self.name == "fedadagrad" else self.beta_1
        self.m = beta_1 * self.m + (1 - beta_1) * delta
        lr = self.lr
        if self.name == "fedadagrad":
            self.v = self.v + square
        elif self.name == "fedyogi":
            self.v = self.v - (1 - self.beta_2) * square * np.sign(self.v - square)
        else:
            self.v = self.beta_2 * self.v + (1 - self.beta_2) * square
            lr *= np.sqrt(1 - self.beta_2 ** (number + 1)) / (1 - self.beta_1 ** (number + 1))
        return lr * self.m / (np.sqrt(self.v) + self.tau)


class Scaffold(Mean):
    """Karimireddy et al. 2020, Algorithm 1, option II: both variates travel beside the model."""

    tensors = [*task.TENSORS, *task.TENSORS]

    def start(self, model: np.ndarray) -> np.ndarray:
        return np.append(model, np.zeros(ENTRIES))

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        server = model[ENTRIES:]
        update, loss = client.train(model[:ENTRIES], n, first, server - client.variate)
        rates = sum(self.training.rate(i) for i in range(first, first + n))
        moved = -server - update / rates  # of the client's variate
        client.variate, client.moved = client.variate + moved, moved
        return np.append(update, moved), loss

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        mean = self.mean(uplinks)
        mean[ENTRIES:] *= len(uplinks) / self.draws.clients
        return mean


class EF21(Mean):
    """Richtárik et al. 2021, Algorithm 2: the model moves by the mean of all clients' shifts."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.shift = np.zeros(ENTRIES)  # the mean of all clients'

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        self.shift = self.shift + sum(u.seen for u in uplinks) / self.draws.clients
        return self.shift


class Diana(EF21):
    """Mishchenko et al. 2019, Algorithm 1; ``raw`` has omega = 0, so that alpha = 1."""

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        estimate = self.shift + self.mean(uplinks)
        self.shift = self.shift + sum(u.seen for u in uplinks) / self.draws.clients
        return estimate


class Gradients(Mean):
    """Clients send the gradient of one batch; the task's optimizer steps on their mean."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.velocity: Any = 0.0

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        x, y = client.batch()
        return task.gradient(model, x, y), task.loss(model, x, y)

    def step(self, gradient: np.ndarray, first: int) -> np.ndarray:
        """SGD's."""
        self.velocity = self.training.momentum * self.velocity + gradient
        return -self.training.rate(first) * self.velocity

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        return self.step(self.mean(uplinks), first)


class Marina(Gradients):
    """Gorbunov et al. 2021, Algorithm 1: dense by a coin, else how the gradient changed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: np.ndarray | None = None  # the model of the round before
        self.estimate: Any = 0.0
        self.dense = True

    def begin(self, number: int) -> None:
        p = Method.of(self.settings["method"], None).dense
        self.dense = number == 1 or self.draws.coin(number, p)

    def work(
        self, client: Client, model: np.ndarray, n: int, first: int
    ) -> tuple[np.ndarray, float]:
        x, y = client.batch()
        gradient, loss = task.gradient(model, x, y), task.loss(model, x, y)
        if not self.dense:
            assert self.before is not None
            gradient = gradient - task.gradient(self.before, x, y)
        return gradient, loss

    def change(self, model: np.ndarray, uplinks: Sequence[Uplink], number: int, first: int) -> Any:
        self.estimate = self.mean(uplinks) + (0.0 if self.dense else self.estimate)
        self.before = model.copy()
        return self.step(self.estimate, first)


RULES: dict[str, type[Mean]] = {
    "dsgd": Mean,
    "secagg": SecAgg,
    "fedbuff": Mean,
    "fedasync": Mean,
    "nesterov": Nesterov,
    "diloco": DiLoCo,
    "fedper": FedPer,
    "fedbabu": FedPer,
    "median": Median,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadagrad": FedOpt,
    "fedadam": FedOpt,
    "fedyogi": FedOpt,
    "scaffold": Scaffold,
    "ef21": EF21,
    "diana": Diana,
    "gradients": Gradients,
    "sharded": Gradients,
    "marina": Marina,
}
