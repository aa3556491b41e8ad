"""A model sent to many clients is decoded once per worker; what one changes no other sees."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import PayloadError, Raw, compress, decompress
from fedsim import RunConfig, run
from strategies.channel import client_end
from strategies.channel.client_end import LastModel
from strategies.channel.directions import received

LIKE = {"w": torch.empty(2, 3), "b": torch.empty(3)}


def payload_of(value: float) -> bytes:
    return compress(Raw(), {n: torch.full_like(x, value) for n, x in LIKE.items()})[0].payload


def test_the_same_bytes_are_decoded_once() -> None:
    last, payload = LastModel(), payload_of(1.0)
    first, second = (last.decoded(Raw(), payload, LIKE) for _ in range(2))
    assert first is not second and all(first[n] is second[n] for n in LIKE)
    other = last.decoded(Raw(), payload_of(2.0), LIKE)
    assert float(other["b"][0]) == 2.0 and float(first["b"][0]) == 1.0


def test_what_a_client_changes_in_place_is_decoded_again() -> None:
    last, payload = LastModel(), payload_of(1.0)
    last.decoded(Raw(), payload, LIKE)["w"].add_(1.0)
    again = last.decoded(Raw(), payload, LIKE)
    wanted = decompress(Raw(), payload, LIKE)
    assert all(torch.equal(again[n], x) for n, x in wanted.items())


def test_the_same_bytes_for_another_model_are_refused() -> None:
    for other in ({"w": torch.empty(3, 2), "b": torch.empty(3)}, {"b": torch.empty(3)}):
        with pytest.raises(PayloadError):
            LastModel().decoded(Raw(), payload_of(1.0), other)


def test_a_direction_beside_the_model_is_decoded_as_before() -> None:
    decoded = partial(LastModel().decoded, Raw(), payload_of(1.0))
    assert float(received(decoded, LIKE, 0)["direction/w"].sum()) == 0.0
    assert "direction/w" not in decoded(LIKE)


def test_a_worker_decodes_once_a_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bytes] = []

    def counted(method: Any, payload: bytes, template: Any) -> Any:
        seen.append(payload)
        return decompress(method, payload, template)

    monkeypatch.setattr(client_end, "decompress", counted)
    run(RunConfig.of(task="digits", iterations=2, temporal=1, clients=3), tmp_path, progress=False)
    assert len(seen) == 2
