"""Runs in this process whose clients keep their memory in folders, as SuperNodes do."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsim import RunConfig
from fedsim.engines.local import LocalGrid
from fedsim.federation.client import make_client_app
from fedsim.federation.client_memory import AtNode
from fedsim.runs.callbacks import Callback
from fedsim.runs.run import carry_out


class Nodes(ClientApp):
    """Clients that keep their memory in a folder each."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__()
        self.app, self.folder = make_client_app(lambda _: config, AtNode()), folder

    def __call__(self, message: Message, context: Context) -> Message:
        name = str(context.node_config["partition-id"])
        context.node_config = {**context.node_config, "state-dir": str(self.folder / name)}
        return self.app(message, context)


def at_nodes(
    config: RunConfig,
    out: Path,
    nodes: Nodes | None = None,
    grid: Callable[[ClientApp, int], LocalGrid] = LocalGrid,
) -> None:
    """The run; clients' folders are in ``out/nodes``, unless ``nodes`` has them elsewhere."""

    def engine(main: Any) -> None:
        with closing(grid(nodes or Nodes(config, out / "nodes"), config.plan.clients)) as made:
            main(made)

    carry_out(config, out, AtNode(), engine, Callback())
