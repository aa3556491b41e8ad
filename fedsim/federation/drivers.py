"""Who trains the jobs that clients yield: one client at a time, or several (``--stack``)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from compressors import State
from fedsim.engines.local import AnswerSeveral
from fedsim.federation.client import Serving, serve
from fedsim.federation.client_memory import ClientStates
from fedsim.federation.stackable import fit_of
from fedsim.federation.stackedsteps import Asked
from fedsim.federation.stacks import Result, Stack, stack_of
from fedsim.federation.trainer import Trainer, trainer_of
from fedsim.settings.config import RunConfig
from strategies import Job, Trained
from strategies.channel.client_end import NoBase, ask_for_model
from strategies.channel.nodes import FORGET, PARTITION_ID, answer_partition
from strategies.channel.payload import CLIENT, KEY, settings_in

ConfigOf = Callable[[Context], RunConfig]
Train = Callable[[Stack, Sequence[Asked]], list[Result]]


def make_client_app(config_of: ConfigOf, states: ClientStates) -> ClientApp:
    """A ClientApp for every engine.

    Args:
        config_of: the run's config, from the context where Flower brings it.
        states: where the clients' memory lives.
    """
    app = ClientApp()
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = config_of(context)
        trainer, settings = trainer_of(config), settings_in(message.content)
        memory = states.load(context, settings)
        serving = serve(message, client_of(message, context), config, trainer, memory)
        try:
            content, memory = alone(serving, trainer)
        except NoBase:
            return Message(ask_for_model(), reply_to=message)
        reply = Message(content, reply_to=message)
        states.commit(context, settings, memory)  # last: a client that failed above keeps its own
        return reply

    @app.query(FORGET.split(".")[1])
    def forget(message: Message, context: Context) -> Message:
        states.forget(context, message.content.config_records[KEY])
        return Message(RecordDict(), reply_to=message)

    return app


def alone(serving: Serving, trainer: Trainer) -> tuple[RecordDict, State]:
    """Trains the jobs of one client; returns its reply's content and its memory."""
    try:
        job = next(serving)
        while True:
            start = time.perf_counter()
            trained = trainer.train(*job)
            job = serving.send(replace(trained, seconds=time.perf_counter() - start))
    except StopIteration as served:
        content, memory = served.value
        return content, memory


def client_of(message: Message, context: Context) -> int:
    """The client that a message is for: its node's partition, else as the message says."""
    number = context.node_config.get(PARTITION_ID)
    return int(str(settings_in(message.content)[CLIENT] if number is None else number))


def at_once(config: RunConfig) -> int:
    """How many clients of ``config`` a worker trains at once; 1: one after the other.

    Example:
        >>> at_once(RunConfig.of(stack="2")), at_once(RunConfig())
        (2, 1)
    """
    return min(fit_of(config).width, config.plan.cohort)


def make_answer_several(
    config: RunConfig, states: ClientStates, train: Train = Stack.train_all
) -> AnswerSeveral:
    """Serves several messages at once; a client that fails, in whichever part, fails alone.

    Args:
        config: the run.
        states: where the clients' memory lives.
        train: how clients are trained by the worker's stack.
    """

    def answer_several(
        messages: Sequence[Message], contexts: Sequence[Context]
    ) -> Iterator[tuple[int, Message | Exception]]:
        stack = stack_of(config)
        serving: dict[int, Serving] = {}
        jobs: dict[int, Job] = {}

        def go_on(i: int, trained: Trained | None = None) -> Message | Exception | None:
            """Notes a client's next job; else its reply, or its error."""
            try:
                try:
                    jobs[i] = next(serving[i]) if trained is None else serving[i].send(trained)
                    return None
                except NoBase:
                    return Message(ask_for_model(), reply_to=messages[i])
                except StopIteration as served:
                    content, memory = served.value
                    reply = Message(content, reply_to=messages[i])
                    settings = settings_in(messages[i].content)
                    states.commit(contexts[i], settings, memory)  # last: who failed keeps its own
                    return reply
            except Exception as error:
                return error

        for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
            try:
                client = client_of(message, context)
                memory = states.load(context, settings_in(message.content))
            except Exception as error:
                yield i, error
                continue
            serving[i] = serve(message, client, config, stack.trainer, memory)
            if (done := go_on(i)) is not None:
                yield i, done
        while jobs:
            asked = dict(jobs)
            jobs.clear()
            results = stack.train([*asked.values()], partial(train, stack))
            for i, trained in zip(asked, results, strict=True):
                if isinstance(trained, Exception):
                    yield i, trained
                elif (done := go_on(i, trained)) is not None:
                    yield i, done

    return answer_several
