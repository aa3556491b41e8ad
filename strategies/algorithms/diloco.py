"""Streaming DiLoCo: clients train on while a fragment of the model travels, and merge it later."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from compressors import Compressor, Packet, Raw, State, Tensors
from compressors.whole.fragments import NEXT_FRAGMENT, STRIDE, Fragments
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import (
    Client,
    ClientUpdate,
    RoundInfo,
    Step,
    Training,
    TrainJob,
    TrainResult,
    Uplinks,
)
from strategies.algorithms.nesterov import Nesterov
from strategies.algorithms.requirements import Setup, Unmet, every_client, more_steps_than
from strategies.channel.client_end import Delivery

LOCAL, ROUND = "local", "round"
"""In a client's state: its own parameters, and the round in which it took part last."""


def fragment_names(method: Compressor, names: Collection[str], number: int) -> set[str]:
    """The tensors that travel in a round: of its fragment, or all where no method has fragments.

    ``number``: of the round: 1, 2, ...

    Example:
        >>> method = Fragments(Raw(), 2)
        >>> [fragment_names(method, ["0.w", "1.w"], number) for number in (1, 2, 3)]
        [{'0.w'}, {'1.w'}, {'0.w'}]
    """
    if not isinstance(method, Fragments):
        return {*names}
    turn = (number - 1) % method.count
    return {name for name, place in method.numbers(names).items() if place == turn}


@dataclass(frozen=True)
class Replica(Client):
    """A client with parameters of its own, into which it merges what the server sends."""

    tau: int = 1  # local steps of a round before the merge
    alpha: float = 0.5  # the weight of the client's parameters in the merge

    def initial_weights(self, delivery: Delivery, state: State) -> Tensors:
        return unnest(LOCAL, state) or delivery.weights

    def train(self, delivery: Delivery, state: State, job: TrainJob) -> Training:
        """``tau`` steps, the merge, and the other steps of the round; no merge without such."""
        if self.tau == 0:
            job = job._replace(weights=self._merged(delivery, state, job.weights))
            return job, (yield job)
        tau, n = self.tau, job.iterations
        if n <= tau:  # the last round, if rounds do not divide the run's iterations
            return job, (yield job)
        first = yield job._replace(iterations=tau)
        second_job = job._replace(
            weights=self._merged(delivery, state, _after(job, first)),
            optimizer=first.optimizer,
            done=job.done + tau,
            iterations=n - tau,
            buffers=first.buffers,
            start=job.start + tau,
        )
        second = yield second_job
        loss = (tau * first.loss + (n - tau) * second.loss) / n
        rate, seconds = first.rate + second.rate, first.seconds + second.seconds
        return second_job, replace(second, loss=loss, rate=rate, seconds=seconds)

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate:
        names = fragment_names(delivery.uplink, delivery.weights, delivery.round)
        update = {
            name: (job.weights[name].to(x.device) - w.to(x.device)) + x
            if name in names
            else torch.zeros_like(x)
            for name, w in delivery.weights.items()
            for x in [result.update[name]]
        }
        if not isinstance(delivery.uplink, Fragments):
            return ClientUpdate(update)
        memory = delivery.ack.uplink or delivery.uplink.init(delivery.weights)
        turn = torch.tensor((delivery.round - 1) % delivery.uplink.count, device="cpu")
        return ClientUpdate(update, memory | {NEXT_FRAGMENT: turn})

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        number = torch.tensor(delivery.round, device="cpu")
        return nest(LOCAL, _after(job, result)) | {ROUND: number}

    def _merged(self, delivery: Delivery, state: State, local: Tensors) -> State:
        """Local parameters, mixed with the server's where these moved since the client's round."""
        names: set[str] = set()
        for number in range(int(state.get(ROUND, delivery.round)), delivery.round):
            names |= fragment_names(delivery.uplink, delivery.weights, number)
        alpha, merged = self.alpha, dict(local)
        for name in names:
            x = local[name]
            merged[name] = alpha * x + (1 - alpha) * delivery.weights[name].to(x.device)
        return merged


def _after(job: TrainJob, result: TrainResult) -> State:
    """The parameters after a job."""
    return {name: job.weights[name].to(x.device) + x for name, x in result.update.items()}


