"""Several messages at once, from models to replies: decode each, train all together, encode each.

What the ClientApp does with one message, a worker of the local engine does so with as many as
``--stack`` says. A client that fails, in whichever part, fails alone.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from flwr.app import Context, Message

from fedsim.federation.client import Visit, begin, client_of, finish
from fedsim.federation.client_memory import ClientStates
from fedsim.federation.stackable import fit_of
from fedsim.federation.stacks import stack_of
from fedsim.settings.config import RunConfig
from strategies.channel.client_end import NoBase, ask_for_model

Together = Callable[
    [Sequence[Message], Sequence[Context]], Iterator[tuple[int, Message | Exception]]
]
"""As the local engine calls it: the place of each message, and its reply or its error."""


def at_once(config: RunConfig) -> int:
    """How many clients of ``config`` a worker trains at once; 1: one after the other.

    Example:
        >>> at_once(RunConfig(stack="2")), at_once(RunConfig())
        (2, 1)
    """
    return fit_of(config).width


def make_together(config: RunConfig, states: ClientStates) -> Together:
    """See the module; ``states``: where the clients' memory lives."""

    def together(
        messages: Sequence[Message], contexts: Sequence[Context]
    ) -> Iterator[tuple[int, Message | Exception]]:
        stack = stack_of(config)
        visits: dict[int, Visit] = {}
        for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
            try:
                client, state = client_of(message, context), states.load(context)
                visits[i] = begin(message, client, config, stack.trainer, state)
            except NoBase:
                yield i, Message(ask_for_model(), reply_to=message)
            except Exception as error:
                yield i, error
        start = time.perf_counter()
        results = stack.train([visit.job for visit in visits.values()])
        seconds = (time.perf_counter() - start) / max(1, len(visits))
        for (i, visit), trained in zip(visits.items(), results, strict=True):
            if isinstance(trained, Exception):
                yield i, trained
                continue
            try:
                content, state = finish(visit, config, stack.trainer, trained, seconds)
                reply = Message(content, reply_to=messages[i])
                states.commit(contexts[i], state)  # last: one that failed above keeps what it had
            except Exception as error:
                yield i, error
            else:
                yield i, reply

    return together
