"""Hypothesis' examples, drawn once per process and asked of every method.

Settings that draw the same examples on every run (the profile ``steady``) draw the same ones for
every parameter of a test, and drawing takes longer than most methods do: ``asked_of`` keeps them.
Where every run draws others (the profile ``search``), it is ``given``, and shrinks what fails.
"""

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, seed, settings
from hypothesis import strategies as st


def asked_of(strategy: st.SearchStrategy[Any], *always: Any) -> Callable[[Any], Any]:
    """As ``given(strategy)`` below ``example(one)`` of ``always``: fills the last argument."""
    if not settings.default.derandomize:
        return lambda test: functools.reduce(
            lambda t, x: example(x)(t), always, given(strategy)(test)
        )

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        drawn = functools.cache(lambda: [*always, *_drawn(strategy, test.__name__)])

        @functools.wraps(test)
        def asked(*given: Any, **named: Any) -> None:
            for number, kept in enumerate(drawn()):
                try:
                    test(*given, **named, **{last: copy.deepcopy(kept)})
                except BaseException as error:
                    error.add_note(f"example {number}: {kept!r}")
                    raise

        *first, last = inspect.signature(test).parameters
        signature = inspect.signature(test)
        kept_ones = [signature.parameters[name] for name in first]
        vars(asked)["__signature__"] = signature.replace(parameters=kept_ones)  # pytest reads it
        return asked

    return decorated


def _drawn(strategy: st.SearchStrategy[Any], name: str) -> list[Any]:
    found: list[Any] = []

    @seed(name)
    @given(strategy)
    def keep(one: Any) -> None:
        found.append(one)

    keep()
    return found
