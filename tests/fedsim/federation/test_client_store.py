"""Where clients' memories lie changes no bit; no slot that a checkpoint names is written over."""

import errno
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from compressors import State
from fedsim import RunConfig, UsageError, run
from fedsim.federation import client_memory, storage
from fedsim.federation.client_memory import InProcess, MemorySnapshot, read_snapshot, size
from fedsim.federation.slots import NAME, SlotFile
from fedsim.runs import checkpoint
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import Memories, assert_same, small

SOME = {"clients": 6, "cohort": 3, "downlink": "sbc(0.1)", "iterations": 30}
PLACES: dict[str, Any] = {"ram": "1GiB", "both": "600kB", "file": 1}


def state(generator: random.Random, client: int) -> State:
    count = generator.choice([0, 3, 300, 3000])
    return {
        "uplink/residual/w": torch.rand(count, dtype=torch.float32),
        "iterations": torch.tensor(client),
        "flags": torch.ones(2, 3, dtype=torch.bool),
    }


def same(one: State, other: State) -> bool:
    return [*one] == [*other] and all(
        torch.equal(x, other[n]) and x.dtype == other[n].dtype for n, x in one.items()
    )


class There(dict[str, Tensor]):
    """A memory that counts as one on a GPU."""


@pytest.fixture
def with_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        client_memory, "on_card", lambda state: size(state) if type(state) is There else 0
    )
    monkeypatch.setattr(client_memory, "in_ram", lambda state: {**state})


@pytest.mark.parametrize(("seed", "card"), [(0, math.inf), (1, 0), (2, 9_000), (3, 20_000)])
def test_what_two_checkpoints_name_stands_whatever_is_written(
    seed: int, card: float, tmp_path: Path, with_a_card: None
) -> None:
    """Memories replaced at random, checkpoints kept and not, and runs that go on from one."""
    draw, now, tables = random.Random(seed), dict[int, State](), list[tuple[Any, Any]]()
    states = InProcess(20_000, card)
    states.begin(tmp_path)
    for _ in range(400):
        what = draw.random()
        if what < 0.85:
            client = draw.randrange(12)
            now[client] = state(draw, client)
            states.put(client, There(now[client]) if client % 3 else now[client])
        elif what < 0.97:
            kept = states.copy()
            table = kept.table()
            if draw.random() < 0.7:  # else the disk was full, or the process is killed before
                tables = [*tables, (table, dict(now))][-2:]
                kept.file.keep(kept.mark)
        elif tables:
            table, now = tables[-1][0], dict(tables[-1][1])
            before = read_snapshot(tmp_path / NAME, table)
            before.older = [*read_snapshot(tmp_path / NAME, tables[0][0]).places.values()]
            states = InProcess(20_000, card)
            states.begin(tmp_path, True, before)
        for table, wanted in tables:
            found = read_snapshot(tmp_path / NAME, table)
            assert {*found} == {*wanted} and all(same(found[c], x) for c, x in wanted.items())
        everybody = states.copy()
        assert {*everybody} == {*now} and all(same(everybody[c], x) for c, x in now.items())
    assert (tmp_path / NAME).stat().st_size < 3 * 12 * 12_300  # each three times at most


def test_memories_used_least_recently_leave_a_gpu_for_ram() -> None:
    """Fake tensors know their device, so that this needs no GPU."""

    def places() -> list[str]:
        return [x["w"].device.type for x in states.copy().values()]

    states = InProcess(card=900)
    with FakeTensorMode():
        for client in range(4):
            states.put(client, {"w": torch.empty(100, device="cuda"), "n": torch.tensor(client)})
        assert places() == ["cpu", "cpu", "cuda", "cuda"]
        states.put(2, {"w": torch.empty(90, device="cuda")})
        states.put(0, {"w": torch.empty(100, device="cuda")})
        assert places() == ["cuda", "cpu", "cuda", "cpu"]
        states.put(2, {"w": torch.empty(900, device="cuda")})  # more than there is room for
        assert places() == ["cuda", "cpu", "cpu", "cpu"]


def test_a_quarter_of_a_gpu_is_for_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "free", lambda device: 1000 * (device.index + 1))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert storage.states_of(RunConfig.of(task="digits", device="cuda:1")).card == 500
    assert storage.states_of(RunConfig.of(task="digits")).card == math.inf


