"""Estimates of runs' time and bits, from a trial of each kind of work before anything runs."""

from collections.abc import Hashable
from dataclasses import dataclass
from time import perf_counter

import torch

from compressors import Compressor, State, compress, decompress
from fedsim.federation.clientdata import ClientData
from fedsim.federation.evaluation import evaluate
from fedsim.federation.flops import count_flops
from fedsim.federation.local_steps import client_steps
from fedsim.federation.orders import Fixed
from fedsim.federation.trainer import Trainer
from fedsim.ground.threads import one_thread
from fedsim.settings.config import RunConfig
from strategies import Relay

_TRIALS = 3  # local iterations that are timed, after one that is not


@dataclass(frozen=True)
class Estimate:
    """The estimate of one run; the trial ignores links and controllers."""

    rounds: int
    messages: int  # uploads of all clients
    up_bits: float  # of the payloads of a client of every round
    down_bits: float  # of the payloads to it; the model in every round where the downlink is raw
    seconds: float  # of one process


class Trials:
    """Estimates of several runs; what two of them share is tried once.

    Example:
        >>> from fedsim import RunConfig
        >>> made = Trials().of(RunConfig(task="digits", method="raw", temporal=5, iterations=20))
        >>> made.rounds, made.messages, made.up_bits == made.down_bits
        (4, 16, True)
    """

    def __init__(self) -> None:
        self._trials: dict[Hashable, tuple[Trainer, State, float, float]] = {}

    def of(self, config: RunConfig) -> Estimate:
        """The estimate of a run: messages are as long as that of a first update.

        Raises ``DataError`` and ``UsageError`` as a run does.
        """
        plan = config.plan
        with one_thread():
            trainer, trained, step, score = self._trial(config)
            template = plan.client.payload_template(trainer.template)
            update = {name: trained.get(name, torch.zeros_like(x)) for name, x in template.items()}
            up, coding = _message(plan.method.compressor, update, config.seed)
            down = (plan.cohort - 1) * up
            if not isinstance(plan.downlink, Relay):
                down, spent = _message(plan.downlink, update, config.seed)
                coding += spent
        steps = float(plan.temporal)
        network = count_flops(plan.network, trainer) if plan.by_client else None
        steps_of = client_steps(plan, trainer.federation.shards, network, config.seed)
        if steps_of is not None:
            steps = sum(map(steps_of, range(plan.clients))) / plan.clients
        messages = plan.rounds * plan.requests
        scored = sum(map(Fixed(config).evaluates, range(1, plan.rounds + 1)))
        seconds = messages * (steps * step + coding) / config.machine.workers + scored * score
        return Estimate(plan.rounds, messages, plan.rounds * up, plan.rounds * down, seconds)

    def _trial(self, config: RunConfig) -> tuple[Trainer, State, float, float]:
        """A trainer, an update, and the seconds of a local iteration and of an evaluation."""
        plan = config.plan
        alike = (
            id(plan.task),
            plan.batch_size,
            plan.partition,
            plan.clients,
            config.training,
            config.evaluation,
            config.machine.device,
        )
        if alike not in self._trials:
            trainer = Trainer(config, ClientData.of(config))
            weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
            trainer.train(0, weights, {}, 0, 1)
            begun = perf_counter()
            update = trainer.train(0, weights, {}, 0, _TRIALS).update
            trained = perf_counter()
            evaluate(trainer, weights)
            seconds = (trained - begun) / _TRIALS, perf_counter() - trained
            self._trials[alike] = trainer, dict(update), *seconds
        return self._trials[alike]


def _message(method: Compressor, update: State, seed: int) -> tuple[int, float]:
    memory = method.init(update)
    decompress(method, compress(method, update, memory, seed)[0].payload, update)  # compiles
    begun = perf_counter()
    payload = compress(method, update, memory, seed)[0].payload
    decompress(method, payload, update)
    return 8 * len(payload), perf_counter() - begun
