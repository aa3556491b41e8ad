"""The server's end that sends each client the change since the model which that client holds."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Message
from torch import Tensor

from compressors import State, check_decoded, compress, derive
from compressors.whole.memory import nest, unnest
from strategies.channel.asynchronous_end import Arrival, AsynchronousEnd
from strategies.channel.late import Late
from strategies.channel.stored import Stored
from strategies.channel.traffic import Downlink


class Copies(AsynchronousEnd):
    """An ``AsynchronousEnd`` with a copy of what each client holds.

    The model moves by exactly its steps.

    What a lossy downlink leaves out is in the difference the next time, so that the copies are the
    downlink's memory: a residual of the method's own would count that twice, and is not kept.

    Source: Aji & Heafield 2017, section 4: deltas from the last version pulled by the client.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._copies: dict[int, Mapping[str, Tensor]] = {}
        self._given: dict[int, Mapping[str, Tensor]] = {}  # to clients that have not answered yet
        self._checked = False

    def _model_or_update(self, client: int) -> Downlink:
        """The difference to the client's copy; with a raw downlink, and at first, the model."""
        copy = self._copies.get(client)
        if copy is None or not self.follows:
            self._given[client] = self.weights
            return super()._model_or_update(client)
        delta = {name: x - copy[name] for name, x in self.weights.items()}
        seed = derive(self.seed, "downlink", client, self._count[client])
        packet, _ = compress(self.downlink, delta, None, seed)
        if not self._checked:
            check_decoded(self.downlink, packet, self.weights)
            self._checked = True
        self._given[client] = {n: x + packet.sent[n].decoded for n, x in copy.items()}
        return Downlink(packet.payload, "update", packet.spans)

    def arrive(self, client: int, reply: Message, late: Late | None = None) -> Arrival:
        arrival, given = super().arrive(client, reply, late), self._given.pop(client)
        if arrival.uplink is not None:
            self._copies[client] = given
        elif reply.has_content():  # refused: the client went on to what it was given, unlike after
            self._copies.pop(client, None)  # an error, and is sent the whole model next
            self.base.pop(client, None)
        return arrival

    def advance(self, delta: Mapping[str, Tensor]) -> None:
        """Moves the model by ``delta``."""
        self.replace({name: x + delta[name] for name, x in self.weights.items()})

    def state(self) -> tuple[State, dict[str, Any]]:
        """See ``AsynchronousEnd.state``; with the copies."""
        tensors, values = super().state()
        stored = Stored(())
        values["copies"] = stored.pack([self._copies, self._given])
        return tensors | nest("copies", stored.tensors), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """See ``AsynchronousEnd.restore``."""
        super().restore(tensors, values)
        stored = Stored((), unnest("copies", tensors))
        self._copies, self._given = stored.unpack(values["copies"])
