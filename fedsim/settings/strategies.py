"""The strategies by the names that users type: each is an algorithm of ``strategies``.

``--strategy`` takes a name, with settings in parentheses where there are any, such as
``fedbuff(10, staleness=polynomial(0.5))``, or ``FILE.py:NAME`` for a user's own. The names are read
without torch; an algorithm is imported when a run asks for it.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from compressors.grammar import Call
from fedsim.ground.errors import UsageError, unknown
from fedsim.settings.declarations import ABOVE_ZERO, Setting, declared, flag, one_of, setting
from fedsim.settings.named import Naming, named_text, shown
from strategies.algorithms import ALGORITHMS

if TYPE_CHECKING:
    from strategies import Algorithm

STRATEGIES = tuple(ALGORITHMS)
"""Every name, in the order in which help lists them."""

_OWN: "dict[str, Algorithm]" = {}
"""A user's own that were made in Python, by how a file of settings calls them."""


@dataclass(frozen=True)
class Flags:
    """Settings of strategies that are flags of their own; each is kept in the strategy."""

    server_lr: float | None = setting(
        None, "learning rate of the server, with nesterov, fedadam and others", rule=ABOVE_ZERO
    )
    staleness: str | None = setting(
        None,
        "weight of an update by the age of its model, with fedbuff and fedasync: constant, "
        "polynomial(a) or hinge(a, b); default: polynomial(0.5)",
    )
    buffer_size: int | None = setting(
        None,
        "updates per step of fedbuff; default: 10, or the clients at work if they are fewer",
        rule=ABOVE_ZERO,
    )
    weighting: str | None = setting(
        None,
        "mean over clients: uniform, samples (by their numbers of samples) or nova "
        "(FedNova: by samples, if clients do different numbers of iterations); default: uniform",
        rule=one_of("uniform", "samples", "nova"),
    )


FLAGS: dict[str, Setting] = {flag.name: flag for flag in declared(Flags)}
_NAMING = Naming(
    "--strategy",
    "strategy",
    "a name with its settings, as in 'fedbuff(10, staleness=polynomial(0.5))', or FILE.py:NAME",
)
_SETTINGS = {"fedprox": "--proximal MU", "fednova": "--weighting nova"}
"""Algorithms of the literature that are a setting here, and no strategy."""


def check_text(text: str) -> None:
    """Raises ``UsageError`` where ``--strategy`` is neither a name with settings nor a place."""
    if ":" not in text and text not in _OWN and (name := _NAMING.call(text).name) not in ALGORITHMS:
        message = unknown("strategy", name, ALGORITHMS)
        if name in _SETTINGS:
            message = f"{name!r} is {_SETTINGS[name]}; strategies are {', '.join(ALGORITHMS)}"
        raise UsageError(f"--strategy: {message}")


def adopt_strategy(strategy: "str | Algorithm") -> "str | Algorithm":
    """``strategy`` as settings keep it: a text for one of fedsim's, or a user's own itself.

    Raises ``UsageError`` for what is neither, and for settings that are not allowed.

    Example:
        >>> from strategies import FedBuff
        >>> adopt_strategy(FedBuff(10)), adopt_strategy("dsgd")
        ('fedbuff(buffer_size=10)', 'dsgd')
    """
    algorithm, of = algorithm_of(strategy), type(algorithm_of(strategy))
    for f in fields(algorithm):
        if f.name in FLAGS:
            FLAGS[f.name].fitting(getattr(algorithm, f.name))
    place = f"{of.__module__.removeprefix('strategies.')}:{of.__qualname__}"
    name = next((name for name, listed in ALGORITHMS.items() if listed == place), None)
    if name is None or algorithm.place:
        from strategies import Algorithm

        if of.step is Algorithm.step:
            raise UsageError(
                f"--strategy is {algorithm.written!r}: it has no step(uplinks, state, model, "
                "info), which makes the global update"
            )
        _NAMING.check_hashable(algorithm, algorithm.written)
        if not algorithm.place:  # else its file may have changed, or moved
            _OWN[algorithm.written] = algorithm  # its folder is read again in this process
        return algorithm
    return named_text(name, algorithm, exact=True)


def strategy_text(strategy: "str | Algorithm") -> str:
    """A strategy in files of settings and tables: its text, or its place."""
    return strategy if isinstance(strategy, str) else strategy.written


def algorithm_of(strategy: "str | Algorithm") -> "Algorithm":
    """The algorithm that a text names, with its own settings; a value as it is.

    Raises ``UsageError`` as ``adopt_strategy``.

    Example:
        >>> algorithm_of("nesterov(momentum=0.5)").momentum
        0.5
    """
    from strategies import Algorithm

    if isinstance(strategy, Algorithm):
        return strategy
    if not isinstance(strategy, str):
        raise UsageError(f"--strategy is {strategy!r}: give a text or a strategies.Algorithm")
    if strategy in _OWN:
        return _OWN[strategy]
    if ":" in strategy:
        loaded: Algorithm = _NAMING.load_own(strategy, Algorithm, "strategies.Algorithm")
        return loaded
    check_text(strategy)
    call = _NAMING.call(strategy)
    algorithm: Algorithm = _NAMING.construct(kind(call.name), kind(call.name), call, strategy)
    return algorithm


