"""The client half of ``Compressed``: a Flower mod around an ordinary ClientApp."""

from collections.abc import Callable
from typing import cast

from flwr.app import ArrayRecord, Context, Message

from compressors import Compressor, Raw, State, compress, decompress, derive
from compressors.lift import inside, nest
from strategies.payload import KEY, get, put, to_arrays, to_tensors

MEMORY = "fedsim.memory"
ClientCall = Callable[[Message, Context], Message]


def client_mod(
    uplink: Compressor, downlink: Compressor, template: ArrayRecord, seed: int = 0
) -> Callable[[Message, Context, ClientCall], Message]:
    """A mod that decodes the model before the app and encodes the update after it.

    The app inside receives ``arrays`` (an ArrayRecord) and answers with the trained
    arrays, as in Flower's quickstarts. Residuals and the base model live in
    ``context.state``, which Flower keeps only if the client succeeded. A strategy that is
    told the number of ``clients`` asks who is which: see ``answer_partition``.

    Args:
        uplink, downlink: as given to ``Compressed``.
        template: names and shapes of the model (values unread).
        seed: for random compressors.
    """
    like = to_tensors(template)

    def mod(message: Message, context: Context, call: ClientCall) -> Message:
        if KEY not in message.content.config_records:
            return call(message, context)
        memory = _load(context)
        payload, settings = get(message.content)
        if settings["kind"] == "model":
            base = decompress(Raw(), payload, like)
        else:
            step = decompress(downlink, payload, like)
            base = {n: x + step[n] for n, x in inside("base", memory).items()}
        message.content["arrays"] = to_arrays(base)
        reply = call(message, context)
        if reply.has_error():
            return reply
        number = int(cast(int, settings["round"]))
        return _encode(reply, base, memory, context, number)

    def _encode(
        reply: Message, base: State, memory: State, context: Context, number: int
    ) -> Message:
        (name,) = reply.content.array_records
        trained = to_tensors(reply.content.array_records[name])
        update = {n: trained[n] - x for n, x in base.items()}
        held = inside("uplink", memory) or None
        client = context.node_config.get("partition-id", context.node_id)
        packet, after = compress(uplink, update, held, derive(seed, "uplink", str(client), number))
        del reply.content[name]
        put(reply.content, packet.payload)
        context.state[MEMORY] = to_arrays(nest("base", base) | nest("uplink", after))
        return reply

    return mod


def _load(context: Context) -> State:
    record = context.state.array_records.get(MEMORY)
    return {} if record is None else to_tensors(record)
