"""Bytes in Flower messages, who is which client, and nobody told about it."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from flwr.app import Message, RecordDict

from compressors import Raw
from strategies.channel import nodes
from strategies.channel.nodes import CohortGrid
from strategies.channel.payload import to_arrays, to_tensors
from tests.support.linear import Pull, grid_of, modded_app

QUIET = ("FLWR_TELEMETRY_ENABLED", "FLWR_DISABLE_UPDATE_CHECK", "RAY_USAGE_STATS_ENABLED")


def test_arrays_to_tensors_and_back() -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "b": torch.randn(3, 4, generator=generator),
        "a": torch.randn(2, 3, 4, 4, generator=generator).to(memory_format=torch.channels_last),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
    }
    back = to_tensors(to_arrays(tensors))
    assert list(back) == list(tensors)
    for name, x in tensors.items():
        assert back[name].shape == x.shape and torch.equal(back[name], x)
    back["b"].zero_()
    assert tensors["b"].abs().sum() > 0  # copied


def gathered(grid: Any, clients: int, timeout: float = 5.0) -> dict[int, int]:
    roster = nodes.Roster(clients, timeout)
    roster.gather(grid, clients)
    return dict(sorted(roster.nodes.items()))


def test_nodes_are_found_by_partition() -> None:
    grid = grid_of(modded_app(Pull([(0.0, 0.0)] * 4), Raw()), 4)
    assert gathered(grid, 4) == {0: 1, 1: 2, 2: 3, 3: 4}
    some = CohortGrid(grid, [2, 4])
    assert list(some.get_node_ids()) == [2, 4]
    asks = [Message(RecordDict(), dst_node_id=4, message_type=nodes.QUERY)]
    assert len(list(some.send_and_receive(asks, timeout=5.0))) == 1
    assert some.run.run_id == grid.run.run_id


def environment(code: str, **given: str) -> dict[str, str]:
    imported = "GRPC_VERBOSITY"  # which Flower has set in this process
    variables = {k: v for k, v in os.environ.items() if k not in (*QUIET, imported)} | given
    code += f"; import json, os; print(json.dumps({{k: os.environ.get(k) for k in {QUIET}}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_importing_flower_turns_telemetry_off_and_changes_no_level() -> None:
    watch = f"""
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("flwr", "ray"):
            assert [os.environ.get(k) for k in {QUIET}] == ["0", "1", "0"], name
            print("saw", name)
sys.meta_path.insert(0, Watch())
import fedsim
assert "flwr" not in sys.modules
before = dict(os.environ)
fedsim.run, fedsim.sweep
assert "flwr" in sys.modules and dict(os.environ) == before
import logging
assert logging.getLogger("flwr").level == 0"""
    assert list(environment(watch).values()) == ["0", "1", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "sends", "line"),
    [
        ({}, "1", "on: Flower's (flwr was imported before"),
        ({"FLWR_TELEMETRY_ENABLED": "0"}, "0", "off: "),
    ],
)
def test_where_flower_is_imported_first_the_environment_decides(
    given: dict[str, str], sends: str, line: str
) -> None:
    environment(
        "import flwr; from flwr.supercore import telemetry; import fedsim\n"
        "from fedsim.runs.machine import LOOKS\n"
        f"assert telemetry.FLWR_TELEMETRY_ENABLED == {sends!r}\n"
        "status = LOOKS['telemetry']('telemetry').status\n"
        f"assert status.startswith({line!r}), status",
        RAY_USAGE_STATS_ENABLED="0",
        **given,
    )


def test_what_the_user_set_is_left_alone() -> None:
    given = {"FLWR_TELEMETRY_ENABLED": "1", "RAY_USAGE_STATS_ENABLED": "1"}
    assert list(environment("import strategies.quiet", **given).values()) == ["1", "1", "1"]


def test_nodes_that_are_no_clients_are_passed_over() -> None:
    grid = grid_of(modded_app(Pull([(0.0, 0.0)] * 4), Raw()), 4)
    assert gathered(grid, 2) == {0: 1, 1: 2}
    only = CohortGrid(grid, [3, 4])  # partitions 2 and 3
    with pytest.raises(TimeoutError, match=r"0 of 2 clients answered .* partition 0, 1"):
        gathered(only, 2, 0.2)