def test_freed_slots_are_used_again() -> None:
    file = SlotFile(None)
    file.begin()
    first, second = file.write({"w": torch.ones(100)}), file.write({"w": torch.zeros(100)})
    file.release(first)
    assert file.write({"w": torch.ones(90)}).offset == first.offset
    file.mark()
    file.release(second)
    assert file.write({"w": torch.ones(100)}).offset > second.offset


def test_a_full_disk_leaves_every_memory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = InProcess(900)
    states.begin(tmp_path)
    kept = {client: {"w": torch.full((100,), float(client))} for client in range(4)}
    for client in (0, 1, 2):
        states.put(client, kept[client])

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        for client in (1, 3):
            with pytest.raises(OSError, match="No space left"):
                states.put(client, {"w": torch.zeros(1000)})
    assert {*states.copy()} == {0, 1, 2}
    assert all(same(states.copy()[client], kept[client]) for client in (0, 1, 2))
    states.put(3, kept[3])
    assert all(same(states.copy()[client], kept[client]) for client in range(4))


@pytest.mark.slow
def test_the_place_of_memories_changes_no_bit(tmp_path: Path) -> None:
    for place, memory in PLACES.items():
        run(small(**SOME, memory=memory, keep_payloads=True), tmp_path / place)
    run(small(**SOME, memory=1, keep_payloads=True, workers=2), tmp_path / "two")
    for place in ("both", "file", "two"):
        assert_same(tmp_path / "ram", tmp_path / place)
        assert not (tmp_path / place / NAME).exists()


def test_a_checkpoint_writes_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, write = [0], SlotFile.write

    def counted(self: SlotFile, *given: Any) -> Any:
        counts[-1] += 1
        return write(self, *given)

    monkeypatch.setattr(SlotFile, "write", counted)
    config = small(clients=8, cohort=2, temporal=1, iterations=6, checkpoint_every=1)
    with pytest.raises(Stopped):
        run(config, tmp_path, callbacks=[lambda _: counts.append(0), stop_after(5)])
    assert counts[:5] == [2] * 5


