"""What the owner of an app gets wrong, run: each error says what to write.

In process; the reasons that Flower makes of a client's error elsewhere are in a slow test.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from compressors import Raw, parse, sbc
from fedsim.engines.local import LocalGrid
from strategies import Buffers, Compressed, DelayedDSGD, client_mod
from tests.support.linear import Pull, record

UP = sbc(0.5)
MODEL = record([0.0, 0.0])
Train = Callable[[Message, Context], Message]


def around(inner: Any = None, uplink: Any = UP, *given: Any, **named: Any) -> Compressed:
    return Compressed(
        FedAvg(fraction_evaluate=0.0) if inner is None else inner, uplink, *given, **named
    )


def mod(uplink: Any = UP, downlink: Any = Raw(), template: Any = MODEL, **named: Any) -> Any:  # noqa: B008
    return client_mod(uplink, downlink, template, **named)


def train(message: Message, context: Context) -> Message:
    """As Flower's quickstarts: the model is looked for by its name."""
    assert message.content["arrays"] is not None
    return Pull([(8.0, 4.0), (2.0, 2.0)]).train(message, context)


def answering(name: str, value: Any) -> Train:
    """An app that answers something else under a name; None: without it."""

    def odd(message: Message, context: Context) -> Message:
        reply = train(message, context)
        del reply.content[name]
        if value is not None:
            reply.content[name] = value
        return reply

    return odd


def app_of(mods: Sequence[Any], call: Train = train) -> ClientApp:
    app = ClientApp()
    app.train(mods=[*mods])(call)
    return app


def numpy_app() -> ClientApp:
    class Old(NumPyClient):
        pass

    def client_fn(context: Context) -> Any:
        return Old().to_client()

    return ClientApp(client_fn)


def start(strategy: Any = None, app: ClientApp | None = None, arrays: Any = MODEL) -> Any:
    """One round of a strategy, ``around()``, and an app, with ``mod()``, of which one is wrong."""
    grid = LocalGrid(app_of([mod()]) if app is None else app, 2)
    return (around() if strategy is None else strategy).start(grid, arrays, num_rounds=1)


def answers(name: str, value: Any) -> Any:
    """One round with an app that answers something else under a name."""
    return start(app=app_of([mod()], answering(name, value)))


class Giving(FedAvg):
    """FedAvg whose model has other arrays; None: lacks one."""

    def __init__(self, arrays: dict[str, list[float] | None]) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.arrays = arrays

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        made, metrics = super().aggregate_train(server_round, replies)
        assert made is not None
        given = {n: None if x is None else Array(np.array(x)) for n, x in self.arrays.items()}
        whole = {**made, **given}
        return ArrayRecord({n: x for n, x in whole.items() if x is not None}), metrics


class Twice(FedAvg):
    """FedAvg that sends the first node its message for training, or evaluation, twice."""

    def configure_train(self, *given: Any) -> Any:
        messages = [*super().configure_train(*given)]
        return [*messages, *messages[: self.fraction_evaluate == 0]]

    def configure_evaluate(self, *given: Any) -> Any:
        messages = [*super().configure_evaluate(*given)]
        return [*messages, *messages[:1]]


