"""Dataclasses that hold bytes and tensors, as values for JSON and tensors by name."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from compressors import State

_PLAIN = (str, int, float, bool)
_FORMER = {"Asked": "Request"}  # kinds in checkpoints of version 0.1.0
_SHORT = 256  # bytes: longer ones are tensors of uint8


@dataclass
class Stored:
    """Packs dataclasses into values for JSON; their tensors go to ``tensors``, each once.

    Example:
        >>> from strategies.channel.framing import Travel
        >>> stored = Stored((Travel,))
        >>> values = stored.pack({3: Travel(1, 2), 4: b"a", 5: torch.ones(2)})
        >>> stored.unpack(values)
        {3: Travel(down=1, up=2), 4: b'a', 5: tensor([1., 1.])}
    """

    kinds: Sequence[type]  # the dataclasses and named tuples that may occur
    tensors: State = field(default_factory=dict)
    _names: dict[int, tuple[str, Any]] = field(default_factory=dict)  # by id

    def pack(self, thing: Any) -> Any:
        """The value for JSON; ``TypeError`` where it is neither plain nor of a known kind."""
        if thing is None or type(thing) in _PLAIN:
            return thing
        if isinstance(thing, bytes):
            short = len(thing) < _SHORT
            return {"bytes": b64encode(thing).decode()} if short else {"data": self._name(thing)}
        if isinstance(thing, Tensor):
            return {"tensor": self._name(thing)}
        if isinstance(thing, Mapping):
            return {"pairs": [[self.pack(key), self.pack(x)] for key, x in thing.items()]}
        if type(thing) in (list, tuple):
            return {type(thing).__name__: [self.pack(x) for x in thing]}
        if type(thing) not in self.kinds:
            raise TypeError(f"no checkpoint holds a {type(thing).__name__}")
        names = [f.name for f in fields(thing)] if is_dataclass(thing) else thing._fields
        return {type(thing).__name__: [self.pack(getattr(thing, name)) for name in names]}

    def unpack(self, values: Any) -> Any:
        """What ``pack`` was given; equal tensors that were one are one again."""
        if not isinstance(values, dict):
            return values
        ((kind, inside),) = values.items()
        if kind == "bytes":
            return b64decode(inside)
        if kind == "data":
            return self.tensors[inside].numpy().tobytes()
        if kind == "tensor":
            return self.tensors[inside]
        if kind == "pairs":
            return {self.unpack(key): self.unpack(x) for key, x in inside}
        values = [self.unpack(x) for x in inside]
        if kind in ("list", "tuple"):
            return values if kind == "list" else tuple(values)
        return {kind.__name__: kind for kind in self.kinds}[_FORMER.get(kind) or kind](*values)

    def _name(self, x: Tensor | bytes) -> str:
        name, _ = self._names.setdefault(id(x), (str(len(self._names)), x))
        if name not in self.tensors:  # of its own: files hold no memory twice
            plain = torch.contiguous_format
            self.tensors[name] = (
                x.detach().clone(memory_format=plain)
                if isinstance(x, Tensor)
                else torch.frombuffer(bytearray(x), dtype=torch.uint8)
            )
        return name
