"""Several clients at once on a GPU: the requests of one kind are answered together."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from flwr.app import Context, Message

from compressors.message import Upload, compress_all
from compressors.usercode import user_code
from fedsim.engines.local import AnswerSeveral
from fedsim.engines.remote import ClientStates
from fedsim.federation.branches import Result, branches_of
from fedsim.federation.client import Masked, Masking, Request, Serving, client_of, mask_all, serve
from fedsim.federation.device import enough
from fedsim.federation.trial import width_of
from fedsim.settings.config import RunConfig
from strategies import TrainJob
from strategies.channel.client_end import Encoded, NoBase, ask_for_model
from strategies.channel.payload import Settings, settings_in

Answer = Result | Encoded | Masked  # what became of a client's request, or why it failed


def go_on(serving: Serving, answers: list[Answer]) -> Request:
    """A client's next request, after its last one was answered or has failed.

    ``answers`` becomes empty: a list that kept an error would live as long as the error, which
    keeps the frames that it came through, and all that lies on the device with them.
    """
    if not answers:
        return next(serving)
    if isinstance(answers[0], Exception):
        return serving.throw(cast(Exception, answers.pop()))
    return serving.send(answers.pop())


def answer_requests(
    requests: Sequence[Request], train: Callable[[Sequence[TrainJob]], list[Result]]
) -> list[Answer]:
    """The outcome of each request, in their order; those of one kind are answered together."""
    ways: dict[type, Callable[[list[Any]], Sequence[Answer]]]
    ways = {TrainJob: train, Upload: _encoded, Masking: _masked}
    answered: dict[int, Answer] = {}
    for kind in {type(request): None for request in requests}:
        places = [i for i, request in enumerate(requests) if type(request) is kind]
        with user_code():
            answered |= zip(places, ways[kind]([requests[i] for i in places]), strict=True)
    return [answered[i] for i in range(len(requests))]


def _encoded(uploads: Sequence[Upload]) -> list[Answer]:
    start = time.perf_counter()
    encoded = compress_all(uploads)
    each = (time.perf_counter() - start) / len(uploads)
    return [one if isinstance(one, Exception) else Encoded(*one, each) for one in encoded]


def _masked(maskings: Sequence[Masking]) -> list[Answer]:
    """All at once; where that fails, each by itself."""
    start = time.perf_counter()
    try:
        moments = mask_all(maskings)
        each = (time.perf_counter() - start) / len(maskings)
        return [Masked(one, each) for one in moments]
    except Exception as error:
        if len(maskings) == 1:
            return [error]
    return [masked for one in maskings for masked in _masked([one])]


def at_once(config: RunConfig) -> int:
    """How many clients of ``config`` a worker trains at once; 1: one after the other."""
    return min(width_of(config), config.plan.cohort)


def make_answer_several(config: RunConfig, states: ClientStates) -> AnswerSeveral:
    """Serves several messages at once; a client that fails, in whichever part, fails alone."""

    def answer_several(
        messages: Sequence[Message], contexts: Sequence[Context]
    ) -> Iterator[tuple[int, Message | Exception]]:
        branches = branches_of(config, at_once(config))
        trainer = branches.trainer
        settings: dict[int, Settings] = {}
        serving: dict[int, Serving] = {}
        requests: dict[int, Request] = {}

        def next_of(i: int, answers: list[Answer]) -> Message | Exception | None:
            """Notes a client's next request; else its reply, or its error."""
            try:
                try:
                    with user_code(), enough(trainer.device):
                        requests[i] = go_on(serving[i], answers)
                    return None
                except NoBase:
                    return Message(ask_for_model(), reply_to=messages[i])
                except StopIteration as end:
                    content, memory = end.value
                    reply = Message(content, reply_to=messages[i])
                    # last: who failed keeps its own
                    states.commit(contexts[i], settings[i], memory)
                    return reply
            except Exception as error:
                return error

        for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
            try:
                settings[i] = settings_in(message.content)
                client = client_of(settings[i], context)
                memory = states.load(context, settings[i])
            except Exception as error:
                yield i, error
                continue
            serving[i] = serve(message.content, settings[i], client, trainer, memory)
            if (done := next_of(i, [])) is not None:
                yield i, done
        while requests:
            open_requests = dict(requests)
            requests.clear()
            answers = answer_requests([*open_requests.values()], branches.train)
            for i, one in zip(open_requests, answers, strict=True):
                if (done := next_of(i, [one])) is not None:
                    yield i, done

    return answer_several
