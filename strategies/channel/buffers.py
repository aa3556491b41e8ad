"""Buffers: what a model has beside its parameters (BatchNorm's running statistics), in messages.

They travel in a payload of their own beside the update's, float32 as they are (``Raw``), so that an
update's bytes do not depend on them, what is not in a message does not arrive, and eight times
their length is what they cost.
"""

from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import ConfigRecord
from torch import Tensor

from compressors import Raw, compress, decompress

PAYLOAD = "buffers"
"""Their payload in a message, down or up."""

ASKED = "buffers-asked"
"""Whether a message to a client asks for the client's own in its reply."""


@dataclass
class Buffers:
    """The server's buffers, and when they travel.

    Args:
        values: what the server holds; at first the model's own, which all know.
        down: whether clients are sent the server's with every message.
        asked: in which rounds (1, 2, ...) clients send theirs; the server then holds their mean.
        weighting: of that mean: ``uniform`` or ``samples``.

    Example:
        >>> import torch
        >>> 8 * len(Buffers({"bn.running_mean": torch.zeros(16)}).payload())  # 24 of header
        536
    """

    values: dict[str, Tensor]
    down: bool = True
    asked: Callable[[int], bool] = lambda round_number: True
    weighting: str = "uniform"

    def payload(self) -> bytes:
        """What clients are sent: nothing where ``down`` is off."""
        return to_payload(self.values) if self.down else b""

    def read(self, beside: ConfigRecord) -> tuple[bytes, dict[str, Tensor]]:
        """The payload in a reply and what it says.

        Raises ``ValueError`` where there is none and ``PayloadError`` where it is damaged.
        """
        payload = beside.get(PAYLOAD)
        if not isinstance(payload, bytes):
            raise ValueError("the reply lacks the buffers that were asked for")
        return payload, decompress(Raw(), payload, self.values)


def to_payload(values: dict[str, Tensor]) -> bytes:
    """The message that carries ``values``; ``UpdateError`` names a tensor that is not finite."""
    return compress(Raw(), values)[0].payload