TWO = ArrayRecord({"w": MODEL["w"], "base": MODEL["w"]})
UNNAMED = ArrayRecord([np.zeros(2, np.float32)])
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "no client_mod": (lambda: start(app=app_of([])), r"KeyError: 'arrays' .*mods=\[client_mod\("),
    "no client_mod, unpacked": (
        lambda: start(app=app_of([], Pull([(8.0, 4.0), (2.0, 2.0)]).train)),
        r"StopIteration .*mods=\[client_mod\(",
    ),
    "client_mod as it is": (lambda: start(app=app_of([client_mod])), r"give mods=\[client_mod\("),
    "a text": (lambda: around(uplink="sbc(0.05)"), r"uplink is .*give parse\('sbc\(0.05\)'\)"),
    "a text for the downlink": (lambda: around(None, UP, "raw"), r"downlink is .*parse\('raw'\)"),
    "a text at the client": (lambda: mod("sbc(0.05)"), r"uplink is the text .*give parse\("),
    "a number": (lambda: around(uplink=0.05), "uplink is 0.05: give a method"),
    "a method that is not called": (lambda: around(uplink=sbc), "uplink is sbc, .*give a method"),
    "a method's class": (lambda: around(uplink=Raw), "uplink is Raw, which is not called"),
    "the other way round": (lambda: Compressed(UP, FedAvg()), "uplink is a FedAvg: give a method"),
    "a class": (lambda: around(FedAvg), r"FedAvg is a class: give Compressed\(FedAvg\(\)"),
    "a legacy strategy": (lambda: around(LegacyFedAvg()), "flwr.server.strategy.fedavg.FedAvg is"),
    "twice": (lambda: around(around()), "Compressed inside Compressed"),
    "methods that differ": (
        lambda: start(around(None, sbc(0.25))),
        r"one_sided\(0.25.*client_mod has .*one_sided\(0.5",
    ),
    "another model": (
        lambda: start(app=app_of([mod(template=record([0.0, 0.0, 0.0]))])),
        r"model of 2 entries \(w 2; .*client_mod has .*model of 3 entries \(w 3; .*template=",
    ),
    "other names": (
        lambda: start(app=app_of([mod(template=UNNAMED)])),
        r"model of 2 entries \(w 2; .*client_mod has .*model of 2 entries \(0 2; ",
    ),
    "frozen at one end": (
        lambda: start(around(frozen=["base"]), app_of([mod(template=TWO)]), TWO),
        "model of 2 entries .*client_mod has .*model of 4 entries",
    ),
    "a state_dict for the template": (
        lambda: mod(template=nn.Linear(1, 2).state_dict()),
        "template is a OrderedDict: give an ArrayRecord",
    ),
    "ndarrays for the template": (lambda: mod(template=[np.zeros(2)]), "template is a list: give"),
    "a model for the template": (
        lambda: mod(template=nn.Linear(1, 2)),
        "template is a Linear: giv",
    ),
    "a state_dict to start with": (
        lambda: start(arrays={"w": torch.zeros(2)}),
        "initial_arrays is a dict: give an ArrayRecord",
    ),
    "a NumPyClient": (lambda: start(app=numpy_app()), "NumPyClient, .*write a function with @app"),
    "names for buffers": (lambda: around(buffers=["mean"]), r"buffers is \['mean'\]: give Buffers"),
    "a cohort smaller than what the strategy waits for": (
        lambda: around(clients=4, cohort=1),
        r"clients or cohort is 1: give FedAvg\(min_available_nodes=1",
    ),
    "no answer_partition": (lambda: start(around(clients=2)), "app lacks answer_partition"),
    "no reply": (
        lambda: start(app=app_of([mod()], lambda message, context: None)),
        r"answered nothing: return Message\(content, reply_to=message\)",
    ),
    "no arrays": (lambda: answers("arrays", None), "0 ArrayRecords .*it has one"),
    "unnamed arrays": (
        lambda: answers("arrays", UNNAMED),
        r"lacks w: .*ArrayRecord\(model.state_d",
    ),
    "another shape": (lambda: answers("arrays", record([1.0])), r"w of \(1,\): .*has \(2,\)"),
    "no metrics": (lambda: answers("metrics", None), "no num-examples: answer MetricRecord"),
    "no num-examples": (
        lambda: answers("metrics", MetricRecord({"a": 1.0})),
        "no num-examples: answer MetricRecord",
    ),
    "a model without a layer": (
        lambda: start(around(Giving({"w": None}))),
        r"makes a model without w: give back every array.*\(frozen=\)",
    ),
    "a model with another layer": (lambda: start(around(Giving({"head": [1.0]}))), "with head"),
    "a model of another shape": (
        lambda: start(around(Giving({"w": [1.0]}))),
        r"w is of \(1,\), and clients' is of \(2,\)",
    ),
    "two messages": (
        lambda: start(around(Twice(fraction_evaluate=0.0))),
        r"sends node \d+ two messages in a round: Compressed takes one",
    ),
    "two messages to a node that evaluates": (
        lambda: start(around(Twice())),
        r"sends node \d+ two messages in a round: Compressed takes one",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_it_says_what_to_write(name: str) -> None:
    make, told = MISTAKES[name]
    with pytest.raises((ValueError, RuntimeError), match=told):
        make()


def test_the_other_half_forgotten_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, as without fedsim: the log says so once."""
    told: list[str] = []
    monkeypatch.setattr(
        logging.getLogger("flwr"), "warning", lambda text, *given: told.append(text)
    )
    start(FedAvg(fraction_evaluate=0.0), app_of([mod()]))
    said = [line for line in told if "compressed" in line]
    assert said == [
        "nothing is compressed: the model came as arrays. Wrap the server's strategy, "
        "Compressed(FedAvg(), uplink, downlink)"
    ]


def test_what_is_right_is_refused_nowhere() -> None:
    buffers = Buffers({"mean": torch.zeros(2)})
    assert around(buffers=buffers, clients=2).buffers == replace(buffers, weighting="num-examples")
    assert start(around(FedAvg(fraction_evaluate=0.0), parse("sbc(0.5)"), Raw()), app_of([mod()]))
    assert DelayedDSGD(UP, clients=1).downlink == Raw()


class Numbered(ClientApp):
    """Of several apps, the one whose number the message has in its settings."""

    def __init__(self, apps: Sequence[ClientApp]) -> None:
        super().__init__()
        self.apps = apps

    def __call__(self, message: Message, context: Context) -> Message:
        (number,) = (
            record["number"]
            for record in message.content.config_records.values()
            if "number" in record
        )
        return self.apps[int(str(number))](message, context)


@pytest.mark.slow
@pytest.mark.processes
def test_in_flowers_simulation(cluster: str) -> None:
    from flwr.simulation import run_simulation

    apps = {
        "client_mod makes arrays": app_of([]),
        "client_mod is among the mods": app_of([client_mod]),
        "the client is a NumPyClient": numpy_app(),
    }
    backend = {"init_args": {"address": cluster}, "client_resources": {"num_cpus": 1}}
    said: list[str] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        for number in range(len(apps)):
            settings = ConfigRecord({"number": number})
            with pytest.raises(RuntimeError) as error:
                around().start(grid, MODEL, num_rounds=1, train_config=settings)
            said.append(str(error.value))

    run_simulation(server, Numbered([*apps.values()]), 2, backend_config=backend)
    assert [told in line for told, line in zip(apps, said, strict=True)] == [True] * 3
