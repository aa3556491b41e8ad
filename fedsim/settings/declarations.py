"""The declaration of a setting: its type, default and sentence, its flag, and its values.

Flags, help, TOML, a run's identity and its summary are made of these declarations by loops.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, get_args, get_origin

from fedsim.ground.errors import PlacedError, UsageError

G = TypeVar("G")
P = TypeVar("P")


class Rule(NamedTuple):
    """Which values a setting takes, and the words for them; ``allowed``: these and no other."""

    fits: Callable[[Any], bool]
    words: str
    allowed: tuple[str, ...] = ()


ABOVE_ZERO = Rule(lambda x: 0 < x < float("inf"), "a number above 0")


def one_of(*allowed: str) -> Rule:
    """These texts and no other."""
    return Rule(lambda x: x in allowed, f"one of {', '.join(allowed)}", allowed)


def some_of(*allowed: str) -> Rule:
    """One of these texts, or several with commas between them."""
    names = {*allowed}
    return Rule(
        lambda x: {*x.split(",")} <= names,
        f"one or several of {', '.join(allowed)}, with commas between them",
    )


def setting(
    default: Any,
    help: str,
    *,
    flag: str = "",
    rule: Rule | None = None,
    result: bool = True,
    of_task: bool = False,
    plain: Callable[[Any, str], Any] | None = None,
) -> Any:
    """A field that is a setting of a run.

    Args:
        default: None where the sentence explains it.
        help: the sentence that help shows.
        flag: its name on the command line and in tables of results; empty: the field's.
        rule: which values it takes in addition to None.
        result: whether the numbers of a run depend on it.
        of_task: None stands for the task's own.
        plain: from what is given, and the setting's flag, to what is kept: a text or a number.
    """
    metadata = {
        "help": help,
        "flag": flag,
        "rule": rule,
        "result": result,
        "of_task": of_task,
        "plain": plain,
    }
    return field(default=default, metadata=metadata)


class Grouped(Generic[G, P]):
    """The type of a field that holds a group: reading gives the group, a plain value may be given.

    Type checkers know such fields as descriptors; there is none when the code runs.
    """

    if TYPE_CHECKING:

        def __get__(self, run: object, kind: Any = None) -> G: ...

        def __set__(self, run: object, value: G | P) -> None: ...


def group(kind: type[Any], plain: type[Any] | None = None) -> Any:
    """A field that holds several settings, which are the fields of ``kind``.

    ``plain``: a value of this type stands for a group whose first setting it is.
    """
    return field(default=kind(), metadata={"group": kind, "plain": plain})


@dataclass(frozen=True)
class Setting:
    """One setting of a run, as it was declared."""

    name: str  # as flags, results and tables have it, with `_` for `-`
    group: str  # the field of the run's config that holds it; empty: a field of that itself
    attr: str  # the field
    owner: str  # the class of that field, as messages call it
    kind: str  # its type as written, such as ``int | None``
    default: Any
    help: str
    rule: Rule | None
    result: bool
    of_task: bool
    plain: Callable[[Any, str], Any] | None

    @classmethod
    def of(cls, f: Field[Any], owner: type[Any], group: str = "") -> "Setting":
        """The setting that a field is."""
        kind = f.type.__name__ if isinstance(f.type, type) else str(f.type)
        if get_origin(f.type) is Grouped:  # what may be given, then what is read
            read, plain_type = get_args(f.type)
            kind = f"{plain_type.__name__} | {read}".replace(f"{__package__}.groups.", "")
        metadata = dict(f.metadata)
        name = metadata.pop("flag") or f.name
        return cls(name, group, f.name, owner.__name__, kind, f.default, **metadata)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return flag(self.name)

    def of_type(self, value: Any, origin: str, key: str) -> None:
        """Refuses a value of another type; ``origin``, ``key``: its file and key in messages."""
        kinds = self.kind.split(" | ")
        types = {c.__name__ for c in type(value).__mro__}
        if isinstance(value, bool):
            types -= {"int"}
        allowed = {*kinds} | ({"int"} if "float" in kinds else set())
        if not types & allowed and not (value is None and "None" in kinds):
            named = " or ".join(kind for kind in kinds if kind != "None")
            raise PlacedError(f"{origin}: {key} is {value!r}; it takes {named}")

    def fitting(self, value: Any) -> None:
        """Refuses a value of its type that no run could have."""
        if value is None or self.rule is None or self.rule.fits(value):
            return
        shown = repr(value) if isinstance(value, str) else f"{value}"
        field = f" ({self.owner}.{self.attr})" if self.group else ""
        raise UsageError(f"{self.flag} is {shown}: give {self.rule.words}{field}")

    def checked(self, value: Any, origin: str, key: str) -> Any:
        """The value as it is stored, refused as by ``of_type`` and ``fitting``; a float as one."""
        value = self.as_stored(value)
        self.of_type(value, origin, key)
        self.fitting(value)
        is_whole = self.kind.startswith("float") and isinstance(value, int)
        return float(value) if is_whole else value

    def as_stored(self, value: Any) -> Any:
        """The value as it is stored: paths become texts, and numpy's numbers become Python's."""
        if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):
            value = value.item()
        if isinstance(value, PurePath):
            value = str(value)
        return value if value is None or self.plain is None else self.plain(value, self.flag)


_DECLARED: dict[type[Any], tuple[Setting, ...]] = {}


def declared(kind: type[Any], group: str = "") -> tuple[Setting, ...]:
    """The settings that the fields of a class are; those of its groups are theirs.

    ``group``: the field of a run's config that holds such a value, where it is a group.
    """
    if kind not in _DECLARED:
        own_fields = (f for f in fields(kind) if "group" not in f.metadata)
        _DECLARED[kind] = tuple(Setting.of(f, kind, group) for f in own_fields)
    return _DECLARED[kind]


def settle(owner: Any, group: str = "") -> None:
    """Checks every setting of a frozen value by itself, and keeps it in its plain form.

    Raises ``UsageError``, which names the setting, its value and what is allowed.
    """
    for setting in declared(type(owner), group):
        attr = setting.attr
        key = f"{attr} ({setting.flag})" if group else attr
        value = setting.checked(getattr(owner, attr), type(owner).__name__, key)
        object.__setattr__(owner, attr, value)


def flag(name: str) -> str:
    """A setting's name on the command line: ``--batch-size`` of ``batch_size``."""
    return "--" + name.replace("_", "-")
