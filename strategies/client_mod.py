"""The client half of ``Compressed``: a Flower mod around an ordinary ClientApp."""

import copy
import logging
from collections.abc import Callable, Collection

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from compressors import Compressor, State
from compressors.whole.memory import nest, unnest
from strategies.channel.acknowledge import of_channel
from strategies.channel.app_checks import check_method, check_record
from strategies.channel.buffers import answered
from strategies.channel.client_end import ClientEnd, NoBase, ask_for_model, one_by_one
from strategies.channel.memory import commit, load
from strategies.channel.nodes import PARTITION_ID
from strategies.channel.payload import (
    ARRAYS,
    EVALUATED,
    KEY,
    NAMED,
    OURS,
    SCORES,
    as_dtype,
    check_names,
    is_float,
    to_arrays,
    to_parameters,
    to_state,
    to_tensors,
)

MEMORY = "fedsim.memory"
OWN_BUFFERS = "buffers"
ClientCall = Callable[[Message, Context], Message]


def client_mod(
    uplink: Compressor,
    downlink: Compressor,
    template: ArrayRecord,
    seed: int = 0,
    buffers: Collection[str] = (),
    frozen: Collection[str] = (),
) -> Callable[[Message, Context, ClientCall], Message]:
    """A mod that decodes the model before the app and encodes the update after it.

    The app inside receives ``arrays`` (an ArrayRecord of the template's dtypes; under the
    strategy's ``arrayrecord_key`` where that is another) and answers with the trained arrays, as in
    Flower's quickstarts. Updates travel as float32. Mods that clip or add noise come after this
    one: ``mods=[client_mod(...), LocalDpMod(...)]``. Residuals and the base model live in
    ``context.state``, which Flower keeps only if the client succeeded; the state of an earlier
    ``start`` is not used. A strategy with a number of ``clients`` asks which client each node is:
    see ``answer_partition``.

    Args:
        uplink: as given to ``Compressed``.
        downlink: as given to ``Compressed``.
        template: names and shapes of the model (values are unread, except those of ``buffers``,
            with which a client starts where the server sends none).
        seed: for random compressors.
        buffers: which arrays of the template are not parameters (BatchNorm's statistics). The app
            receives and returns them, and no update has them. Those of floats are the strategy's
            ``Buffers``, which decides when they travel. Each client keeps the others, and those
            that the server does not send. Where clients keep some, use the mod for
            ``@app.evaluate``, too, which then sees the client's own. Do the same where the
            strategy has ``compress_evaluation``.
        frozen: which arrays of the template no client trains, as given to the strategy. The app
            receives them as in the template, and they never travel. An app that returns another
            value of one has failed.

    Raises ``ValueError`` where ``uplink`` or ``downlink`` is not a method, ``template`` is not an
    ArrayRecord, or ``buffers`` or ``frozen`` has a name that the template lacks; ``UpdateError``
    where another array of the template is not of floats.
    """
    return _Mod(uplink, downlink, template, seed, buffers, frozen)


