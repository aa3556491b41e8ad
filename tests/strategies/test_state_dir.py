"""A node's memory in a folder of its own: nobody else reads it, and damage is passed over."""

from pathlib import Path

import pytest
import torch
from flwr.app import Context, RecordDict

from compressors import compress, parse
from strategies.channel import memory
from strategies.channel.acknowledge import APPLIED, pending, settle
from strategies.channel.memory import commit, load

KEY = "one"
LIKE = {"w": torch.zeros(4)}


def node(folder: Path) -> Context:
    return Context(1, 1, {"partition-id": 0, "state-dir": str(folder)}, RecordDict(), {})


def committed(folder: Path, count: int) -> list[Path]:
    """The files after as many commits, whose tensor ``w`` holds 1, 2, 3, ..."""
    for number in range(1, count + 1):
        commit(node(folder), KEY, {"w": torch.full((4,), float(number))})
    return sorted(folder.rglob("memory-*"))


def test_the_last_two_are_kept_and_read_by_nobody_else(tmp_path: Path) -> None:
    files = committed(tmp_path, 3)
    assert [file.name[:15] for file in files] == ["memory-00000002", "memory-00000003"]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
    assert load(node(tmp_path), KEY)["w"].tolist() == [3.0] * 4


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_a_damaged_memory_is_passed_over(
    harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for file, wanted in zip(reversed(committed(tmp_path, 2)), ([1.0] * 4, None), strict=True):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content if harm == "flip" else content[:6])
        caplog.clear()
        found = load(node(tmp_path), KEY)
        assert (found["w"].tolist() if found else None) == wanted
        assert f"{file} is damaged and passed over" in caplog.text
    assert "holds no memory that is whole: the client begins without" in caplog.text
    commit(node(tmp_path), KEY, {"w": torch.ones(4)})
    assert load(node(tmp_path), KEY)["w"].tolist() == [1.0] * 4


def test_a_memory_of_an_older_version_is_read(tmp_path: Path) -> None:
    (file,) = committed(tmp_path, 1)
    file.rename(file.with_name("memory-00000001.safetensors"))
    assert load(node(tmp_path), KEY)["w"].tolist() == [1.0] * 4
    assert [f.name[:15] for f in committed(tmp_path, 1)] == ["memory-00000001", "memory-00000002"]
    assert memory.load(node(tmp_path), "another") == {}


def test_a_memory_of_the_round_before_takes_nothing_back_twice() -> None:
    """The message of round 2 was applied, and the memory is that after round 1."""
    method = parse("gradient_dropping(0.5)")
    packet, after = compress(method, {"w": torch.tensor([4.0, 1.0, 0.0, 3.0])}, None)
    kept = {f"uplink/{name}": x for name, x in after.items()}
    kept |= pending(method, packet.payload, {"round": 1}, LIKE)
    settled = settle(method, {"round": 3, APPLIED: b"\x01"}, kept, LIKE)
    assert settled.applied and torch.equal(settled.uplink["residual/w"], after["residual/w"])
    lost = settle(method, {"round": 3}, kept, LIKE)  # none was applied
    assert lost.returned
