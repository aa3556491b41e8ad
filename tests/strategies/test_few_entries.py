"""Updates of which few entries travelled: the server's mean makes no tensors of them."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from compressors import Raw, compress, decompress, parse
from compressors.segments.read import Decoded
from fedsim.engines import compat
from strategies.algorithms.base import RoundInfo
from strategies.algorithms.dsgd import DSGD
from strategies.channel.payload import CLIENT, METRICS, SAMPLES, Draft, get, put
from strategies.channel.server_end import ServerEnd

METHOD = parse("topk(0.25) | float32 | golomb")
LIKE = {"w": torch.zeros(8), "b": torch.zeros(4)}
INFO = RoundInfo(1, 0, 2, METHOD)


def after_round(max_norm: float | None = None) -> tuple[ServerEnd, list[dict[str, torch.Tensor]]]:
    """A server's end with the replies of two clients, of 1 and 3 samples; what these decode to."""
    end, decoded = ServerEnd(METHOD, Raw(), LIKE, max_norm=max_norm), []
    end.begin(1, [0, 1])
    for client, samples in enumerate((1, 3)):
        end.content(client, ConfigRecord())
        generator = torch.Generator().manual_seed(client)
        update = {name: torch.randn(x.shape, generator=generator) for name, x in LIKE.items()}
        payload = compress(METHOD, update)[0].payload
        decoded.append(decompress(METHOD, payload, LIKE))
        content = RecordDict({METRICS: MetricRecord({SAMPLES: samples})})
        put(content, payload, round=1)
        end.take(client, Message(content, client + 1, "train"))
    return end, decoded


def test_the_mean_makes_no_tensors_of_the_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    end, (one, two) = after_round()
    monkeypatch.setattr(Decoded, "tensors", property(lambda self: pytest.fail("tensors")))
    uplinks = end.finish()
    delta, _ = DSGD("samples").step(uplinks, {}, end.weights, INFO)
    assert delta is not None
    for name in LIKE:
        wanted = torch.zeros_like(LIKE[name]).add_(one[name], alpha=0.25)
        assert torch.equal(delta[name], wanted.add_(two[name], alpha=0.75))
    assert uplinks[0].size == pytest.approx(torch.cat([*one.values()]).norm().item())


def test_an_algorithm_that_asks_for_tensors_has_those_of_decompress() -> None:
    end, decoded = after_round(max_norm=100.0)
    for up, expected in zip(end.finish().values(), decoded, strict=True):
        assert isinstance(up.update, Decoded) and [*up.update] == [*expected]
        assert all(torch.equal(x, expected[name]) for name, x in up.update.items())


def test_a_draft_is_what_put_would_write() -> None:
    draft, said = Draft(), {"kind": "model", CLIENT: 0, "round": 3}
    same = b"a model"
    for client, payload, more in (
        (0, same, {}),
        (5, same, {}),
        (6, same, {"base": 2}),
        (7, b"another", {"base": 2}),
    ):
        settings: dict[str, Any] = {**said, **more, CLIENT: client}
        mine, theirs = RecordDict(), RecordDict()
        draft.put(mine, client, payload, settings)
        put(theirs, payload, **settings)
        assert compat.to_bytes(mine) == compat.to_bytes(theirs)
        assert get(mine)[1][CLIENT] == client


def test_a_large_payload_of_a_draft_stands_beside_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strategies.channel.payload.LARGE", 3)
    draft, records = Draft(), [RecordDict(), RecordDict()]
    payload = b"large"
    for client, record in enumerate(records):
        draft.put(record, client, payload, {CLIENT: client})
    assert [(get(record)[0], get(record)[1][CLIENT]) for record in records] == [
        (payload, 0),
        (payload, 1),
    ]
