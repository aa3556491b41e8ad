"""From the text of a sampler to the sampler, and back."""

from fedsim.ground.errors import UsageError
from fedsim.settings.named import Naming
from fedsim.settings.samplers.base import SAMPLER_NEEDS, Sampler
from fedsim.settings.samplers.registry import SAMPLERS

FLAG = "--sampler"
_ALLOWED = "a name with its settings, as in 'weighted(samples)', or FILE.py:NAME"
_NAMING = Naming(FLAG, "sampler", _ALLOWED)


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
    if ":" not in sampler:
        listed: Sampler = _NAMING.listed(sampler, SAMPLERS)
        return listed
    loaded: Sampler = _NAMING.load_own(sampler, Sampler, "fedsim.settings.samplers.Sampler")
    if not isinstance(loaded.needs, tuple) or not {*loaded.needs} <= {*SAMPLER_NEEDS}:
        allowed = ", ".join(SAMPLER_NEEDS)
        raise UsageError(
            f"{FLAG} is {sampler!r}: needs is {loaded.needs!r}; give a tuple of some of {allowed}"
        )
    _NAMING.check_hashable(loaded, sampler)
    return loaded


def sampler_text(sampler: Sampler) -> str:
    """The text of one of fedsim's samplers: ``sampler_of`` of it gives an equal one.

    Raises ``UsageError`` where its class is in no row of ``SAMPLERS``.
    """
    allowed = "a sampler of your own as FILE.py:NAME, so that other processes find it"
    return _NAMING.text_of(sampler, SAMPLERS, allowed)
