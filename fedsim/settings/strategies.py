"""The strategies by the names that users type: each is an algorithm of ``strategies``.

``--strategy`` takes a name, with settings in parentheses where there are any, such as
``fedbuff(10, staleness=polynomial(0.5))``, or ``FILE.py:NAME`` for a user's own. The names are read
without torch; an algorithm is imported when a run asks for it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from compressors.calls import Call, value
from fedsim.ground.errors import UsageError, called, unknown
from strategies.algorithms import ALGORITHMS, AVERAGES, CODED, OWN_DOWNLINK

if TYPE_CHECKING:
    from strategies import Algorithm

STRATEGIES = tuple(ALGORITHMS)
"""Every name, in the order in which help lists them."""

_OWN: "dict[str, Algorithm]" = {}
"""A user's own that were made in Python, by how a file of settings calls them."""

FLAGS = ("weighting", "server_lr", "staleness", "buffer_size")
"""Settings of a run that are an algorithm's, where it has a field of that name."""


def check_text(text: str) -> None:
    """Raises ``UsageError`` where ``--strategy`` is no name with settings, and no place."""
    if ":" not in text and text not in _OWN and (name := _call(text).name) not in ALGORITHMS:
        raise UsageError(f"--strategy: {unknown('strategy', name, ALGORITHMS)}")


def adopt(strategy: "str | Algorithm") -> "str | Algorithm":
    """``strategy`` as settings keep it: a text for one of fedsim's, or a user's own itself.

    Raises ``UsageError`` for what is neither, and for settings that are not allowed.

    Example:
        >>> from strategies import FedBuff
        >>> adopt(FedBuff(10)), adopt("dsgd")
        ('fedbuff(buffer_size=10)', 'dsgd')
    """
    made = value_of(strategy)
    if isinstance(strategy, str) and ":" not in strategy and strategy not in _OWN:
        return strategy
    name = next((n for n in ALGORITHMS if kind(n) is type(made)), None)
    if name is None or isinstance(strategy, str):
        _check_own(made)
        _OWN[made.written] = made  # its folder is read again in this process
        return made
    said = [
        f"{f.name}={_shown(getattr(made, f.name))}"
        for f in fields(made)
        if getattr(made, f.name) != f.default and f.default is not MISSING
    ]
    return f"{name}({', '.join(said)})" if said else name


def _check_own(made: "Algorithm") -> None:
    """Refuses a user's own that no round could be carried out with, before any work."""
    from strategies import Algorithm

    if type(made).step is Algorithm.step:
        raise UsageError(
            f"--strategy is {made.written!r}: it has no step(uplinks, memory, model, now), which "
            "makes the global update"
        )
    try:
        hash(made)
    except TypeError as error:
        raise UsageError(
            f"--strategy is {made.written!r}: {error}; a strategy is a frozen dataclass whose "
            "settings are numbers, texts or tuples"
        ) from error


def written(strategy: "str | Algorithm") -> str:
    """What files of settings and tables call a strategy: its text, or where it stands."""
    return strategy if isinstance(strategy, str) else strategy.written


def value_of(strategy: "str | Algorithm") -> "Algorithm":
    """The algorithm that a text names, with its own settings; a value as it is.

    Raises ``UsageError`` as ``adopt``.

    Example:
        >>> value_of("nesterov(momentum=0.5)").momentum
        0.5
    """
    from strategies import Algorithm

    if isinstance(strategy, Algorithm):
        return strategy
    if not isinstance(strategy, str):
        raise UsageError(f"--strategy is {strategy!r}: it is a text or a strategies.Algorithm")
    if strategy in _OWN:
        return _OWN[strategy]
    if ":" in strategy:
        from fedsim.tasks.place import load

        found: Algorithm = load(strategy, "--strategy", Algorithm, "strategies.Algorithm")
        return found
    check_text(strategy)
    call = _call(strategy)
    try:
        named = {key: _value(one) for key, one in call.named.items()}
        return kind(call.name)(*map(_value, call.given), **named)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--strategy is {strategy!r}: {error}") from error


@lru_cache
def kind(name: str) -> "type[Algorithm]":
    """The class of one of fedsim's.

    Example:
        >>> kind("dsgd").__name__
        'DSGD'
    """
    file, found = ALGORITHMS[name].split(":")
    made: type[Algorithm] = vars(import_module(f"strategies.algorithms.{file}"))[found]
    return made


def takes(strategy: "str | Algorithm") -> set[str]:
    """Which of ``FLAGS`` a strategy takes.

    Example:
        >>> sorted(takes("nesterov"))
        ['server_lr', 'weighting']
    """
    return {f.name for f in fields(value_of(strategy))} & {*FLAGS}


def algorithm(strategy: "str | Algorithm", flags: Mapping[str, Any]) -> "Algorithm":
    """The algorithm with what the ``flags`` of a run set, where it has such a field.

    Raises ``UsageError`` for a setting that is given twice, or is not allowed.
    """
    made, said = value_of(strategy), f"--strategy is {written(strategy)!r}"
    defaults = {f.name: f.default for f in fields(made)}
    given = {k: v for k, v in flags.items() if v is not None and v != defaults.get(k, v)}
    for name, typed in given.items():
        if getattr(made, name) not in (defaults[name], typed):
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} is {typed!r} and {said}: give {name} once")
    try:
        return replace(made, **given)
    except ValueError as error:
        raise UsageError(f"{said}: {error}") from error


def coded(strategy: "str | Algorithm") -> bool:
    """Whether a strategy takes only methods that send codes which it adds up: never ``raw``."""
    return value_of(strategy).coded


def told_downlink(text: str) -> bool:
    """Whether a strategy that a folder names has another downlink than ``raw`` by default.

    A user's own is not looked up: its file may be anybody's.
    """
    return _head(text) in OWN_DOWNLINK


def told_coded(text: str) -> bool:
    """Whether a strategy that a folder names never takes ``raw``; as ``told_downlink``."""
    return _head(text) in CODED


def told_averages(text: str) -> bool:
    """Whether a strategy that a folder names moves by the mean of updates; as ``told_downlink``."""
    return _head(text) in AVERAGES


def check_deployed(strategy: object) -> None:
    """Refuses a strategy that goes by simulated time, for a deployment's links are real."""
    if isinstance(strategy, str) and value_of(strategy).clock != "rounds":
        raise UsageError(
            f"--strategy is {strategy!r}: it goes by simulated time, and the links of a deployment "
            "are real; `fedsim run --network` trains with it"
        )


def of_reference(strategy: "str | Algorithm") -> "str | Algorithm":
    """The strategy of a method's dense reference: the same, or the mean where it takes no ``raw``.

    Example:
        >>> of_reference("majority"), of_reference("fedadam")
        ('dsgd', 'fedadam')
    """
    return "dsgd" if coded(strategy) else strategy


def _head(text: str) -> str:
    """The name in a text; empty for a user's own."""
    return text.partition("(")[0].strip() if ":" not in text else ""


def _call(text: str) -> Call:
    allowed = (
        "a name with its settings, as in 'fedbuff(10, staleness=polynomial(0.5))', or FILE.py:NAME"
    )
    return called(text, "--strategy", allowed)


def _value(call: Call) -> Any:
    """What a setting says; one that is a call itself, such as a staleness, stays a text."""
    return str(call) if call.called or call.name == "|" else value(call.name)


def _shown(value: Any) -> str:
    """A setting as it is typed: a rule of one text, such as a staleness, is that text."""
    return str(getattr(value, "text", None) or (value if isinstance(value, str) else repr(value)))
