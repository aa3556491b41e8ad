"""Hypothesis settings of the whole suite: the same examples on every run, and no clock."""

import os

import pytest
from hypothesis import settings

for name in ("contract", "generators", "positions", "symbols"):  # what they assert is told in full
    pytest.register_assert_rewrite(f"tests.support.{name}")

settings.register_profile("steady", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
