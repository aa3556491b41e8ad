"""Methods and their coders."""

import re

import pytest

from compressors import CATALOGUE, text
from fedsim.search.methods import CODERS, OWN_CODER, compressor, select_methods
from fedsim.settings.methods import takes_fraction


def test_published_are_all_that_run_under_any_server() -> None:
    """And DGC, which keeps a momentum. FetchSGD has a server of its own; FedScalar wants a server's
    step of its own.
    """
    published = select_methods("published")
    names = {name for method in published for name in re.findall("[a-z_]+[a-z0-9_]*", method)}
    rows = {row.name for row in CATALOGUE.values() if row.kind == "method"}
    assert rows - {"fetchsgd", "fedscalar"} <= names
    assert "raw" in published and set(published) < set(select_methods("all"))


@pytest.mark.parametrize("method", select_methods("all"))
def test_every_method_has_a_compressor_with_every_coder(method: str) -> None:
    p = 0.05 if takes_fraction(method) else None
    assert all(text(compressor(method, p, coder)) for coder in CODERS)


def test_other_coders_make_no_other_method() -> None:
    assert "one_sided(0.05) | mean" in text(compressor("sbc", 0.05, "ans | ans"))
    kept = text(compressor("deepreduce({p}, 'bloom_p2')", 0.05, "ans | ans"))
    assert "bloom" in kept  # which is lossy: another code would send other entries
    assert compressor("raw", None, "ans | ans") == compressor("raw", None, OWN_CODER)
