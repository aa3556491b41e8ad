"""From the text of a sampler to the sampler, and back."""

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import Any, cast

from compressors.grammar import Call, value
from fedsim.ground.errors import UsageError, comma, named_arguments, parse_call, unknown
from fedsim.settings.samplers.base import SAMPLER_NEEDS, Sampler
from fedsim.settings.samplers.registry import SAMPLERS

FLAG = "--sampler"
_ALLOWED = "a name with its settings, as in 'weighted(samples)', or FILE.py:NAME"


def adopt_sampler(sampler: str | Sampler) -> str | Sampler:
    """``sampler`` as settings keep it: a text for one of fedsim's, or a user's own itself.

    Raises ``UsageError`` for what is neither, and for settings that are not allowed.

    Example:
        >>> adopt_sampler("weighted( by=samples )")
        'weighted(samples)'
    """
    instance = sampler_of(sampler)
    return instance if instance.place else sampler_text(instance)


def sampler_of(sampler: str | Sampler) -> Sampler:
    """The sampler that a text names; a value as it is.

    Raises ``UsageError`` as ``adopt_sampler``.

    Example:
        >>> sampler_of("link(fastest)")
        ByLink(first='fastest')
    """
    if isinstance(sampler, Sampler):
        return sampler
    if not isinstance(sampler, str):
        raise UsageError(f"{FLAG} is {sampler!r}: give {_ALLOWED}")
    if ":" in sampler:
        return _load_own(sampler)
    call = parse_call(sampler, FLAG, _ALLOWED)
    if call.name not in SAMPLERS:
        raise UsageError(f"{FLAG}: {unknown('sampler', call.name, SAMPLERS)}")
    kind = SAMPLERS[call.name].cls
    return _construct(kind, kind, call, sampler)


def sampler_text(sampler: Sampler) -> str:
    """The text of one of fedsim's samplers: ``sampler_of`` of it gives an equal one.

    Raises ``UsageError`` where its class is in no row of ``SAMPLERS``.

    Example:
        >>> sampler_text(sampler_of("weighted(samples)"))
        'weighted(samples)'
    """
    name = next((n for n, row in SAMPLERS.items() if row.cls is type(sampler)), None)
    if name is None:
        raise UsageError(
            f"{FLAG} is {sampler!r}: give a sampler of your own as FILE.py:NAME, so that other "
            "processes find it"
        )
    arguments = [
        f"{f.name}={_shown(getattr(sampler, f.name))}"
        if f.default is not MISSING
        else _shown(getattr(sampler, f.name))
        for f in fields(sampler)
        if getattr(sampler, f.name) != f.default
    ]
    return f"{name}({', '.join(arguments)})" if arguments else name


def _load_own(place: str) -> Sampler:
    """A user's own, from where it stands, with the settings that follow its name."""
    from fedsim.tasks.place import load_object, set_place

    file, _, call_text = place.rpartition(":")
    call = parse_call(call_text, FLAG, _ALLOWED) if "(" in call_text else Call(call_text)
    kind = "fedsim.settings.samplers.Sampler"
    base: Sampler = load_object(f"{file}:{call.name}", FLAG, Sampler, kind)
    sampler = base
    if call.called:
        new_place = f"{base.place.rpartition(':')[0]}:{call_text}"  # where its file is now
        changed = _construct(partial(replace, base), type(base), call, place)
        sampler = cast("Sampler", set_place(changed, new_place, base.content))
    needs = sampler.needs
    if not isinstance(needs, tuple) or not {*needs} <= {*SAMPLER_NEEDS}:
        raise UsageError(
            f"{FLAG} is {place!r}: needs is {needs!r}; give a tuple of some of "
            f"{', '.join(SAMPLER_NEEDS)}"
        )
    try:
        hash(sampler)
    except TypeError as error:
        raise UsageError(
            f"{FLAG} is {place!r}: {error}; a sampler is a frozen dataclass whose settings are "
            "numbers, texts or tuples"
        ) from error
    return sampler


def _construct(make: Callable[..., Sampler], of: type[Sampler], call: Call, typed: str) -> Sampler:
    """The sampler with the settings of a call; ``UsageError`` where it does not take them."""
    kinds = {f.name: str(f.type) for f in fields(of)}
    try:
        arguments = named_arguments(call, [*kinds])
        needed = [] if make is not of else [f.name for f in fields(of) if f.default is MISSING]
        for name in needed:
            if name not in arguments:
                raise ValueError(f"it lacks {name}; write {SAMPLERS[call.name].example}")
        return make(**{name: value(str(one)) for name, one in arguments.items()})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{FLAG} is {typed!r}: {error}{comma(typed)}") from error


def _shown(setting: Any) -> str:
    if isinstance(setting, bool):
        return str(setting).lower()
    return setting if isinstance(setting, str) else repr(setting)
