"""Values that a setting's text names, with settings of their own in parentheses.

Strategies, samplers and controllers are read and written here: ``power_of_choice(10, stale=true)``
is a name of a table, and ``FILE.py:NAME(0.5)`` a user's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from compressors.grammar import Call, read_call, value
from fedsim.ground.errors import UsageError, comma, named_arguments, parse_call, unknown

_NUMBERS = {"int", "float", "bool", "None"}


@dataclass(frozen=True)
class Listed:
    """A row of a table of names.

    Attributes:
        make: the class, or where it lies (``module:Class`` in ``fedsim.settings``).
        title, source: what it does, and the paper.
        example: of its text.
    """

    make: Any
    title: str
    source: str
    example: str

    @property
    def cls(self) -> Any:
        """The class, imported when somebody asks."""
        if not isinstance(self.make, str):
            return self.make
        module, name = self.make.split(":")
        return vars(import_module(f"fedsim.settings.{module}"))[name]


@dataclass(frozen=True)
class Naming:
    """How the setting ``flag`` names values; all methods raise ``UsageError`` with the setting.

    ``noun``: what it names; ``allowed``: which texts it takes.
    """

    flag: str
    noun: str
    allowed: str

    def call(self, text: str) -> Call:
        """The name and the settings that a text is."""
        return parse_call(text, self.flag, self.allowed)

    def listed(self, text: str, table: Mapping[str, Listed]) -> Any:
        """The value that a text names by a row of ``table``."""
        call = self.call(text)
        if call.name not in table:
            raise UsageError(f"{self.flag}: {unknown(self.noun, call.name, table)}")
        row = table[call.name]
        return self.construct(row.cls, row.cls, call, text, row.example)

    def load_own(self, text: str, base: type[Any], called: str) -> Any:
        """A user's own of class ``base``, from its file, with the settings that follow its name."""
        from fedsim.tasks.place import load_object, set_place

        file, _, name = text.rpartition(":")
        call = self.call(name) if "(" in name else Call(name)
        loaded = load_object(f"{file}:{call.name}", self.flag, base, called)
        if not call.called:
            return loaded
        changed = self.construct(partial(replace, loaded), type(loaded), call, text)
        place = f"{loaded.place.rpartition(':')[0]}:{name}"  # where its file is now
        return set_place(changed, place, loaded.content)

    def construct(
        self, make: Callable[..., Any], of: type[Any], call: Call, typed: str, example: str = ""
    ) -> Any:
        """The value of class ``of`` that ``make`` makes with the settings of a call."""
        declared = fields(of) if is_dataclass(of) else ()
        kinds = {f.name: getattr(f.type, "__name__", str(f.type)) for f in declared}
        try:
            arguments = named_arguments(call, [*kinds])
            for f in declared if make is of else ():
                if f.name not in arguments and f.default is f.default_factory is MISSING:
                    raise ValueError(f"it lacks {f.name}; write {example}")
            values = {name: _value(one, kinds[name]) for name, one in arguments.items()}
            for name, one in values.items():
                if isinstance(one, str) and {*kinds[name].split(" | ")} <= _NUMBERS:
                    raise ValueError(f"{name} is {one!r}; it takes a number")
            return make(**values)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.flag} is {typed!r}: {error}{comma(typed)}") from error

    def text_of(self, instance: Any, table: Mapping[str, Listed], allowed: str) -> str:
        """The text by which ``listed`` finds a value again; ``allowed``: what else to give."""
        name = next((n for n, row in table.items() if row.cls is type(instance)), None)
        if name is None or not is_dataclass(instance):
            raise UsageError(f"{self.flag} is {instance!r}: give {allowed}")
        return named_text(name, instance)

    def check_hashable(self, instance: Any, shown: str) -> None:
        """Refuses a user's own value that cannot be a part of frozen settings."""
        try:
            hash(instance)
        except TypeError as error:
            raise UsageError(
                f"{self.flag} is {shown!r}: {error}; a {self.noun} is a frozen dataclass whose "
                "settings are numbers, texts or tuples"
            ) from error


def named_text(name: str, named: Any, exact: bool = False) -> str:
    """The text that names a value: ``name``, and the settings that are not at their defaults.

    ``exact``: whether 1 differs from a default of 1.0.

    Example:
        >>> from fedsim.settings.samplers.losses import PowerOfChoice
        >>> named_text("power_of_choice", PowerOfChoice(10, stale=True))
        'power_of_choice(10, stale=true)'
    """
    arguments = []
    for f in fields(named):
        one = getattr(named, f.name)
        if shown(one) != shown(f.default) if exact else one != f.default:
            arguments.append(shown(one) if f.default is MISSING else f"{f.name}={shown(one)}")
    return f"{name}({', '.join(arguments)})" if arguments else name


def _value(call: Call, kind: str) -> Any:
    """An argument as Python has it, where the setting is of this kind."""
    if "tuple" in kind and call.called and not (call.name or call.named):
        return tuple(_value(one, kind) for one in call.arguments)
    if "str" in kind and (call.called or call.name == "|"):  # such as a staleness
        return str(call)
    return value(str(call))


def shown(setting: Any) -> str:
    """A setting as it is typed: a rule of one text, such as a staleness, is that text."""
    text = getattr(setting, "text", setting)
    if isinstance(text, bool):
        return str(text).lower()
    if not isinstance(text, str):
        return repr(setting)
    try:
        same = _value(read_call(f"_({text})").arguments[0], "str") == text
    except (IndexError, ValueError):  # no word and no call, such as a pattern of names
        same = False
    return text if same else repr(text)


def check_whole_number(name: str, value: Any, least: int = 1) -> None:
    """Refuses what is not a whole number from ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}: give a whole number from {least}")


def check_fraction(name: str, value: Any) -> None:
    """Refuses what does not lie in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:
        raise ValueError(f"{name} is {value!r}: it lies in (0, 1]")


def check_above_zero(name: str, value: Any) -> None:
    """Refuses what is not a finite number above 0."""
    if not _is_number(value) or not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value!r}: give a number above 0")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