class _Mod:
    """See ``client_mod``."""

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor,
        template: ArrayRecord,
        seed: int,
        buffers: Collection[str],
        frozen: Collection[str],
    ) -> None:
        check_method("uplink", uplink)
        check_method("downlink", downlink)
        check_record("template", template)
        check_names("buffers", buffers, template)
        check_names("frozen", frozen, template)
        self.frozen = {name: array for name, array in template.items() if name in frozen}
        self.dtypes = {name: array.dtype for name, array in template.items()}
        self.shapes = {name: tuple(array.shape) for name, array in template.items()}
        self.has_warned = False
        self.initial = {name: array for name, array in template.items() if name in buffers}
        others = {*buffers, *frozen}
        parameters = {n: array for n, array in template.items() if n not in others}
        floats = {name: array for name, array in self.initial.items() if is_float(array)}
        trained, carried = to_parameters(ArrayRecord(parameters)), to_tensors(ArrayRecord(floats))
        self.end = ClientEnd(uplink, downlink, trained, carried, seed)

    def __call__(self, message: Message, context: Context, call: ClientCall) -> Message:
        """One message, from model to reply, through the app inside."""
        if KEY not in message.content.config_records:
            if message.metadata.message_type.startswith("train") and not self.has_warned:
                self.has_warned = True
                logging.getLogger("flwr").warning(
                    "nothing is compressed: the model came as arrays. Wrap the server's strategy, "
                    "Compressed(FedAvg(), uplink, downlink)"
                )
            return call(self._with_own(message, context), context)
        settings = message.content.config_records[KEY]
        memory = load(context, MEMORY, settings) or None
        try:
            delivery = self.end.decode(message.content, memory)
        except NoBase:
            return Message(ask_for_model(), reply_to=message)
        own_buffers = dict(to_arrays(unnest(OWN_BUFFERS, {} if delivery.first else memory or {})))
        tensors = delivery.weights | delivery.buffers
        arrived = {n: as_dtype(x, self.dtypes[n]) for n, x in tensors.items()}
        values: dict[str, Array] = self.initial | self.frozen | arrived | own_buffers
        arrays = ArrayRecord({name: values[name] for name in self.dtypes})
        # As the strategy inside ``Compressed`` made it, and nothing of ours: mods that clip count
        # records. The message that arrived stays as it was.
        plain, name = copy.copy(message), str(delivery.settings.get(NAMED, ARRAYS))
        others = {k: v for k, v in message.content.items() if k not in OURS}
        plain.content = RecordDict({name: arrays, **others})
        reply = call(plain, context)
        if reply is None:
            raise ValueError("the app answered nothing: return Message(content, reply_to=message)")
        if reply.has_error() or SCORES in delivery.settings:
            return reply
        trained = self._trained(reply)
        after = to_tensors(trained)
        update = {name: after[name] - x for name, x in delivery.weights.items()}
        for name in (name for name in update if self.dtypes[name] != "float32"):
            step = trained[name].numpy().astype(float) - arrays[name].numpy()  # of what the app saw
            update[name] = torch.from_numpy(np.asarray(step)).float()
        client = context.node_config.get(PARTITION_ID, context.node_id)
        packet, memory = one_by_one(self.end.encode(str(client), update, delivery))
        side_payloads = answered(delivery.settings, after, self.end.buffers)
        self.end.reply(reply.content, packet, delivery, side_payloads)
        own_buffers = {n: trained[n] for n in self.initial if n not in delivery.buffers}
        memory |= nest(OWN_BUFFERS, to_state(ArrayRecord(own_buffers)))
        commit(context, MEMORY, settings, memory)  # last: a client that failed keeps what it had
        return reply

    def _with_own(self, message: Message, context: Context) -> Message:
        """A message for evaluation, with the buffers that this client keeps; others as they are.

        Buffers of an earlier ``start`` are not used.
        """
        if not message.metadata.message_type.startswith("evaluate"):
            return message
        content, memory = dict(message.content), State()
        if EVALUATED in content:
            settings = message.content.config_records[EVALUATED]
            memory = of_channel(load(context, MEMORY, settings) if self.initial else {}, settings)
            del content[EVALUATED]
        own_buffers, records = to_arrays(unnest(OWN_BUFFERS, memory)), message.content.array_records
        if own_buffers and len(records) == 1:
            ((name, record),) = records.items()
            content[name] = ArrayRecord(
                {**record, **{n: x for n, x in own_buffers.items() if n in record}}
            )
        copied = copy.copy(message)
        copied.content = RecordDict(content)
        return copied

    def _trained(self, reply: Message) -> ArrayRecord:
        """What the app answered, taken out of its reply."""
        names = list(reply.content.array_records)
        if len(names) != 1:
            raise ValueError(
                f"the app's reply has {len(names)} ArrayRecords ({', '.join(names)}): it has one, "
                "the trained model"
            )
        (name,) = names
        trained = reply.content.array_records[name]
        if missing := [name for name in self.dtypes if name not in trained]:
            raise ValueError(
                f"the app's reply lacks {', '.join(missing)}: it has the arrays of the template, "
                "by their names, as ArrayRecord(model.state_dict()) has"
            )
        for array, shape in self.shapes.items():
            if (shape_of_reply := tuple(trained[array].shape)) != shape:
                raise ValueError(
                    f"the app's reply has {array} of {shape_of_reply}: the template has {shape}"
                )
        for frozen, initial in self.frozen.items():
            if not np.array_equal(trained[frozen].numpy(), initial.numpy()):
                raise ValueError(f"the app trained {frozen}, which is frozen: it goes nowhere")
        del reply.content[name]
        return trained
