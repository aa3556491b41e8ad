"""Secure aggregation: the server adds up masked integers, and decodes their sum alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from compressors import Compressor, PayloadError, State, Tensors, derive, text
from compressors.bits import BitReader
from compressors.whole.masked_integers import MASK, ROUND_SEED, WEIGHT, MaskedIntegers
from compressors.whole.memory import nest
from strategies.algorithms.base import (
    Algorithm,
    Client,
    ClientUpdate,
    RoundInfo,
    Step,
    TrainJob,
    TrainResult,
    Uplinks,
)
from strategies.algorithms.requirements import Setup, Unmet, check_weighting, fixed_codes
from strategies.algorithms.secagg_protocol import (
    SHARE_BYTES,
    PublicKeys,
    answer,
    client_mask,
    sealed_shares,
    secrets_of,
    survivors_from_bytes,
    survivors_to_bytes,
    threshold_of,
    without_masks,
)
from strategies.channel.client_end import Delivery
from strategies.channel.framing import Travel, book
from strategies.channel.orders import Side
from strategies.channel.payload import KEYS
from strategies.channel.replies import TooFewReplies
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink

MASKED = "masked"


@dataclass(frozen=True)
class MaskedMessages(MaskedIntegers):
    """``secagg`` as its server reads it: the integers of a message, of which no update is made."""

    codec_id = MaskedIntegers.codec_id  # the same messages

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """The integers of all tensors one after the other (int64), as ``masked``; their seed.

        Raises ``PayloadError`` for a message without a mask, which would be one client's update.
        """
        message = self.read_integers(bits, template)
        if not message.masked:
            raise PayloadError("secagg: a message without a mask; fedsim's own clients add one")
        integers = torch.from_numpy(message.integers)
        entries = self.count(sum(x.numel() for x in template.values()))
        bits.sent = {MASKED: entries, ROUND_SEED: 0}
        return {MASKED: integers, ROUND_SEED: torch.tensor([message.round_seed], device="cpu")}


def two_clients(algorithm: object, setup: Setup) -> Unmet | None:
    """A sum of one update would be that update."""
    if setup.cohort == 1:
        return Unmet("cohort", "decodes the sum of two updates or more", "2 or more")
    return None


def sends_weights(algorithm: object, setup: Setup) -> Unmet | None:
    """Messages hold the clients' weights where clients are weighted, and else none."""
    method, weighting = setup.uplink, algorithm.weighting if isinstance(algorithm, SecAgg) else ""
    assert isinstance(method, MaskedIntegers)
    if weighting == "samples" and not method.weight:
        weighted = replace(method, modulus=32, weight=min(12, 32 - method.bits))
        reason = "weights by samples, and its messages have no bits of a weight"
        return Unmet("uplink", reason, text(weighted))
    if weighting == "uniform" and method.weight:
        reason = "counts every client once, and its messages have bits of a weight"
        return Unmet("uplink", reason, "weight=0, or weighting samples")
    return None


def sums_fit(algorithm: object, setup: Setup) -> Unmet | None:
    """Every sum over a cohort fits the modulus."""
    method = setup.uplink
    assert isinstance(method, MaskedIntegers)
    needed = method.needed(setup.cohort or 2)
    if method.modulus >= needed:
        return None
    weights = f" times weights of {method.weight}" if method.weight else ""
    reason = (
        f"adds up {setup.cohort} integers of {method.bits} bits{weights} modulo "
        f"2**{method.modulus}, which do not fit: modulus {needed} at least"
    )
    instead = text(replace(method, modulus=needed)) if needed <= 32 else "fewer bits"
    return Unmet("uplink", reason, instead)


def no_late_sums(algorithm: object, setup: Setup) -> Unmet | None:
    """The masks of a round are removed with that round: an update cannot count in a later one."""
    if setup.late == "count":
        reason = "removes masks from the sum of one round, and a late update has those of another"
        return Unmet("late", reason, "hold or drop")
    return None


def no_norm_bound(algorithm: object, setup: Setup) -> Unmet | None:
    """Nobody but the client knows how long its update is."""
    if setup.max_norm is not None:
        reason = "decodes sums alone, so that the norm of one update is not known"
        return Unmet("max_norm", reason, "none: the method's clip bounds every entry")
    return None


