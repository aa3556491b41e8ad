"""What a controller goes with, controllers of a user's own, and orders as bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.settings.controllers import CONTROLLERS, Action, ListedController
from tests.support.runs import clients, rounds, small


def test_a_name_is_told_only_where_there_is_a_controller() -> None:
    plain, moved = RunConfig(), RunConfig(controller="noise")
    assert "controller" not in plain.identity() and moved.identity()["controller"] == "noise"
    assert plain.digest != moved.digest


@dataclass(frozen=True)
class Uneven:
    """Client c does c + 1 iterations with p (c + 1) / 10; what it is told is written down."""

    needs: ClassVar[tuple[str, ...]] = ("train_loss", "update_norm", "residual_norm")
    moves: ClassVar[tuple[str, ...]] = ("n", "p")
    seen: ClassVar[list[Any]] = []
    wrong: int = 0

    def choose(self, observation: Any, memory: Any) -> Any:
        """See ``Controller.choose``."""
        self.seen.append(observation)
        chosen = {c: Action(c + 1 - self.wrong, (c + 1) / 10) for c in observation.clients}
        return chosen, {"rounds": memory.get("rounds", 0) + 1}


@pytest.fixture
def uneven(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Uneven]]:
    row = ListedController(Uneven, "uneven", "this test", "uneven")
    monkeypatch.setitem(CONTROLLERS, "uneven", row)
    Uneven.seen.clear()
    yield Uneven


def test_n_and_p_per_client(uneven: type[Uneven], tmp_path: Path) -> None:
    """Rounds of 4 iterations, that of the longest; ten in all end with 2 of a third round."""
    config = small(method="sbc", gradient=0.05, iterations=10, controller=uneven())
    assert config.controller == "uneven"
    summary = run(config, tmp_path / "run").summary
    table, rows = rounds(tmp_path / "run"), clients(tmp_path / "run")
    assert table["iteration"].tolist() == [4, 8, 10]
    assert table["local_iterations"].tolist() == [4, 4, 2]
    assert rows["local_iterations"].tolist() == [1, 2, 3, 4] * 2 + [1, 2, 2, 2]
    assert rows["sent_fraction"].tolist() == [0.1, 0.2, 0.3, 0.4] * 3
    assert (rows["up_report_bits"] == 96).all() and (table["up_report_bits"] == 4 * 96).all()
    assert table["sent_fraction"].tolist() == pytest.approx([0.25] * 3)
    assert summary["total_sparsity"] == pytest.approx(0.075) and summary["iterations"] == 10
    entries = summary["parameters"]
    assert rows["up_sent"].div(entries).round(2).tolist() == [0.1, 0.2, 0.3, 0.4] * 3
    first, last = uneven.seen[0], uneven.seen[-1]
    assert first.clients[0].update_norm is None and first.train_loss is None
    known = last.clients[3]
    assert (known.n, known.p, last.iteration) == (4, 0.4, 8) and known.residual_norm > 0
    assert last.train_loss == pytest.approx(table["train_loss"][1], rel=1e-6)
    assert last.up_bits == pytest.approx(table["up_wire_bits"][:2].sum() / 4)


def test_a_choice_that_is_none_ends_the_run(uneven: type[Uneven], tmp_path: Path) -> None:
    config = small(method="sbc", gradient=0.05, controller=uneven(1))
    with pytest.raises(RunFailed, match=r"round 1: controller uneven\(wrong=1\): it chose n = 0"):
        run(config, tmp_path / "run")


def test_a_run_with_a_controller_is_not_extended(tmp_path: Path) -> None:
    config = small(method="sbc", gradient=0.05, controller="fixed", evaluate_every=1)
    run(config, tmp_path / "run")
    with pytest.raises(UsageError, match="its --controller fixed was told of 20 iterations"):
        run(replace(config, iterations=40), tmp_path / "run")
