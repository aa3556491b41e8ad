"""The place of a client's memory between rounds: residuals, optimizer state, counters.

One interface, two homes: this process, or the client's node. Both hold a flat mapping of names to
tensors that is never changed in place; a client hands back a new mapping as its very last act, so a
client that fails keeps the memory it had. In Flower's simulation the memory travels between
the two (``fedsim.engines.flower_memory``).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from flwr.app import Context
from torch import Tensor

from compressors import State, compress, decompress, parse
from compressors.whole.growth import grows
from fedsim.engines.flower_memory import STATE
from fedsim.federation.slots import NAME, Slot, SlotFile
from fedsim.ground.errors import UsageError
from fedsim.settings.groups import EXACT, NEAREST
from strategies.channel import memory
from strategies.channel.nodes import PARTITION_ID


class Memories(Protocol):
    """The clients' memory as the server's process sees it.

    Attributes:
        is_local: whether a checkpoint of this process has it; else it lies at the nodes, which may
            be ahead of a server that goes on from a checkpoint.
    """

    @property
    def is_local(self) -> bool: ...

    def begin(
        self, folder: Path | None, named: bool = True, before: Mapping[int, State] | None = None
    ) -> None:
        """Begins a run.

        Args:
            folder: where memories lie that this process does not hold; None: where temporary
                files do.
            named: whether they stay there when the process ends, for checkpoints name them.
            before: what ``copy`` returned, from which the run goes on; None: it starts.
        """
        ...

    def copy(self) -> Mapping[int, State]:
        """Every client's memory now, by client; none where it is not here."""
        ...

    def clients(self) -> list[int]:
        """The clients whose memory is here, in their order."""
        ...

    def of(self, client: int) -> State:
        """The memory of one of ``clients()`` now."""
        ...


class InProcess:
    """Memory in this process: for the local engine, which can checkpoint it.

    Memories stay where they were made, without copies: on a GPU up to ``card`` bytes, in RAM up to
    ``ram_bytes``. Beyond that those that were used least recently go from the GPU to RAM, and from
    RAM to a file of slots, from where their clients load them again. Where a memory lies changes no
    bit of it.
    """

    is_local = True

    def __init__(self, ram_bytes: float = math.inf, card: float = math.inf) -> None:
        self.ram_bytes, self.card = ram_bytes, card
        self._on_card: dict[int, State] = {}  # on a GPU, that which was used least recently first
        self._taken = 0  # bytes of the GPU by these
        self._in_ram: dict[int, State] = {}  # in RAM, that which was used least recently first
        self._sizes: dict[int, int] = {}  # bytes of each
        self._bytes = 0  # of all
        self._slots: dict[int, Slot] = {}  # in the file; what is in RAM, too, is the same
        self.file = SlotFile(None)

    def begin(
        self, folder: Path | None, named: bool = True, before: Mapping[int, State] | None = None
    ) -> None:
        self._on_card, self._taken, self._slots = {}, 0, {}
        self._in_ram, self._sizes, self._bytes = {}, {}, 0
        self.file = SlotFile(folder / NAME if folder and named else None, folder)
        if isinstance(before, MemorySnapshot) and before.file.path == self.file.path:
            self._slots = {c: x for c, x in before.places.items() if isinstance(x, Slot)}
            self.file.begin(self._slots.values(), before.older)
            return
        self.file.begin()
        for client, state in (before or {}).items():
            self.put(client, state)

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        client = int(context.node_config[PARTITION_ID])
        for home in (self._on_card, self._in_ram):
            if client in home:
                home[client] = home.pop(client)
                return home[client]
        slot = self._slots.get(client)
        return {} if slot is None else self.file.read(slot)  # which the client alone replaces

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        self.put(int(context.node_config[PARTITION_ID]), state)

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        """A run that is extended goes on from it."""

    def put(self, client: int, state: State) -> None:
        """Replaces a client's memory; where the disk is full, ``OSError``, and it stays."""
        if self.card != math.inf:
            if self._put_on_card(client, state):
                return
            state = in_ram(state)
        before, new = self._sizes.get(client, 0), sum([x.nbytes for x in state.values()])
        room, slot = self.ram_bytes - new, None
        while self._bytes - before > room and (other := _first(self._in_ram, client)) is not None:
            if other not in self._slots:
                self._slots[other] = self.file.write(self._in_ram[other])
            del self._in_ram[other]
            self._bytes -= self._sizes.pop(other)
        if room < 0:
            slot = self.file.write(state)
        self._forget(client)
        if slot is None:
            self._in_ram[client], self._sizes[client] = state, new
            self._bytes += new
        else:
            self._slots[client] = slot

    def _put_on_card(self, client: int, state: State) -> bool:
        """The same where the memory fits the GPU, from which others leave; returns whether."""
        needed, before = on_card(state), on_card(self._on_card.get(client, {}))
        if not 0 < needed <= self.card:
            return False
        while (
            self._taken - before + needed > self.card
            and (other := _first(self._on_card, client)) is not None
        ):
            self.put(other, in_ram(self._on_card[other]))
        self._forget(client)
        self._on_card[client] = state
        self._taken += needed
        return True

    def _forget(self, client: int) -> None:
        """Frees a client's memory on the GPU, in RAM and in the file."""
        if client in self._on_card:
            self._taken -= on_card(self._on_card.pop(client))
        if client in self._slots:
            self.file.release(self._slots.pop(client))
        self._in_ram.pop(client, None)
        self._bytes -= self._sizes.pop(client, 0)

    def clients(self) -> list[int]:
        return sorted({*self._on_card, *self._in_ram, *self._slots})

    def of(self, client: int) -> State:
        for home in (self._on_card, self._in_ram):
            if client in home:
                return home[client]
        return self.file.read(self._slots[client])

    def copy(self) -> "MemorySnapshot":
        """Every client's memory now, which clients that are late may replace meanwhile."""
        places: dict[int, State | Slot] = {**self._on_card, **self._in_ram, **self._slots}
        by_client = {client: places[client] for client in sorted(places)}
        return MemorySnapshot(by_client, self.file, self.file.mark(), self)

    def bring(self, snapshot: "MemorySnapshot") -> None:
        """Writes the memories of ``copy`` that are in no slot yet."""
        for client, place in snapshot.places.items():
            if isinstance(place, Slot):
                continue
            snapshot.places[client] = slot = self.file.write(place, snapshot.mark - 1)
            if any(place is home.get(client) for home in (self._in_ram, self._on_card)):
                self._slots[client] = slot
            else:  # the client has replaced it meanwhile: the checkpoint alone names the slot
                self.file.release(slot)


