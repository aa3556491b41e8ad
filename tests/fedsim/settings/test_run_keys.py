"""``flwr run``'s keys: every setting of a run has one, and says there what it says as a flag."""

import tomllib
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from fedsim import Machine, RunConfig, UsageError
from fedsim.runs.app import config_of
from fedsim.settings.config import SETTINGS
from fedsim.settings.strategies import FLAGS
from tests.fedsim.settings.test_cellfile import NEEDS, OTHER
from tests.support.markdown import ROOT

KEYS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "flwr"
]["app"]["config"]
ELSEWHERE = {
    "engine", "workers", "gpus-per-client", "gpus-per-run", "checkpoint-every", "keep-checkpoint",
    "download", "track", "stack", "memory", "memory-as", "network", "availability", "dropout",
    "stop-at-joules", "ask", "sampler", "local-seconds",
    "deadline", "staleness", "buffer-size",
}  # fmt: skip
"""What the SuperLink decides, or the app does not do: its links and clients are real."""


def configured(**keys: Any) -> RunConfig:
    given = KEYS | {name.replace("_", "-"): value for name, value in keys.items()}
    return config_of(Context(1, 1, {}, RecordDict(), given))


def test_every_setting_has_a_key() -> None:
    flags = {name.replace("_", "-") for name in [*SETTINGS, *FLAGS]}
    assert set(KEYS) == flags - ELSEWHERE | {"out"}


def test_keys_left_alone_are_the_defaults() -> None:
    assert configured() == RunConfig(machine=Machine(engine="flower"))


VALUES = [
    *((name, value) for name, value in OTHER.items() if name.replace("_", "-") in KEYS),
    ("momentum", 0),
    ("seed", 0),
]


@pytest.mark.parametrize(("name", "value"), [x for x in VALUES if x[0] not in FLAGS])
def test_a_key_is_the_flag(name: str, value: Any) -> None:
    given = {key: x for key, x in NEEDS.get(name, {}).items() if x is not None} | {name: value}
    assert configured(**given).flat()[name] == value


def test_what_goes_with_another_setting() -> None:
    assert configured(catch_up=True, downlink="sbc(0.1)").clients.catch_up
    assert configured(strategy="fedadam", server_lr=0.3).strategy == "fedadam(server_lr=0.3)"
    assert configured(weighting="samples").strategy == "dsgd(weighting=samples)"


def test_a_node_with_data_of_its_own_is_not_scored() -> None:
    node = Context(1, 1, {"data": "here"}, RecordDict(), KEYS | {"evaluate-clients": 0.2})
    with pytest.raises(UsageError, match="--evaluate-clients is 0.2: this node loads data of its"):
        config_of(node)


def test_bad_values_are_told() -> None:
    with pytest.raises(UsageError, match="--buffers is 'none'"):
        configured(buffers="none")
    with pytest.raises(UsageError, match="run_config: test_samples is 'all'"):
        configured(test_samples="all")
