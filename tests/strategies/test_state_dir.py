"""A node's memory in a folder of its own: nobody else reads it, and damage is passed over."""

from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict

from compressors import Raw, compress, parse
from strategies.channel.acknowledge import (
    APPLIED,
    CHANNEL,
    LIVES,
    Ack,
    OutOfOrder,
    pending,
    take_ack,
)
from strategies.channel.memory import MEMORY_FILES, commit, load, remove_memory
from strategies.channel.payload import ROUND

KEY = "one"
LIKE = {"w": torch.zeros(4)}
HALF = parse("gradient_dropping(0.5)")


def node(folder: Path, client: int = 0) -> Context:
    return Context(1, 1, {"partition-id": client, "state-dir": str(folder)}, RecordDict(), {})


def asked(number: int, life: int = 0, channel: int = 7) -> dict[str, Any]:
    """What stands beside the message of a round."""
    return {ROUND: number, CHANNEL: channel * LIVES + life}


def committed(folder: Path, rounds: range, life: int = 0) -> list[Path]:
    """The files after these rounds, in each of which ``w`` is its number."""
    for number in rounds:
        kept = {"w": torch.full((4,), float(number))}
        kept |= pending(b"a", asked(number, life), Ack({}), keeps=True)
        commit(node(folder), KEY, asked(number, life), kept)
    return sorted(folder.rglob("memory-*"))


def loaded(folder: Path, number: int, life: int = 0, channel: int = 7) -> float | None:
    """``w`` of the memory with which the client answers a round."""
    found = load(node(folder), KEY, asked(number, life, channel))
    return found["w"][0].item() if found else None


def test_the_last_three_are_kept_and_read_by_nobody_else(tmp_path: Path) -> None:
    files = committed(tmp_path, range(1, 5))
    assert [file.name[:15] for file in files] == [f"memory-{n:08d}" for n in (2, 3, 4)]
    assert len(files) == MEMORY_FILES and {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
    assert loaded(tmp_path, 5) == 4.0


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_a_damaged_memory_is_passed_over(
    harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for file, wanted in zip(reversed(committed(tmp_path, range(1, 3))), (1.0, None), strict=True):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content if harm == "flip" else content[:6])
        caplog.clear()
        assert loaded(tmp_path, 3) == wanted
        assert f"{file} is damaged and passed over" in caplog.text
    assert "holds no memory that is whole: the client begins without" in caplog.text
    committed(tmp_path, range(3, 4))
    assert loaded(tmp_path, 4) == 3.0


def test_a_server_that_was_killed_finds_the_memory_that_it_knows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks for its last round again, or for the one before, or is killed a second time."""
    committed(tmp_path, range(3, 6))
    assert [loaded(tmp_path, n, life=1) for n in (6, 5, 4)] == [5.0, 4.0, 3.0]
    assert loaded(tmp_path, 3, life=1) is None  # its first round: there was no memory before it
    assert loaded(tmp_path, 5) == 5.0  # the same server, twice: ``take_ack`` refuses that
    assert not caplog.text
    again = committed(tmp_path, range(5, 6), life=1)
    assert [file.name[:15] for file in again] == [f"memory-{n:08d}" for n in (3, 4, 5)]
    assert loaded(tmp_path, 5, life=2) == 4.0
    stale = load(node(tmp_path), KEY, asked(5))  # of the server that is gone
    with pytest.raises(OutOfOrder, match="round 5 was asked by a server that has gone on since"):
        take_ack(HALF, asked(5), stale, LIKE)
    with pytest.raises(OutOfOrder, match="round 5 was asked of a client that has answered round 5"):
        take_ack(HALF, asked(5, life=1), stale, LIKE)


def test_a_run_goes_by_its_channel_and_is_forgotten_when_it_is_done(tmp_path: Path) -> None:
    """Flower gives the same run another number when it goes on."""
    committed(tmp_path, range(1, 3))
    other = Context(2, 9, node(tmp_path).node_config, RecordDict(), {})
    assert load(other, KEY, asked(3, life=1))["w"][0] == 2.0
    assert loaded(tmp_path, 3, channel=8) is None
    commit(node(tmp_path, client=1), KEY, asked(1), {"w": torch.ones(4)})
    remove_memory(node(tmp_path), asked(3, life=1))
    assert loaded(tmp_path, 3) is None and load(node(tmp_path, client=1), KEY, asked(2))
    remove_memory(node(tmp_path, client=1), asked(3))
    assert list(tmp_path.iterdir()) == []


def test_a_memory_of_the_round_before_takes_nothing_back_twice() -> None:
    """The message of round 2 was applied, and the memory is that after round 1."""
    method = HALF
    packet, after = compress(method, {"w": torch.tensor([4.0, 1.0, 0.0, 3.0])}, None)
    kept = {f"uplink/{name}": x for name, x in after.items()}
    kept |= pending(packet.payload, {"round": 1}, Ack({}), keeps=True)
    ack = take_ack(method, {"round": 3, APPLIED: b"\x01"}, kept, LIKE)
    assert ack.applied and torch.equal(ack.uplink["residual/w"], after["residual/w"])
    lost = take_ack(method, {"round": 3}, kept, LIKE)  # none was applied
    assert lost.returned and lost.lost == 0


def test_lost_updates_are_counted_over_rounds() -> None:
    """``raw`` keeps no residual: what was not applied is lost, beside the two before it."""
    payload = compress(Raw(), LIKE)[0].payload
    kept = pending(payload, {"round": 1}, Ack({}, lost=2), keeps=False)
    assert take_ack(Raw(), {"round": 3}, kept, LIKE).lost == 3
    assert take_ack(Raw(), {"round": 2, APPLIED: b"\x01"}, kept, LIKE).lost == 2
