"""The client half of ``Compressed``: a Flower mod around an ordinary ClientApp."""

from collections.abc import Callable, Collection
from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message

from compressors import Compressor, Raw, State, check_decoded, compress, decompress, derive
from compressors.whole.lift import inside, nest
from strategies.channel.buffers import ASKED, PAYLOAD, to_payload
from strategies.channel.payload import KEY, get, is_float, put, to_arrays, to_parameters, to_tensors

MEMORY = "fedsim.memory"
BUFFERS = "fedsim.buffers"
ClientCall = Callable[[Message, Context], Message]


def client_mod(
    uplink: Compressor,
    downlink: Compressor,
    template: ArrayRecord,
    seed: int = 0,
    buffers: Collection[str] = (),
) -> Callable[[Message, Context, ClientCall], Message]:
    """A mod that decodes the model before the app and encodes the update after it.

    The app inside receives ``arrays`` (an ArrayRecord) and answers with the trained
    arrays, as in Flower's quickstarts. Residuals and the base model live in
    ``context.state``, which Flower keeps only if the client succeeded. A strategy that is
    told the number of ``clients`` asks who is which: see ``answer_partition``.

    Args:
        uplink: as given to ``Compressed``.
        downlink: likewise.
        template: names and shapes of the model (values unread, but those of ``buffers``, with
            which a client starts where the server sends none).
        seed: for random compressors.
        buffers: which arrays of the template are no parameters (BatchNorm's statistics). They are
            in what the app receives and answers, and in no update. Those that are floats travel
            as the strategy's ``Buffers`` say; the others, and what the server does not send, each
            client keeps.

    Raises ``ValueError`` where ``buffers`` names what the template lacks, and ``UpdateError``
    where an array of the template that is none of them is not of floats.
    """
    return _Mod(uplink, downlink, template, seed, buffers)


class _Mod:
    """See ``client_mod``."""

    def __init__(
        self, uplink: Compressor, downlink: Compressor, template: ArrayRecord, seed: int,
        buffers: Collection[str],
    ) -> None:  # fmt: skip
        unknown = [name for name in buffers if name not in template]
        if unknown:
            raise ValueError(f"buffers names {', '.join(unknown)}: the template has no such array")
        self.uplink, self.downlink, self.seed = uplink, downlink, seed
        self.order = list(template)
        self.initial = {name: array for name, array in template.items() if name in buffers}
        parameters = {n: array for n, array in template.items() if n not in buffers}
        self.like = to_parameters(ArrayRecord(parameters))
        floats = {name: array for name, array in self.initial.items() if is_float(array)}
        self.carried = to_tensors(ArrayRecord(floats))

    def __call__(self, message: Message, context: Context, call: ClientCall) -> Message:
        """One message, through the app inside."""
        if KEY not in message.content.config_records:
            return call(message, context)
        memory = _load(context)
        payload, settings = get(message.content)
        base = self._base(payload, settings, memory)
        arrived = self._arrived(settings)
        held = dict(context.state.array_records.get(BUFFERS) or {})
        known: dict[str, Array] = self.initial | held | dict(to_arrays(base | arrived))
        message.content["arrays"] = ArrayRecord({name: known[name] for name in self.order})
        reply = call(message, context)
        if reply.has_error():
            return reply
        after = self._encode(reply, base, memory, settings, context)
        context.state[MEMORY] = to_arrays(after[0])
        if self.initial:
            context.state[BUFFERS] = ArrayRecord(
                {name: after[1][name] for name in self.initial if name not in arrived}
            )
        return reply

    def _base(self, payload: bytes, settings: ConfigRecord, memory: State) -> State:
        if settings["kind"] == "model":
            return decompress(Raw(), payload, self.like)
        step = decompress(self.downlink, payload, self.like)
        return {n: x + step[n] for n, x in inside("base", memory).items()}

    def _arrived(self, settings: ConfigRecord) -> State:
        """The server's buffers, where they came with the model."""
        payload = settings.get(PAYLOAD)
        if not self.carried and (payload or ASKED in settings):
            raise ValueError("the strategy has buffers: name the model's, client_mod(buffers=)")
        return decompress(Raw(), payload, self.carried) if isinstance(payload, bytes) else {}

    def _encode(
        self, reply: Message, base: State, memory: State, settings: ConfigRecord, context: Context
    ) -> tuple[State, ArrayRecord]:
        """Puts the update in the arrays' place; the memory from now on, and those arrays."""
        (name,) = reply.content.array_records
        trained = reply.content.array_records[name]
        missing = [name for name in self.order if name not in trained]
        if missing:
            raise ValueError(f"the app's reply lacks {', '.join(missing)}")
        after = to_tensors(trained)
        update = {n: after[n] - x for n, x in base.items()}
        held = inside("uplink", memory) or None
        client = context.node_config.get("partition-id", context.node_id)
        number = int(cast(int, settings["round"]))
        seed = derive(self.seed, "uplink", str(client), number)
        packet, residual = compress(self.uplink, update, held, seed)
        if not memory:  # its first message
            check_decoded(self.uplink, packet, base)
        own = {n: after[n] for n in self.carried}
        beside = {PAYLOAD: to_payload(own)} if ASKED in settings else {}
        del reply.content[name]
        put(reply.content, packet.payload, **beside)
        return nest("base", base) | nest("uplink", residual), trained


def _load(context: Context) -> State:
    record = context.state.array_records.get(MEMORY)
    return {} if record is None else to_tensors(record)