def test_a_memory_that_the_disk_has_damaged_is_not_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = small(clients=8, cohort=2, temporal=1, iterations=6, checkpoint_every=1)
    with pytest.raises(Stopped):
        run(config, tmp_path / "parts", callbacks=[stop_after(3)])
    file = tmp_path / "parts" / NAME
    found = checkpoint.load_checkpoint(tmp_path / "parts")
    assert found is not None
    assert isinstance(found.clients, MemorySnapshot)
    before = {slot.offset for slot in found.clients.older}
    last = max({*found.clients.table()[:, 1].tolist()} - before)
    content = bytearray(file.read_bytes())
    content[last + 1000] ^= 1
    file.write_bytes(content)
    run(config, tmp_path / "parts")
    assert "00000003 is damaged and passed over (clients.slots: its content" in caplog.text
    run(config, tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_a_large_end_stays_in_its_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "KEPT_BYTES", 1000)
    config = small(**SOME, keep_checkpoint=True, evaluate_every=1)
    run(config, tmp_path / "parts")
    assert (tmp_path / "parts" / NAME).exists()
    longer = config.but(iterations=40, keep_checkpoint=False)
    run(longer, tmp_path / "parts")
    assert not (tmp_path / "parts" / NAME).exists() and not (tmp_path / "parts/final").exists()
    run(longer, tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_stateless_clients_forget_their_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    memories = Memories(monkeypatch)
    with_state = run(small(momentum=0.9), callbacks=[memories])
    assert any(name.startswith("optimizer/") for name in memories.rounds[-1][0])
    memories.states = InProcess()
    without = run(small(momentum=0.9, stateless=True), callbacks=[memories])
    assert not any(name.startswith("optimizer/") for name in memories.rounds[-1][0])
    first = [result.rounds["digest_model"][0] for result in (with_state, without)]
    later = [result.rounds["digest_model"][1] for result in (with_state, without)]
    assert first[0] == first[1] and later[0] != later[1]
    assert (
        "stateless" in small(stateless=True).identity()
        and "memory" not in small(memory=1).identity()
    )


def test_what_will_be_kept_is_told_and_refused_where_it_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = 21_386 * 4 / 2**10  # KiB: a residual
    config = small(momentum=0.9, memory="300kB")
    memories = Memories(monkeypatch)
    run(config, callbacks=[memories])
    assert f"about 4 clients will have trained and keep {2 * kept:.3g} KiB each" in caplog.text
    found = storage.size(memories.rounds[-1][0])
    assert storage.client_bytes(config) <= found < 1.02 * storage.client_bytes(config)
    disk = type("Disk", (), {"free": 2**18})
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: disk)
    with pytest.raises(UsageError, match=r"--memory is 300000: about 4 clients.*256 KiB"):
        run(config, tmp_path / "out")
    monkeypatch.setattr(storage, "ram", lambda: (2**30, 2**17))
    with pytest.raises(UsageError, match=r"--memory is 1e\+09: .* of RAM are free; give less"):
        run(config.but(memory="1GB"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_bfloat16_halves_what_is_kept_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = Memories(monkeypatch)
    config = small(**SOME, momentum=0.9, memory_as="bfloat16")
    run(config, tmp_path / "ram", callbacks=[memories])
    kinds = {name: x.dtype for name, x in memories.rounds[-1][0].items() if x.dim()}
    half = {name for name, kind in kinds.items() if kind == torch.bfloat16}
    assert half == {name for name in kinds if name.startswith(("uplink/residual", "optimizer/"))}
    assert {kind for name, kind in kinds.items() if name.startswith("base/")} == {torch.float32}
    found = storage.size(memories.rounds[-1][0])
    assert storage.client_bytes(config) <= found < 1.02 * storage.client_bytes(config)
    assert storage.client_bytes(config) < 0.7 * storage.client_bytes(
        config.but(memory_as="float32")
    )
    memories.states = InProcess(1)
    run(config, tmp_path / "file")
    assert_same(tmp_path / "ram", tmp_path / "file")
    memories.states = InProcess()
    exact = run(config.but(memory_as="float32"), tmp_path / "exact").rounds["loss"].iloc[-1]
    assert 0 < abs(run(config).rounds["loss"].iloc[-1] / exact - 1) < 0.02
    assert small(memory_as="bfloat16").digest != small().digest
    with pytest.raises(UsageError, match="--memory-as is 'bfloat16': strategy ef21"):
        small(method="ef21(topk(0.1) | float32)", strategy="ef21", memory_as="bfloat16")


@pytest.mark.slow
def test_a_method_keeps_memories_in_fewer_bytes_wherever_they_lie(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random rounding draws by client and iteration: places and workers change nothing."""
    memories = Memories(monkeypatch)
    task = make_task(optimizer=lambda p: torch.optim.Adam(p, lr=0.01), clients=6)
    config = small(
        task=task,
        method="sbc(0.2)",
        downlink="sbc(0.2)",
        cohort=3,
        temporal=2,
        iterations=16,
        memory_as="cnat",
    )
    done = run(config, tmp_path / "ram", callbacks=[memories])
    kept = memories.rounds[-1][0]
    plain = client_memory.unpack_memory(kept, "cnat")
    whole = [x for name, x in plain.items() if name.startswith(("uplink/residual", "optimizer/"))]
    entries = sum(x.numel() for x in whole if x.dim())
    assert 8 * kept["kept/payload"].numel() == pytest.approx(9 * entries, abs=72)
    assert {"base/0.weight", "iterations", "optimizer/exp_avg_sq/0.weight"} <= {*plain}
    assert storage.client_bytes(config) <= storage.size(kept)
    assert 'memory_as = "cnat"' in (tmp_path / "ram/config.toml").read_text(encoding="utf-8")
    assert done.summary["held_norm"] > 0
    for name, most in (("both", 2_000), ("file", 1)):
        memories.states = InProcess(most)
        run(config.but(workers=2), tmp_path / name)
        assert_same(tmp_path / "ram", tmp_path / name)
        again = (tmp_path / name / "summary.json").read_text(encoding="utf-8")
        assert f'"held_norm": {done.summary["held_norm"]}' in again
    for way, why in (
        ("sbc(0.1)", "memory or a server"),
        ("nothing", "nothing"),
        ("topk", "give float32"),
    ):
        with pytest.raises(UsageError, match=f"--memory-as.*{why}"):
            config.but(memory_as=way)
    with pytest.raises(UsageError, match="'qsgd.*exp_avg.* 0 or less; give cnat"):
        run(config.but(memory_as="qsgd(7)"), progress=False)


def test_the_memory_of_a_gpu_s_adam_is_counted_on_the_host(make_task: Any) -> None:
    """There torch refuses the steps of an Adam that counts them on a GPU."""
    task = make_task(optimizer=lambda p: torch.optim.Adam(p, lr=0.01))
    config = RunConfig.of(task=task.name, method="raw", temporal=4)
    assert storage.client_bytes(config.but(device="cuda")) == storage.client_bytes(config)
