"""Messages of methods that are worked out by hand: what arrives, what it took, what is kept."""

from typing import Any

import torch
from torch import Tensor

from compressors import State, compress, decompress, parse

Message = tuple[list[float], list[float], list[float]]
"""An update, what arrives of it, and what the sender keeps."""


def arrives(method: str, x: Any, seed: int = 0) -> Tensor:
    """What is decoded of one tensor, by its receiver too."""
    made, update = parse(method), {"w": torch.as_tensor(x, dtype=torch.float32)}
    packet, _ = compress(made, update, seed=seed)
    got = decompress(made, packet.payload, update)["w"]
    assert torch.equal(got, packet.sent["w"].decoded)
    return got


def spans(method: str, x: Any) -> dict[str, int]:
    update = {"w": torch.as_tensor(x, dtype=torch.float32)}
    return dict(compress(parse(method), update)[0].spans)


def close(x: Tensor, values: Any, tolerance: float = 1e-6) -> bool:
    return torch.allclose(x, torch.tensor(values), rtol=0, atol=tolerance)


def sends(method: str, kept: str, messages: list[Message]) -> State:
    """Sends the updates one after the other; returns the memory after the last."""
    made, state = parse(method), None
    for update, arrives, left in messages:
        template = {"w": torch.tensor(update)}
        packet, state = compress(made, template, state)
        assert packet.sent["w"].decoded.tolist() == arrives
        assert state[f"{kept}/w"].tolist() == left
        assert decompress(made, packet.payload, template)["w"].tolist() == arrives
    assert state is not None
    return state