def _first(states: Iterable[int], client: int) -> int | None:
    """The client whose memory was used least recently, of all but one; None: there is none."""
    return next((other for other in states if other != client), None)


class MemorySnapshot(Mapping[int, State]):
    """Memories by client at one moment, some as values and some in slots, read when asked for.

    ``mark``: of the file at that moment; ``states``: whose they are, None: all are in slots;
    ``older``: slots of the file that an older checkpoint names.
    """

    def __init__(
        self,
        places: dict[int, State | Slot],
        file: SlotFile,
        mark: int = 0,
        states: InProcess | None = None,
    ) -> None:
        self.places, self.file, self.mark, self.states = places, file, mark, states
        self.older: list[Slot] = []

    def __getitem__(self, client: int) -> State:
        place = self.places[client]
        return self.file.read(place) if isinstance(place, Slot) else place

    def __iter__(self) -> Iterator[int]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def bytes(self) -> int:
        """The bytes of all memories together."""
        return sum(map(size, self.places.values()))

    def table(self) -> Tensor:
        """Every client and its slot, in which its memory is on disk now; int64 (clients, 4)."""
        if self.states is not None:
            self.states.bring(self)
            self.file.sync()
        slots = ((c, place) for c, place in self.places.items() if isinstance(place, Slot))
        rows = [(client, *slot[:3]) for client, slot in slots]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)


def size(place: State | Slot) -> int:
    """Bytes of a memory's tensors, or of the slot that it lies in."""
    if isinstance(place, Slot):
        return place.length
    return sum([x.nbytes for x in place.values()])


def on_card(state: State) -> int:
    """Bytes of a memory that lie on a GPU."""
    return size({name: x for name, x in state.items() if x.device.type != "cpu"})


def in_ram(state: State) -> State:
    """A memory whose tensors are on the host.

    Torch rounds pinned memory up to powers of two, and ``--memory`` would count half of it: this is
    ordinary memory.
    """
    return {name: x.cpu() for name, x in state.items()} if on_card(state) else state


def read_snapshot(file: Path, table: Tensor) -> MemorySnapshot:
    """The memories that a checkpoint names, as ``MemorySnapshot.table`` made its ``table``.

    Raises ``DamagedFile`` where one is not what was written.
    """
    slots = {client: Slot(*place) for client, *place in table.tolist()}
    snapshot = MemorySnapshot({**slots}, SlotFile(file))
    snapshot.file.check(slots.values())
    return snapshot


