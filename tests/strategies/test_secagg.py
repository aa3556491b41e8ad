"""Secure aggregation: shares, masks and messages by hand; the sum is that of plain integers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from cryptography.exceptions import InvalidTag

from compressors import PayloadError, compress, parse
from compressors.message import read_message
from compressors.whole.masked_integers import MaskedIntegers, flattened
from strategies import Downlink, RoundInfo, RoundTraffic, SecAgg, TooFewReplies, Uplink, build
from strategies.algorithms import secagg_protocol as protocol
from strategies.algorithms.secagg import round_seed_of
from strategies.algorithms.secagg_protocol import (
    PRIME,
    join_shares,
    lagrange_weights,
    polynomial,
    share_at,
)
from strategies.channel.payload import KEYS

METHOD = parse("secagg(6, 0.5, 8)")
assert isinstance(METHOD, MaskedIntegers)
TEMPLATE = {"w": torch.empty(5, 3), "b": torch.empty(4)}


def updates(clients: Sequence[int]) -> dict[int, dict[str, torch.Tensor]]:
    draws = torch.Generator().manual_seed(1)
    return {
        c: {n: 0.3 * torch.randn(x.shape, generator=draws) for n, x in TEMPLATE.items()}
        for c in clients
    }


def traffic_of(
    clients: Sequence[int], survivors: Sequence[int], rule: SecAgg, method: MaskedIntegers = METHOD
) -> RoundTraffic:
    """A round with these updates: the survivors' messages have come, and the round is closed."""
    (side,) = rule.sides(seed=3)
    downs = side.write(1, {c: Downlink(b"", "model", {}) for c in clients})
    traffic = RoundTraffic(1, downs)
    for client in survivors:
        keys = protocol.PublicKeys.read(downs[client].side_payloads[KEYS])
        secrets = protocol.secrets_of(3, client, 1)
        mask = protocol.client_mask(secrets, client, keys, method.integer_count(19)).astype(
            np.int64
        )
        round_seed = torch.tensor(round_seed_of(3, 1))
        state = {"mask/mask": torch.from_numpy(mask), "mask/round_seed": round_seed}
        state["mask/weight"] = torch.tensor(client + 1)
        packet, _ = compress(method, updates(clients)[client], state, seed=client)
        message = read_message(rule.reads(method), packet.payload, TEMPLATE)
        traffic.uplinks[client] = Uplink(packet.payload, message.spans, message.update, {})
    side.close(traffic)
    return traffic


def stepped(
    traffic: RoundTraffic, rule: SecAgg, method: MaskedIntegers = METHOD
) -> dict[str, torch.Tensor]:
    payloads = {client: down.side_payloads for client, down in traffic.downlinks.items()}
    now = RoundInfo(1, 3, 9, method, side_payloads=payloads)
    update, _ = rule.step(traffic.uplinks, {}, TEMPLATE, now)
    assert update is not None
    return dict(update)


@pytest.mark.parametrize(
    ("left", "p", "weight"), [(2, 1.0, 0), (3, 1.0, 0), (3, 0.3, 0), (4, 1.0, 0), (3, 0.3, 4)]
)
def test_the_sum_is_that_of_the_survivors_integers_whoever_drops_out(
    left: int, p: float, weight: int
) -> None:
    """Client c has the weight c + 1."""
    method = replace(METHOD, p=p, modulus=8 + weight, weight=weight)
    clients, rule = (1, 4, 5, 8), SecAgg(0.25, "samples" if weight else "uniform")
    places = method.places(round_seed_of(3, 1), 19)
    assert len({*places.tolist()}) == (19 if p == 1 else 6)
    plain = {c: method.integers(flattened(x)[places], c) for c, x in updates(clients).items()}
    for survivors in combinations(clients, left):
        wanted = np.zeros(19)
        n = {c: c + 1 if weight else 1 for c in survivors}
        sums = sum(n[c] * plain[c].astype(float) for c in survivors)
        wanted[places] = sums * (0.5 / 31) / sum(n.values())
        got = stepped(traffic_of(clients, survivors, rule, method), rule, method)
        scaled = (wanted * (19 / len(places))).astype(np.float32)
        assert np.array_equal(np.append(got["w"], got["b"]), scaled)


def test_entries_of_another_round_are_refused() -> None:
    method = replace(METHOD, p=0.3)
    traffic = traffic_of((0, 1, 2), (0, 1, 2), SecAgg(), method)
    traffic.uplinks[1].update["round_seed"] += 1
    with pytest.raises(ValueError, match="client 1"):
        stepped(traffic, SecAgg(), method)


