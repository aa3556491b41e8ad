"""The contract suite again where a caller set floating point otherwise: nothing depends on that.

Denormals flushed to zero (``torch.set_flush_denormal``), or numpy told to raise on everything.
Only the package runs so: hypothesis makes denormals, which a flushing thread cannot.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import contract, generators
from tests.support.contract import (  # noqa: F401
    test_a_memory_does_not_feed_on_itself,
    test_a_message,
    test_a_run_of_messages,
    test_another_method_or_other_tensors_are_refused,
    test_framing,
    test_layout_of_memory_does_not_matter,
    test_nothing_at_all_is_lost_of_whole_numbers,
    test_text_and_json_rebuild_an_equal_compressor,
)

pytestmark = pytest.mark.slow  # ``test_flush`` and ``test_given`` have a quick look at each mode


@contextmanager
def flushing() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def within(mode: Callable[[], AbstractContextManager[None]], call: Any) -> Any:
    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        with mode():
            return call(*given, **named)

    return run


@pytest.fixture(autouse=True, scope="module", params=["flush", "raise"])
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    flush = request.param == "flush"
    entered = flushing if flush else lambda: np.errstate(all="raise")
    with pytest.MonkeyPatch.context() as patch:
        for module in (contract, generators):
            for name in ("compress", "decompress", "explain", "parse", "from_json"):
                if hasattr(module, name):
                    patch.setattr(module, name, within(entered, getattr(module, name)))
        if flush:  # two sums a round, each of two terms that may be flushed, and its result
            patch.setattr(contract, "LEAST", 6 * 2.0**-126)
        yield
