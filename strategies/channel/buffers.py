"""A model's buffers (BatchNorm's running statistics) in messages.

They travel in a payload of their own next to the update's, as raw float32 (``Raw``). So an update's
bytes do not depend on them, only buffers in a message arrive, and they cost eight times the length
of their payload.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from compressors import Raw, State, Tensors, compress, decompress
from compressors.whole.memory import nest, unnest
from strategies.channel.orders import Side
from strategies.channel.payload import BUFFERS, Settings
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink, mean, shares

BUFFERS_UP = "buffers-asked"  # whether a message to a client asks for the client's own in its reply


@dataclass
class Buffers(Side):
    """The server's buffers, and when they travel.

    Args:
        values: what the server holds; at first the model's own, which all know.
        down: whether clients are sent the server's with every message.
        up: in which rounds (1, 2, ...) clients send theirs; the server then holds their mean.
        weighting: of that mean: ``uniform``, ``samples``, or the name of a number in the clients'
            metrics; empty: as the strategy weighs their updates.

    Example:
        >>> import torch
        >>> buffers = Buffers({"bn.running_mean": torch.zeros(16)})
        >>> 8 * len(to_payload(buffers.values))  # 24 of header
        536
    """

    names = (BUFFERS,)
    values: dict[str, Tensor]
    down: bool = True
    up: Callable[[int], bool] = lambda round_number: True
    weighting: str = ""
    _asks: bool = field(default=False, init=False, repr=False, compare=False)  # in this round
    _gathered: list[tuple[State, float]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        payload = to_payload(self.values) if self.down and downs else b""
        self._asks = self.up(round_number)
        asks = {BUFFERS_UP: True} if self._asks else {}
        return {c: down.with_side_payload(BUFFERS, payload, **asks) for c, down in downs.items()}

    def read(self, up: Uplink, settings: Settings, down: Downlink | None) -> Uplink:
        payload = settings.get(BUFFERS)
        if payload is None if down is None else BUFFERS_UP not in down.settings:
            return up
        if not isinstance(payload, bytes):
            raise ValueError("the reply lacks the buffers that were asked for")
        statistics = decompress(Raw(), payload, self.values)
        return replace(
            up, side_payloads={**up.side_payloads, BUFFERS: payload}, statistics=statistics
        )

    def close(self, traffic: RoundTraffic) -> None:
        """The mean of those that came becomes the server's."""
        senders = {client: up for client, up in traffic.uplinks.items() if up.statistics}
        if senders and self._asks:
            statistics = [up.statistics for up in senders.values()]
            self.values = mean(statistics, shares(senders, self.weighting))

    def gather(self, client: int, up: Uplink) -> None:
        """Keeps what came with an update of a server that does not wait, until ``mix``."""
        if up.statistics:
            self._gathered.append((up.statistics, shares({client: up}, self.weighting)[0]))

    def mix(self, share: float) -> None:
        """Moves the server's by ``share`` of the way to the mean of what was gathered."""
        if not self._gathered:
            return
        average = mean([x for x, _ in self._gathered], [share for _, share in self._gathered])
        self._gathered = []
        self.values = (
            average
            if share == 1
            else {name: torch.lerp(x, average[name], share) for name, x in self.values.items()}
        )

    def state(self) -> tuple[State, dict[str, Any]]:
        tensors = dict(self.values)
        for place, (statistics, _) in enumerate(self._gathered):
            tensors |= nest(f"gathered-{place}", statistics)
        return tensors, {"gathered": [share for _, share in self._gathered]}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        self._gathered = [
            (unnest(f"gathered-{place}", tensors), share)
            for place, share in enumerate(values.get("gathered", ()))
        ]
        self.values = {name: tensors[name] for name in self.values}


def to_payload(values: dict[str, Tensor]) -> bytes:
    """The message that carries ``values``; ``UpdateError`` names a tensor that is not finite."""
    return compress(Raw(), values)[0].payload


def from_payload(settings: Settings, template: Tensors) -> State:
    """The server's buffers, where they came with the model; ``template``: the client's.

    Raises ``ValueError`` where the client knows of none and the server has some.
    """
    payload = settings.get(BUFFERS)
    if not template and (payload or BUFFERS_UP in settings):
        raise ValueError("the strategy has buffers: name the model's, client_mod(buffers=)")
    return decompress(Raw(), payload, template) if isinstance(payload, bytes) else {}


def answered(settings: Settings, buffers: State, template: Tensors) -> dict[str, bytes]:
    """The payload of the client's ``buffers`` in a reply: empty if they were not requested."""
    if BUFFERS_UP not in settings or not template:
        return {}
    return {BUFFERS: to_payload({name: buffers[name] for name in template})}
