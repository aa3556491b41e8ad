"""What a controller goes with, controllers of a user's own, and orders as bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.federation.orders import Work, from_payload, round_p, to_payload
from fedsim.settings.controllers import CONTROLLERS, Action, ListedController
from tests.support.runs import clients, make_task, rounds, small

__all__ = ["make_task"]  # the fixture


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"controller": "plato"}, "unknown controller"),
        ({"controller": "warmup(3)", "method": "sbc(0.1)"}, "has no place for a fraction"),
        ({"controller": "noise", "strategy": "gradients", "temporal": 1}, "--controller is"),
        ({"controller": "adacomm(9)", "method": "dgc({p})", "temporal": 1, "momentum": 0}, "n = 1"),
        ({"controller": "link(1)"}, "give --network"),
        ({"controller": "fixed", "network": "4g"}, "compute=20ms"),
        (
            {
                "controller": "noise",
                "network": "4g, compute=20ms",
                "deadline": "9s",
                "late": "count",
            },
            "give --late hold or drop",
        ),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RunConfig.of(**{"method": "sbc", **settings})


def test_a_name_is_told_only_where_there_is_a_controller() -> None:
    plain, moved = RunConfig(), RunConfig(controller="noise")
    assert "controller" not in plain.identity() and moved.identity()["controller"] == "noise"
    assert plain.digest != moved.digest


@pytest.mark.parametrize(("p", "length"), [(1.0, 3), (0.0123, 3), (0.999, 3), (1e-06, 3)])
def test_an_order_is_three_bytes(p: float, length: int) -> None:
    config = RunConfig(method="sbc")
    work = Work(100, round_p(p), 0)
    data = to_payload(config, work)
    assert len(data) == length and from_payload(config, data) == work
    assert to_payload(RunConfig(method="raw"), Work(300, 1.0, 0)).hex() == "ac02"


def test_an_order_tells_the_iterations_where_the_rate_has_steps(make_task: Any) -> None:
    config = RunConfig(task=make_task(lr_steps=((6, 0.1),)), method="raw", temporal=1)
    data = to_payload(config, Work(3, 1.0, 9))
    assert data.hex() == "0309" and from_payload(config, data) == Work(3, 1.0, 9)
    with pytest.raises(ValueError, match="4 bytes: its numbers have 2"):
        from_payload(config, data + b"ab")
    with pytest.raises(ValueError, match="more than 9 bytes"):
        from_payload(config, b"\xff" * 199_999 + b"\x01")


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
