"""What ``start`` is given as ``train_config`` comes to the app, and to nothing else."""

from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from compressors import gradient_dropping
from strategies import ChannelStrategy, Compressed, DelayedDSGD, answer_partition, client_mod
from strategies.channel.payload import KEY
from tests.support.linear import Pull, grid_of, record

HALF = gradient_dropping(0.5)
TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
OURS = {"payload": 1.5, "kind": "updates", "buffers": 3, "round": 7, "version": 2, "base": 9,
        "channel": 1, "client": 5, "applied": "no", "order": "x", "wanted": "loss", "bytes": 4,
        "buffers-asked": True, "arrays-key": "elsewhere", "iterations": 3, "lr": 0.25}  # fmt: skip


class Halved(FedAvg):
    """Halves the rate as Flower's advanced example does: in the record that it is given."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """See ``FedAvg.configure_train``."""
        config["lr"] = float(config["lr"]) / 2
        return super().configure_train(server_round, arrays, config, grid)


def told(strategy: ChannelStrategy, *mods: Any) -> list[dict[str, Any]]:
    """The settings that the app of one client saw in each of three rounds."""
    pull, seen = Pull([(8.0, 4.0)]), list[dict[str, Any]]()
    app = ClientApp(mods=[*mods, client_mod(HALF, strategy.downlink, record([0.0, 0.0]))])
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        assert KEY not in message.content
        records = message.content.config_records.values()
        seen.append({key: value for record in records for key, value in record.items()})
        return pull.train(message, context)

    grid = grid_of(app, 1)
    strategy.start(grid, record([0.0, 0.0]), 3, train_config=ConfigRecord(dict(OURS)))
    return seen


@pytest.mark.parametrize("down", ["raw", "half"])
@pytest.mark.parametrize(
    "make",
    [
        lambda down: DelayedDSGD(HALF, down, clients=1),
        lambda down: Compressed(FedAvg(**TRAIN_ONLY), HALF, down, clients=1),
    ],
    ids=["dsgd", "compressed"],
)
def test_every_setting_comes_whatever_it_is_called(make: Any, down: str) -> None:
    found = told(make(None if down == "raw" else HALF))
    assert found == [{**OURS, "server-round": number} for number in (1, 2, 3)]


def test_what_the_strategy_inside_changes_stays_changed() -> None:
    found = told(Compressed(Halved(**TRAIN_ONLY), HALF, clients=1))
    assert [one["lr"] for one in found] == [0.125, 0.0625, 0.03125]


class Naming(FedAvg):
    """Adds a record of its own to each message."""

    def configure_train(self, server_round: int, *given: Any) -> Any:
        """See ``FedAvg.configure_train``."""
        messages = [*super().configure_train(server_round, *given)]
        for message in messages:
            message.content["name"] = ConfigRecord({"name": f"round {server_round}"})
        return messages


def test_a_client_that_lost_its_model_is_told_what_the_first_message_said() -> None:
    def forgets(message: Message, context: Context, app: Any) -> Message:
        context.state = RecordDict()
        return app(message, context)

    strategy = Compressed(Naming(**TRAIN_ONLY), HALF, HALF, clients=1)
    found = told(strategy, forgets)
    assert [one["name"] for one in found] == ["round 1", "round 2", "round 3"]
