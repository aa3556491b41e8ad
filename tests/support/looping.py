"""Many short cases in one test: pytest and its two processes take 2 ms for each test."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def looped(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """As ``pytest.mark.parametrize`` of one argument, but one test goes through all values.

    No value is left out when one fails. The failures are raised together, each with its value.
    The test may have fixtures that it does not change. All values together take at most a second.
    """
    cases = list(values)
    assert cases, f"no values of {name}"
    assert not any(isinstance(case, type(pytest.param())) for case in cases), "values alone"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test, updated=())
        def all_cases(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                try:
                    test(**fixtures, **{name: case})
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"{name} = {case!r}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)

        signature = inspect.signature(test)
        rest = [parameter for key, parameter in signature.parameters.items() if key != name]
        assert len(rest) < len(signature.parameters), f"{test.__name__} has no argument {name}"
        all_cases.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        marks = {key: value for key, value in vars(test).items() if key == "pytestmark"}
        vars(all_cases).update(marks)
        return all_cases

    return decorated