def steps_after_the_merge(algorithm: "DiLoCo", setup: Setup) -> Unmet | None:
    """A round has more local steps than the delay, and nobody changes their number."""
    steps = f"merges after the first {algorithm.tau} local iterations of a round"
    return more_steps_than(algorithm.tau, steps, setup)


def no_pull(algorithm: object, setup: Setup) -> Unmet | None:
    """Clients go on from parameters of their own, not from those that FedProx pulls towards."""
    if setup.proximal is not None:
        return Unmet("proximal", "has clients go on from their own parameters")
    return None


def fragments_both_ways(algorithm: object, setup: Setup) -> Unmet | None:
    """The server sends the fragment that moved, exactly those tensors that clients merge."""
    up, down = setup.uplink, setup.downlink
    patterns = [(x.count, x.order) if isinstance(x, Fragments) else None for x in (up, down)]
    if isinstance(down, Raw) or patterns[0] == patterns[1]:
        return None
    if not isinstance(up, Fragments):
        return Unmet("downlink", "merges all that clients send up", "a method without fragments")
    order = "" if up.order == STRIDE else f", {up.order}"
    reason = "merges the fragment that the clients sent in the round before"
    return Unmet("downlink", reason, f"raw, or fragments(METHOD, {up.count}{order})")


@dataclass(frozen=True)
class DiLoCo(Nesterov):
    """Clients keep their parameters, send a fragment per round, and merge the server's step later.

        x_k = SGD_tau(x_k)                                      (client k)
        x_k,q = alpha x_k,q + (1 - alpha) w_q                   (q: the fragment of the last round)
        x_k = SGD_(n - tau)(x_k),  u_k = x_k,p - w_p            (p: the fragment of this round)
        v_p' = momentum v_p + u,  w_p' = w_p + server_lr (u + momentum v_p')    (server)

    Here x_k are the parameters of client k, n the local iterations of a round, and SGD_n so many
    of them with the run's optimizer; w are the server's parameters, and u is the mean by
    ``weighting`` of what the server decodes of u_k, minus the paper's outer gradient. With the
    method ``fragments(METHOD, P)`` the fragment of round r is number (r - 1) mod P; with any other
    method it is the whole model. All clients take part in each round. In its first round a client
    begins with the server's model.

    The paper's Algorithm 2 writes theta_m^(t - H) for what an outer gradient is a difference from;
    here that is w, as in torchft's DiLoCo, so that all clients have the same. A round is H / P
    inner steps of the paper.

    Args:
        weighting: as ``DSGD``.
        server_lr: as ``Nesterov``.
        momentum: as ``Nesterov``.
        tau: local steps of a round before a client has the server's step of the round before.
        alpha: what a merge leaves of the client's parameters, 0 <= alpha <= 1.

    Raises ``ValueError`` for a tau other than 0, 1, 2, ..., and for another alpha.

    Source: Douillard et al. 2025 (Streaming DiLoCo, https://arxiv.org/abs/2501.18512), Algorithm 2
    and section 2.3; its alpha is the default.

    Example:
        >>> DiLoCo(tau=2).client
        Replica(tau=2, alpha=0.5)
    """

    requires = (every_client, steps_after_the_merge, no_pull, fragments_both_ways)
    every_reply = True
    refuses_buffers = "would reach the clients without the delay"
    tau: int = 1
    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.tau, bool) or not isinstance(self.tau, int) or self.tau < 0:
            raise ValueError(f"tau is {self.tau}: a whole number, 0 at least")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}: 0 <= alpha <= 1")

    @property
    def client(self) -> Client:
        return Replica(self.tau, self.alpha)

    @property
    def steps_ahead(self) -> int:
        return self.tau

    def default_downlink(self, uplink: Compressor) -> Compressor:
        """The fragment that has moved, as float32."""
        if isinstance(uplink, Fragments):
            return Fragments(Raw(), uplink.count, uplink.order)
        return Raw()

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        update, velocity = super().step(uplinks, state, model, info)
        assert update is not None
        names = fragment_names(info.uplink, model, info.number)
        moved = {n: x if n in names else torch.zeros_like(x) for n, x in update.items()}
        return moved, {n: v if n in names else state.get(n, v) for n, v in velocity.items()}