class AtNode:
    """Memory at the client's node: Flower's ``Context.state``, or the node's ``state-dir``."""

    is_local = False

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        return memory.load(context, STATE, settings)

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        memory.commit(context, STATE, settings, state)

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        memory.remove_memory(context, settings)

    def begin(
        self, folder: Path | None, named: bool = True, before: Mapping[int, State] | None = None
    ) -> None:
        """They are where they were."""

    def copy(self) -> dict[int, State]:
        return {}

    def clients(self) -> list[int]:
        return []

    def of(self, client: int) -> State:
        raise KeyError(client)


_FEWER = ("uplink/", "optimizer/")
"""What may be kept in fewer bytes: residuals and optimizer state, not the model or a message."""

_PAYLOAD, _NAMES = "kept/payload", "kept/names"
_SIGNED = "optimizer/momentum_buffer/"
_method = lru_cache(parse)


def pack_memory(state: State, memory_as: str, seed: int = 0) -> State:
    """A client's memory as it is kept.

    Args:
        state: the memory.
        memory_as: ``float32``, as it is; ``bfloat16``, each number the nearest of 8 binary digits;
            or the text of a method, whose message the tensors become.
        seed: of the method's random choices.

    Raises ``UpdateError`` where a method cannot encode a tensor that is not finite.

    Example:
        >>> state = {"uplink/residual/w": torch.tensor([0.1]), "base/w": torch.tensor([0.1])}
        >>> pack_memory(state, "bfloat16")
        {'uplink/residual/w': tensor([0.1001], dtype=torch.bfloat16), 'base/w': tensor([0.1000])}
        >>> [*pack_memory(state, "cnat")]
        ['base/w', 'kept/names', 'kept/payload']
    """
    fewer = {n: x for n, x in state.items() if _fits(n, x)} if memory_as != EXACT else {}
    if memory_as == NEAREST:
        return {name: x.bfloat16() if name in fewer else x for name, x in state.items()}
    if not fewer:
        return state
    names = json.dumps([(n, [*x.shape] if n in fewer else None) for n, x in state.items()])
    payload = compress(_method(memory_as), fewer, seed=seed)[0].payload
    exact = {name: x for name, x in state.items() if name not in fewer}
    return exact | {_NAMES: _bytes(names.encode()), _PAYLOAD: _bytes(payload)}


def unpack_memory(state: State, memory_as: str) -> State:
    """A memory that ``pack_memory`` made, as clients take it."""
    if memory_as == NEAREST:
        return {n: x.float() if x.dtype == torch.bfloat16 else x for n, x in state.items()}
    if _PAYLOAD not in state:
        return state
    shapes = json.loads(state[_NAMES].numpy().tobytes())
    template = {name: torch.empty(shape) for name, shape in shapes if shape is not None}
    tensors = state | decompress(_method(memory_as), state[_PAYLOAD].numpy().tobytes(), template)
    return {name: tensors[name] for name, _ in shapes}


def check_packing(state: State, memory_as: str) -> None:
    """Refuses a method with which memory grows, or squares by which optimizers divide become 0."""
    if memory_as in (EXACT, NEAREST):
        return
    fewer = {n: x for n, x in state.items() if _fits(n, x)}
    if reason := grows(_method(memory_as), fewer, around=""):
        raise UsageError(f"--memory-as is {memory_as!r}: {reason}; or give cnat or bfloat16")
    divides = [n for n in fewer if n.startswith("optimizer/") and not n.startswith(_SIGNED)]
    if not divides:
        return
    x = torch.rand(4096, generator=torch.Generator().manual_seed(0)) ** 8 + 1e-12
    x[::8] = 0
    x_hat = unpack_memory(pack_memory({divides[0]: x}, memory_as), memory_as)[divides[0]]
    if not torch.equal(x_hat > 0, x > 0):
        raise UsageError(
            f"--memory-as is {memory_as!r}: the optimizer keeps {divides[0].split('/')[1]}, by "
            "whose entries it may divide, and this method makes some of them 0 or less; give cnat, "
            "bfloat16, SGD (--momentum), or --stateless"
        )


def _fits(name: str, x: Tensor) -> bool:
    return name.startswith(_FEWER) and x.dtype == torch.float32 and x.dim() > 0 and x.numel() > 0


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
