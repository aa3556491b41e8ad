"""The table of strategies: what each takes is all that it takes, and no other file knows them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsim import SweepConfig, UsageError
from fedsim.federation.server import make_strategy
from fedsim.settings.strategies import (
    STRATEGIES,
    adds_codes,
    algorithm_of,
    least_steps,
    of_reference,
    strategy_text,
    takes,
    with_settings,
)
from strategies import ChannelStrategy
from strategies.algorithms import AVERAGES, CODED, OWN_DOWNLINK
from tests.support.markdown import ROOT
from tests.support.runs import small

TIMED = {"network": "4g, compute=20ms"}
NEEDS: dict[str, dict[str, Any]] = {
    "majority": {"method": "sign(0.001)"},
    "innetwork": {"method": "cnat(5, 0)"},
    "gradients": {"temporal": 1},
    "fedbuff": TIMED,
    "fedasync": TIMED,
    "sharded": TIMED | {"temporal": 1},
    "ef21": {"method": "ef21(topk(0.1) | float32)"},
    "diana": {"method": "diana(qsgd(7))"},
    "marina": {"method": "marina(qsgd(7), 0.2)", "temporal": 1},
    "permk": {"method": "permk(4)"},
    "fetchsgd": {"method": "fetchsgd(0.1, 5, 60)", "momentum": 0.0},
    "secagg": {"method": "secagg(16, 0.5, 18)"},
    "scaffold": {"momentum": 0.0},
    "fedrep": {"temporal": 10},
    "trimmed_mean": {"clients": 10},
    "krum": {"clients": 5},
}
OPTIONAL = {"weighting": "samples", "server_lr": 0.25}
WITH = {("secagg", "weighting"): {"method": "secagg(16, 0.5, 32, weight=10)"}}
"""What else a strategy needs with an optional setting."""


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_built_with_what_it_takes_and_nothing_else(name: str) -> None:
    needed = {"strategy": name, **NEEDS.get(name, {})}
    plain = small(**needed)
    assert isinstance(make_strategy(plain), ChannelStrategy)
    for setting, value in OPTIONAL.items():
        if setting in takes(name):
            typed = needed | WITH.get((name, setting), {}) | {setting: value}
            strategy: Any = make_strategy(small(**typed))
            built = vars(getattr(strategy, "rule", getattr(strategy, "strategy", None)))
            assert value in [built.get(key) for key in (setting, "eta", "server_learning_rate")]
        elif plain.plan.algorithm.by_samples and value == "samples":
            assert small(**needed, **{setting: value}).flat() == plain.flat()
        else:
            with pytest.raises(UsageError, match=f"--{setting.replace('_', '-')} is "):
                small(**needed, **{setting: value})


@pytest.mark.parametrize("name", [name for name in STRATEGIES if adds_codes(name)])
def test_a_strategy_of_codes_refuses_raw_and_its_reference_does_not(name: str) -> None:
    with pytest.raises(UsageError, match="--method is 'raw'"):
        small(strategy=name, method="raw")
    assert small(strategy=of_reference(name), method="raw").strategy == "dsgd"


@pytest.mark.parametrize("name", [name for name in STRATEGIES if least_steps(name) > 1])
def test_a_sweep_of_a_strategy_that_needs_more_steps_has_a_reference(name: str) -> None:
    sweep = SweepConfig.of(strategy=name, temporal=[10], method="sbc", gradient=[0.1])
    reference, cell = (one.config for one in sweep.cells())
    assert (reference.strategy, reference.temporal) == ("dsgd", 1) and cell.strategy == name


def test_what_is_known_without_torch_is_what_the_classes_say() -> None:
    values = {name: algorithm_of(name) for name in STRATEGIES}
    assert [name for name, rule in values.items() if rule.adds_codes] == [*CODED]
    assert [name for name, rule in values.items() if rule.averages] == [*AVERAGES]
    own = [name for name, rule in values.items() if "default_downlink" in vars(type(rule))]
    assert own == [*OWN_DOWNLINK]


OWN = """
from dataclasses import dataclass
from strategies import Nesterov

@dataclass(frozen=True)
class Own(Nesterov):
    pass
"""


def test_settings_of_an_own_strategy_stand_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    place = f"{tmp_path / 'own.py'}:Own"
    changed = with_settings(place, {"server_lr": 0.5})
    assert strategy_text(changed) == f"{place}(server_lr=0.5)"
    both = with_settings(changed, {"weighting": "samples"})
    assert strategy_text(both) == f"{place}(server_lr=0.5, weighting=samples)"
    assert algorithm_of(strategy_text(both)).server_lr == 0.5  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"'.*own.py:Own\(nope=1\)': unknown setting"):
        algorithm_of(f"{place}(nope=1)")


def compared(path: Path) -> Iterator[str]:
    """Texts that a file compares something with."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            parts = [part for side in [node.left, *node.comparators] for part in ast.walk(side)]
            yield from (str(p.value) for p in parts if isinstance(p, ast.Constant))


def test_no_file_compares_a_strategy_with_its_name() -> None:
    files = [path for room in ("fedsim", "strategies") for path in (ROOT / room).rglob("*.py")]
    assert [(f.name, text) for f in files for text in compared(f) if text in STRATEGIES] == []