class PairwiseMasks(Client):
    """Agrees on masks with the other clients of the round, and adds them to what is sent."""

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate:
        secrets = secrets_of(delivery.seed, job.client, delivery.round)
        keys = PublicKeys.read(bytes(delivery.settings[KEYS]))
        method = delivery.uplink
        assert isinstance(method, MaskedIntegers)
        count = method.integer_count(sum(x.numel() for x in result.update.values()))
        mask = torch.from_numpy(client_mask(secrets, job.client, keys, count).astype(np.int64))
        round_seed = torch.tensor(round_seed_of(delivery.seed, delivery.round), device="cpu")
        memory = {MASK: mask, ROUND_SEED: round_seed}
        if method.weight:
            memory[WEIGHT] = torch.tensor(delivery.samples, device="cpu")
        return ClientUpdate(result.update, nest(MASK, memory))


def round_seed_of(seed: int, round_number: int) -> int:
    """The seed of the entries that travel in a round; ``seed``: of the run."""
    return derive(seed, "secagg", round_number)


@dataclass(frozen=True)
class SecAgg(Algorithm):
    """The mean of a round's updates, of which the server sees masked integers and their sum.

        y_u = q_u + PRG(b_u) + sum_{v < u} PRG(s_uv) - sum_{v > u} PRG(s_uv)  mod 2^modulus
        z = sum_{u in U} y_u - sum_{u in U} PRG(b_u) + sum_{u in U, v in D} +-PRG(s_uv)
        w' = w + s z / |U|                       (weighting = uniform)
        w' = w + s (sum_{u in U} n_u q_u) / (sum_{u in U} n_u)      (weighting = samples)

    Here q_u are the integers that client u makes of its update by ``secagg(bits, clip, modulus)``
    and s the value of 1; b_u is the seed of the client's own mask and s_uv the key that u and v
    agree on. U are the clients whose integers came and D those that dropped out: of a client in U
    the others' shares give b_u, of one in D its private key, so z is the sum of q_u over U. With
    ``weighting`` samples a client sends n_u q_u and its number of samples n_u, both masked. Clients
    and server are simulated in one process, where each uses the bytes that it is sent and no others
    (``secagg_protocol``); secrets follow from the run's seed.

    Args:
        threshold: more than this share of a round's clients must send their integers, two at
            least; 0 <= threshold < 1. It is also how many must put their shares together to
            see a secret.
        weighting: ``uniform``, or ``samples``, for which the method has ``weight`` bits.

    Raises ``ValueError`` for another threshold or weighting. A round with fewer replies raises
    ``TooFewReplies``.

    Source: Bonawitz et al. 2017 (Practical secure aggregation for privacy-preserving machine
    learning, https://doi.org/10.1145/3133956.3133982), Section 4 and Figure 4, against a server
    that follows the protocol: without signatures and consistency checks.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(SecAgg(), parse("secagg(16, 0.5, 18)"), clients=4).clients
        4
    """

    adds_codes = True
    needs_method = MaskedIntegers.server
    method_example = "secagg(16, 0.5, 24)"
    requires = (two_clients, sends_weights, sums_fit, no_late_sums, no_norm_bound, fixed_codes)
    refuses_buffers = "clients would send without masks"
    refuses_deployment = (
        "the secrets of its clients follow from the run's seed, which the server has"
    )
    threshold: float = 0.5
    weighting: str = "uniform"

    def __post_init__(self) -> None:
        check_weighting(self.weighting)
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}: 0 <= threshold < 1")

    @property
    def client(self) -> Client:
        return PairwiseMasks()

    def reads(self, uplink: Compressor) -> Compressor:
        assert isinstance(uplink, MaskedIntegers)
        return MaskedMessages(uplink.bits, uplink.clip, uplink.modulus, uplink.p, uplink.weight)

    def sides(self, seed: int) -> tuple[Side, ...]:
        return (KeyExchange(seed, self.threshold),)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        method = info.uplink
        assert isinstance(method, MaskedIntegers)
        keys = PublicKeys.read(info.side_payloads[next(iter(uplinks))][KEYS])
        round_seed = round_seed_of(info.seed, info.number) if method.p < 1 else 0
        total = np.zeros(method.integer_count(sum(x.numel() for x in model.values())), np.uint32)
        for client, up in uplinks.items():
            if int(up.update[ROUND_SEED]) != round_seed:
                raise ValueError(f"client {client} sent other entries than the round's")
            total += up.update[MASKED].numpy().astype(np.uint32)
        answers = {client: answer_in(up, keys) for client, up in uplinks.items()}
        threshold = threshold_of(self.threshold, len(keys.clients))
        sums = without_masks(total, keys, answers, threshold).astype(np.int64)
        return method.mean_of_sum(sums, len(uplinks), model, round_seed), state