@lru_cache
def kind(name: str) -> "type[Algorithm]":
    """The class of one of fedsim's."""
    module, class_name = ALGORITHMS[name].split(":")
    cls: type[Algorithm] = vars(import_module(f"strategies.{module}"))[class_name]
    return cls


def takes(strategy: "str | Algorithm") -> set[str]:
    """Which of ``FLAGS`` a strategy takes."""
    return {f.name for f in fields(algorithm_of(strategy))} & {*FLAGS}


def flags_of(algorithm: "Algorithm") -> dict[str, Any]:
    """The values of an algorithm's ``FLAGS``, as they are typed."""
    names = {f.name for f in fields(algorithm)}
    values = {name: getattr(algorithm, name) for name in FLAGS if name in names}
    return {name: getattr(value, "text", value) for name, value in values.items()}


def with_settings(
    strategy: "str | Algorithm", settings: Mapping[str, Any], anew: bool = False
) -> "str | Algorithm":
    """The strategy with what its flags say among its settings.

    ``anew``: they go over what it says itself; else neither may be there twice.

    Raises ``UsageError`` for a setting that the strategy does not have, or that is not allowed.

    Example:
        >>> with_settings("fedadam", {"server_lr": 0.5})
        'fedadam(server_lr=0.5)'
    """
    algorithm, start = algorithm_of(strategy), f"--strategy is {strategy_text(strategy)!r}"
    defaults = {f.name: f.default for f in fields(algorithm)}
    if algorithm.by_samples and settings.get("weighting") == "samples":  # as they always are
        settings = {name: typed for name, typed in settings.items() if name != "weighting"}
    for name, typed in settings.items():
        FLAGS[name].fitting(typed)
        if name not in defaults:
            taking = " and ".join(other for other in STRATEGIES if name in takes(other))
            cause = (
                "; a majority and a switch count every client once, and Flower's strategies "
                "weight by samples"
            )
            raise UsageError(
                f"{flag(name)} is {typed!r}: it belongs to {taking}, and {start}"
                f"{cause if name == 'weighting' else ''}"
            )
        if not anew and getattr(algorithm, name) not in (defaults[name], typed):
            raise UsageError(f"{flag(name)} is {typed!r} and {start}: give {name} once")
    try:
        changed = replace(algorithm, **settings)
    except ValueError as error:
        raise UsageError(f"{start}: {error}") from error
    if algorithm.place:
        from fedsim.tasks.place import set_place

        call = _NAMING.call(algorithm.place.rpartition(":")[2])
        call.named.update({name: Call(shown(typed)) for name, typed in settings.items()})
        place = f"{algorithm.place.rpartition(':')[0]}:{replace(call, called=True)}"
        set_place(changed, place, algorithm.content)
    return adopt_strategy(changed)


def adds_codes(strategy: "str | Algorithm") -> bool:
    """Whether a strategy takes only methods that send codes which it adds up: never ``raw``."""
    return algorithm_of(strategy).adds_codes


def is_among(text: str, names: Container[str]) -> bool:
    """Whether a strategy that a folder names is one of these (``strategies.algorithms``).

    A user's own is not looked up: its file may be anybody's.
    """
    return ":" not in text and text.partition("(")[0].strip() in names


def check_deployed(strategy: object) -> None:
    """Refuses a strategy that goes by simulated time, or is simulated for another reason."""
    if not isinstance(strategy, str):
        return
    algorithm = algorithm_of(strategy)
    if algorithm.clock != "rounds":
        raise UsageError(
            f"--strategy is {strategy!r}: it goes by simulated time, and the links of a deployment "
            "are real; `fedsim run --network` trains with it"
        )
    if reason := algorithm.refuses_deployment:
        raise UsageError(f"--strategy is {strategy!r}: {reason}; `fedsim run` trains with it")


def least_steps(strategy: "str | Algorithm") -> int:
    """The fewest local iterations of a round with a strategy.

    Example:
        >>> [least_steps(x) for x in ("dsgd", "diloco(tau=5)", "fedrep(head_steps=2)")]
        [1, 6, 3]
    """
    return algorithm_of(strategy).least_steps


def of_reference(strategy: "str | Algorithm") -> "str | Algorithm":
    """The strategy of a method's dense reference, with n = 1 and ``raw``: the same, else the mean.

    Strategies of codes take no ``raw``, and others need more local iterations than 1.
    """
    algorithm = algorithm_of(strategy)
    if not algorithm.adds_codes and least_steps(strategy) == 1:
        return strategy
    return adopt_strategy(f"dsgd(weighting={getattr(algorithm, 'weighting', 'uniform')})")
