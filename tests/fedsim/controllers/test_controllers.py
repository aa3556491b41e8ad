"""Controllers by hand: what each chooses of what it is told; texts, and what is refused."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from fedsim.ground.errors import UsageError
from fedsim.settings.controllers import (
    CONTROLLERS,
    ListedController,
    Observation,
    controller_text,
    parse_controller,
)


def told(**facts: Any) -> Observation:
    known: dict[str, Any] = dict.fromkeys(
        ("seconds", "train_loss", "loss", "metric", "update_norm", "agreement")
    )
    known |= {"round": 1, "iteration": 0, "iterations": 100, "n": 8, "p": 0.01, "rate": 1.0}
    known |= {"rate_drops": (), "up_bits": 0.0, "down_bits": 0.0, "entries": 1000, "clients": {}}
    return Observation(**known | facts)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_texts_are_read_and_printed(name: str) -> None:
    row = CONTROLLERS[name]
    made = parse_controller(row.example)
    assert type(made) is row.cls and parse_controller(controller_text(made)) == made
    assert row.title and row.source


@dataclass(frozen=True)
class Dated:
    needs: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[tuple[str, ...]] = ()
    at: tuple[int, ...] = ()
    name: str = ""

    def choose(self, observation: Observation, memory: Any) -> Any:
        return observation.base, memory


def test_values_of_a_controller_of_ones_own_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLLERS, "dated", ListedController(Dated, "title", "source", "dated"))
    for made in (Dated(), Dated((1, 20)), Dated((3,), "a, (b")):
        assert parse_controller(controller_text(made)) == made
    for wrong in ("dated(f(1))", "dated((x=1))", "dated(1 | 2)"):
        with pytest.raises(UsageError, match="--controller is .dated.*cannot read"):
            parse_controller(wrong)


class Bare:
    """Neither a dataclass, nor with what the contract asks."""


def test_what_a_class_of_ones_own_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLLERS, "bare", ListedController(Bare, "title", "source", "bare"))
    for name, said in (
        ("needs", "needs is None; give a tuple of some of"),
        ("moves", "moves is None; give a tuple of 'n' and 'p'"),
        ("choose", r"it has no choose\(observation, memory\)"),
    ):
        with pytest.raises(UsageError, match=f"controller bare: {said}"):
            parse_controller("bare")
        monkeypatch.setattr(Bare, name, (), raising=False)