def test_the_server_reads_integers_that_the_pairs_secrets_alone_do_not_open() -> None:
    clients, rule = (0, 1, 2), SecAgg()
    traffic = traffic_of(clients, clients, rule)
    keys = protocol.PublicKeys.read(traffic.downlinks[0].side_payloads[KEYS])
    up, own = traffic.uplinks[0], protocol.secrets_of(3, 0, 1)
    assert [*up.update] == ["masked", "round_seed"] and up.norm == 0
    plain = METHOD.integers(flattened(updates(clients)[0]), seed=0)
    with pytest.raises(PayloadError, match="without a mask"):
        payload = compress(METHOD, updates(clients)[0])[0].payload
        read_message(SecAgg().reads(METHOD), payload, TEMPLATE)
    pairs = sum(protocol.pair_mask(own.mask, 0, peer, keys, 19) for peer in (1, 2))
    drawn = protocol.stream(protocol.agree(own.mask, keys.mask_key(2)), 19)
    for secret, client, peer, sign in ((protocol.secrets_of(3, 2, 1), 2, 0, 1), (own, 0, 2, -1)):
        added = protocol.pair_mask(secret.mask, client, peer, keys, 19)
        assert np.array_equal(added, sign * drawn.astype(np.int64) % 2**32)
    masked = up.update["masked"].numpy()
    opened = (masked - pairs.astype(np.int64)) % 256
    assert not np.array_equal(masked, plain % 256) and not np.array_equal(opened, plain % 256)
    self_mask = protocol.stream(own.seed.to_bytes(32, "little"), 19).astype(np.int64)
    assert np.array_equal((opened - self_mask) % 256, plain % 256)


def test_bits_of_three_clients_by_hand() -> None:
    """Keys 32 bytes, a keys 4 + 3 x 68, sealed shares 8 + 2 x 32 + 16 for each of two others."""
    traffic = traffic_of((0, 1, 2), (0, 2), SecAgg())
    ups = {c: len(up.side_payloads[KEYS]) for c, up in traffic.uplinks.items()}
    downs = {c: len(down.side_payloads[KEYS]) for c, down in traffic.downlinks.items()}
    assert ups == dict.fromkeys((0, 2), 2 * 32 + 2 * 88 + 3 * 32)
    assert downs == {0: 208 + 176 + 1, 1: 208 + 176, 2: 208 + 176 + 1}
    assert traffic.failed_bits == {1: 8 * (2 * 32 + 2 * 88)}
    assert {c: (down.before, down.after) for c, down in traffic.downlinks.items()} == {
        0: (((0, 512), (1664, 1408)), ((8, 768),)),
        1: (((0, 512), (1664, 1408)), ()),
        2: (((0, 512), (1664, 1408)), ((8, 768),)),
    }
    assert traffic.wire.total() == (2, 2 * (240 + 96) + 240)  # without requests and replies


def test_shares() -> None:
    """f(x) = 5 + a x + b x^2: three shares give 5, two do not."""
    five, a, b = f = polynomial(5, threshold=3, seed=9)
    shares = {x: share_at(x, f) for x in range(1, 6)}
    assert five == 5 and shares[2] == (5 + 2 * a + 4 * b) % PRIME
    for count in (2, 3, 4):
        for points in combinations(shares, count):
            joined = join_shares(lagrange_weights(points), [shares[x] for x in points])
            assert (joined == 5) == (count >= 3)


def test_fewer_replies_than_the_threshold_are_an_error() -> None:
    for clients, survivors in (((0, 1, 2, 3), (0, 1)), ((0, 1), (1,)), ((0, 1, 2), ())):
        with pytest.raises(TooFewReplies, match="threshold 0.5"):
            traffic_of(clients, survivors, SecAgg(0.5))
    with pytest.raises(TooFewReplies, match="1 of 1"):
        traffic_of((0,), (0,), SecAgg(0.0))


def test_a_client_answers_once_and_not_for_fewer_survivors_or_changed_shares() -> None:
    traffic = traffic_of((0, 1, 2), (0, 1, 2), SecAgg())
    request = traffic.downlinks[0].side_payloads[KEYS]
    own, other = (protocol.secrets_of(3, client, 1) for client in (0, 1))
    answers = {peers: protocol.answer(own, 0, request, peers, 2) for peers in ((0, 1), (0, 2))}
    assert len({*answers.values()}) == 2  # a share of each secret, never both in one answer
    with pytest.raises(ValueError, match="2 at least"):
        protocol.answer(own, 0, request, (0,), 2)
    with pytest.raises(InvalidTag):
        protocol.answer(own, 0, request[:300] + bytes(1) + request[301:], (0, 1), 2)
    with pytest.raises(InvalidTag):
        protocol.answer(other, 0, request, (0, 1), 2)


def test_a_key_that_its_shares_do_not_give_is_named() -> None:
    traffic = traffic_of((0, 1, 2), (0, 2), SecAgg())
    for up in traffic.uplinks.values():
        payload = bytearray(up.side_payloads[KEYS])
        payload[-50] ^= 1  # of the share of client 1's key
        up.side_payloads[KEYS] = bytes(payload)  # type: ignore[index]
    with pytest.raises(ValueError, match="client 1"):
        stepped(traffic, SecAgg())


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"uplink": "secagg(16, 0.5, 17)"}, "uplink"),
        ({"uplink": "raw"}, "uplink"),
        ({"uplink": "secagg(16, 0.5, weight=8)"}, "uplink"),
        ({"cohort": 1}, "cohort"),
        ({"late": "count"}, "late"),
        ({"max_norm": 3.0}, "max_norm"),
    ],
)
def test_settings_that_do_not_go_with_it_are_named(settings: dict, setting: str) -> None:
    common = {"uplink": "secagg(16, 0.5, 18)", "clients": 4}
    uplink = parse((common | settings)["uplink"])
    named = {k: v for k, v in (common | settings).items() if k != "uplink"}
    with pytest.raises(ValueError, match=f"{setting} is "):
        build(SecAgg(), uplink, **named)
    for threshold in (-0.1, 1.0):
        with pytest.raises(ValueError, match="threshold"):
            SecAgg(threshold)
