"""Every setting of a run: each a field, alone or in a group (``groups``).

In these two files alone a setting is spelled: its type, its default, its sentence, its flag and
what it takes. Flags, help, TOML, a run's name and its summary are made of it.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from fedsim.ground.errors import PlacedError
from fedsim.settings.declarations import (
    ABOVE_ZERO,
    Grouped,
    Rule,
    Setting,
    declared,
    group,
    one_of,
    setting,
    settle,
)
from fedsim.settings.groups import (
    Clients,
    Evaluation,
    Keep,
    Machine,
    Network,
    Training,
    as_amount,
    as_text,
)
from fedsim.settings.strategies import STRATEGIES

# Settings are read without torch, so that `--help` answers at once; a run imports torch.
if TYPE_CHECKING:
    from fedsim.tasks import Task
    from strategies import Algorithm

GRADIENT = 0.01
"""The fraction of entries sent, where nobody says any and the method takes one."""


def _weights(value: Any, flag: str) -> Any:
    from fedsim.settings.startfile import place_with_digest

    return place_with_digest(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Settings:
    """What a user asks of a run; None stands for the default that the sentence names.

    Each setting is checked by itself; ``RunConfig`` holds the same settings, checked together.
    """

    task: "str | Task" = setting(
        "digits",
        "what is learned: a name from `fedsim list tasks`, FILE.py:NAME for a task of "
        "your own, or in Python a Task",
    )
    method: str = setting(
        "sbc", "how updates are compressed; {p} stands for --gradient", plain=as_text
    )
    temporal: int = setting(
        10, "local iterations per communication round (1: every step)", rule=ABOVE_ZERO
    )
    local_epochs: int | None = setting(
        None,
        "epochs of its own samples that each client trains in a round, in place of "
        "--temporal; takes --rounds",
        rule=ABOVE_ZERO,
    )
    local_seconds: float | str | None = setting(
        None,
        "simulated time that each client trains in a round, such as 30s, in place of "
        "--temporal: as many local iterations as fit by its compute time, at least one; takes "
        "--rounds, and a --network with a time or a rate for compute",
        plain=as_amount("time"),
    )
    gradient: float | None = setting(
        None,
        "fraction of entries sent, in (0, 1]; 1: dense; default: 0.01 where the method takes one",
    )
    iterations: int | None = setting(
        None, "local iterations of the run; default: the task's", rule=ABOVE_ZERO, of_task=True
    )
    rounds: int | None = setting(
        None,
        "communication rounds of the run, in place of --iterations: each has --temporal "
        "local iterations, or --local-epochs, or --local-seconds",
        rule=ABOVE_ZERO,
        result=False,
    )
    weights: str | None = setting(
        None,
        "file of weights to start from, FILE.safetensors, such as model.safetensors of "
        "another run; default: drawn by the seed",
        plain=_weights,
    )
    seed: int = setting(
        0,
        "seed of every random draw",
        rule=Rule(lambda x: 0 <= x < 2**63, "a whole number from 0 to 2^63 - 1"),
    )
    strategy: "str | Algorithm" = setting(
        "dsgd",
        "one of " + ", ".join(STRATEGIES) + "; with settings in parentheses, such as "
        "'fedbuff(10, staleness=polynomial(0.5))'; FILE.py:NAME for one of your own",
    )
    downlink: str | None = setting(
        None,
        "how the global update is compressed, or relay (clients receive the others' "
        "messages and compute the mean); default: raw, with majority one bit per entry",
        plain=as_text,
    )
    controller: str | None = setting(
        None,
        "rule that changes n and p from round to round, beginning with --temporal and "
        "--gradient: one of `fedsim list controllers`, such as 'plateau(10)'; default: none",
        plain=as_text,
    )
    stop_at_bits: float | str | None = setting(
        None,
        "end after the round in which a client's bits (wire) reach this number, such as "
        "2Mbit: upstream bits, or those of --budget-of; default: never",
        plain=as_amount("bits"),
    )
    stop_at_joules: float | str | None = setting(
        None,
        "end after the round in which the energy of all clients together reaches this "
        "number, such as 2kJ; takes a --network with energy; default: never",
        plain=as_amount("joules"),
    )
    budget_of: str = setting(
        "up",
        "which bits of a client a budget counts (--stop-at-bits, and the budgets and the "
        "front of the report): up, or total (both ways, wire)",
        rule=one_of("up", "total"),
    )
    label: str | None = setting(
        None,
        "name of the method in tables and figures; default: --method as typed",
        result=False,
        rule=Rule(lambda x: bool(x.strip()) and x.isprintable(), "a line of text, and not empty"),
    )
    network: Grouped[Network | None, str] = setting(
        None,
        "simulate how long rounds take on this network: a preset of `fedsim list networks`, "
        "settings such as 'up=5Mbit, latency=50ms, compute=20ms', or a TOML file; framing=on "
        "counts whole messages instead of payloads; default: none",
        plain=lambda value, _: Network(value) if isinstance(value, str) else value,
    )
    clients: Grouped[Clients, int | None] = group(Clients, int)
    training: Grouped[Training, None] = group(Training)
    evaluation: Grouped[Evaluation, None] = group(Evaluation)
    machine: Grouped[Machine, None] = group(Machine)
    keep: Grouped[Keep, None] = group(Keep)

    @property
    def by_client(self) -> bool:
        """Whether clients do unlike numbers of local iterations, in place of ``temporal``."""
        return self.local_epochs is not None or self.local_seconds is not None

    def flat(self) -> dict[str, Any]:
        """Every setting by the name of its flag, as it was given."""
        return {
            name: getattr(getattr(self, setting.group) if setting.group else self, setting.attr)
            for name, setting in SETTINGS.items()
        }

    def __post_init__(self) -> None:
        settle(self)
        for name, kind in GROUPS.items():
            value, plain = getattr(self, name), _PLAIN[name]
            if value is None:
                object.__setattr__(self, name, kind())
            elif plain and isinstance(value, plain) and not isinstance(value, bool):
                object.__setattr__(self, name, kind(value))
            elif not isinstance(value, kind):
                raise PlacedError(f"RunConfig: {name} is {value!r}; it takes {kind.__name__}(...)")


GROUPS: dict[str, type[Any]] = {
    f.name: f.metadata["group"] for f in fields(Settings) if "group" in f.metadata
}
"""The classes of the groups, by the fields of a run that hold them."""

_PLAIN = {f.name: f.metadata["plain"] for f in fields(Settings) if "group" in f.metadata}

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for kind, place in ((Settings, ""), *((kind, name) for name, kind in GROUPS.items()))
    for setting in declared(kind, place)
}
"""Every setting by the name of its flag, with `_` for `-`, in the order of help."""