def answer_in(up: Uplink, keys: PublicKeys) -> bytes:
    """The last of a survivor's messages."""
    return up.side_payloads[KEYS][-SHARE_BYTES * len(keys.clients) :]


class KeyExchange(Side):
    """Side payloads: the messages of secure aggregation but the masked integers.

    It makes the messages of the clients before they train, and after all masked integers have come,
    each of that client's secrets and of what the client was sent. A client's uploads are the side
    payload of its reply. Without a reply they are booked as bits of a failed upload.
    """

    names = (KEYS,)

    def __init__(self, seed: int, threshold: float) -> None:
        self.seed, self.threshold = seed, threshold
        self._uploaded = dict[int, bytes]()  # by client, its first two messages in this round

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        """Advertised keys and encrypted shares: rounds 0 and 1 of the protocol."""
        count = self._check(round_number, len(downs), len(downs), "can be asked")
        secrets = {c: secrets_of(self.seed, c, round_number) for c in downs}
        keys = PublicKeys({client: secret.public_keys for client, secret in secrets.items()})
        listed = keys.to_bytes()
        sealed = {c: sealed_shares(secret, c, keys, count) for c, secret in secrets.items()}
        self._uploaded, requests = {}, {}
        for client, down in downs.items():
            received = b"".join(sealed[peer][client] for peer in downs if peer != client)
            advertised, shares = keys.by_client[client], b"".join(sealed[client].values())
            self._uploaded[client] = advertised + shares
            before = ((0, 8 * len(advertised)), (8 * len(listed), 8 * len(shares)))
            request = down.with_side_payload(KEYS, listed + received)
            requests[client] = replace(request, before=before)
        return requests

    def close(self, traffic: RoundTraffic) -> None:
        """Survivors and their answers: round 3 of the protocol."""
        downs, uplinks, number = traffic.downlinks, traffic.uplinks, traffic.round
        count = self._check(number, len(uplinks), len(downs), "replied")
        keys = PublicKeys.read(downs[next(iter(uplinks))].side_payloads[KEYS])
        listed = survivors_to_bytes(keys, uplinks)
        for client, down in downs.items():
            uploaded, request = self._uploaded[client], down.side_payloads[KEYS]
            if client not in uplinks:
                traffic.failed_bits[client] = traffic.failed_bits.get(client, 0) + 8 * len(uploaded)
                book(traffic.wire.unused, client, Travel(0, len(uploaded)))
                continue
            survivors = survivors_from_bytes(keys, listed)
            secrets = secrets_of(self.seed, client, number)
            answered = answer(secrets, client, request, survivors, count)
            travel = Travel(len(listed), len(uploaded + answered))
            book(traffic.wire.used, client, travel)
            downs[client] = replace(
                down.with_side_payload(KEYS, request + listed),
                after=((8 * len(listed), 8 * len(answered)),),
            )
            up = uplinks[client]
            payloads = {**up.side_payloads, KEYS: uploaded + answered}
            uplinks[client] = replace(up, side_payloads=payloads)

    def _check(self, round_number: int, clients: int, cohort: int, did: str) -> int:
        """The number of shares that a secret needs, of which there must be as many clients."""
        count = threshold_of(self.threshold, cohort)
        if clients < count:
            raise TooFewReplies(
                f"round {round_number}: {clients} of {cohort} clients {did}, and secagg with "
                f"threshold {self.threshold:g} takes {count} or more: fewer shares give no secret"
            )
        return count
