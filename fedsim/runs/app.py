"""The Flower app: what ``flwr run`` starts, and what a real deployment installs.

Settings come from ``[tool.flwr.app.config]`` in ``pyproject.toml`` and from
``flwr run . --run-config 'temporal=100 gradient=0.001'``. Empty text means "the default",
and so does zero where zero is not a value of the setting (0 is a value of momentum). Results go to
the folder ``out``; empty: ``fedsim-results/NAME``.
"""

from strategies import quiet  # noqa: F401, I001 - before flwr is imported

from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsim.federation.client import make_client_app
from fedsim.ground.errors import UsageError
from fedsim.runs.callbacks import Callback, RoundRow
from fedsim.settings.config import RunConfig, flat_settings, run_from_flat, underscored
from fedsim.settings.strategies import check_deployed
from fedsim.federation.client_memory import AtNode
from fedsim.ground.units import bits

_OWN = ("out",)
_DATA = "data"
_ZERO_IS_ONE = ("seed", "momentum")
"""Settings of which 0 is a value."""


def config_of(context: Context) -> RunConfig:
    """The run's config from Flower's ``run_config``: kebab-case keys, "" or 0 for defaults.

    A node whose own config names ``data``, a folder, trains on all that the task loads from there.
    """
    run_config: dict[str, Any] = dict(context.run_config)
    values = underscored({k: v for k, v in run_config.items() if k not in _OWN}, "run_config")
    values = {k: v for k, v in values.items() if v != "" and (v or k in _ZERO_IS_ONE)}
    check_deployed(values.get("strategy"))
    if _DATA in context.node_config:
        if (share := values.get("evaluate_clients")) is not None:
            raise UsageError(
                f"--evaluate-clients is {share}: this node loads data of its own, which the server "
                "cannot score; leave it out"
            )
        values |= {"data": str(context.node_config[_DATA]), "partition": "whole"}
    values |= {"engine": "flower"}
    return run_from_flat(flat_settings(values, "run_config", flags=True))


client_app = make_client_app(config_of, AtNode())
server_app = ServerApp()


@server_app.main()
def run_on_nodes(grid: Grid, context: Context) -> None:
    """One run on the nodes beneath the grid."""
    from fedsim.runs.run import carry_out  # needs pandas, which a client's machine need not have

    config = config_of(context)
    out = str(context.run_config.get("out", ""))
    name = f"{config.plan.task.name}-run-{config.digest}"
    folder = Path(out) if out else Path("fedsim-results") / name
    carry_out(config, folder, AtNode(), lambda body: body(grid), _EvaluationLines(config))


class _EvaluationLines(Callback):
    """One line per evaluation for whoever follows the run (`flwr run --stream`, `flwr log`)."""

    def __init__(self, config: RunConfig) -> None:
        self.plan = config.plan

    def evaluation(self, row: RoundRow) -> None:
        score = f"{self.plan.task.metric_name} {row['metric']:.4g}"
        sent = f"{bits(row['up_bits'])} up"
        print(f"round {row['round']}/{self.plan.rounds} · {score} · {sent}", flush=True)
