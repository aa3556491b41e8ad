"""How many calls the host makes for a message on a GPU, whatever the size of its tensors."""

from typing import Any

import pytest

from tests.support.gpu import needs_triton

pytestmark = needs_triton


SCRIPT = "gpu_counts"


SHAPES = {f"w{i}": (2, 3) for i in range(54)} | {f"b{i}": (5,) for i in range(107)}
"""As many tensors of one dimension and of more as ResNet-50 has: 161."""


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("sbc(0.01)", 66),
        ("ef(topk(0.01) | cnat | golomb)", 66),
        ("raw", 7),
        ("cnat", 7),
        ("qsgd(7, 64)", 7),
    ],
)
def test_a_message_is_one_graph_and_one_wait(text: str, most: int, bench: Any) -> None:
    """A residual takes a copy, a cut, and a view for each of the 54 tensors."""
    found = bench.to_bytes(text, SHAPES)
    assert (found.calls, found.launches.total(), found.graphs, found.waits) == (most, 0, 1, 1)


def test_a_selection_starts_few_kernels(bench: Any) -> None:
    found = bench.selecting(10**8, 0.01)
    assert (found.kernels, found.calls, found.waits) == (10, 20, 0)


@pytest.mark.parametrize(
    ("text", "each"), [("sbc(0.01)", 56), ("raw", 0), ("cnat", 0), ("qsgd(7, 64)", 0)]
)
def test_messages_of_several_clients_are_one_graph(text: str, each: int, bench: Any) -> None:
    """A residual of its own takes a copy, a cut, and a view for each of the 54 tensors."""
    one, many = (bench.to_bytes(text, SHAPES, clients) for clients in (1, 4))
    assert (many.graphs, many.waits, many.copies) == (one.graphs, one.waits, one.copies)
    assert many.calls <= one.calls + 4 * each


@pytest.mark.parametrize("clients", [1, 2])
def test_momentum_is_masked_in_few_calls(clients: int, bench: Any) -> None:
    """Two views for each of the 54 tensors, a copy and three cuts, of each; one launch for all."""
    found = bench.masking("sbc(0.01)", SHAPES, clients)
    assert (found.calls, found.launches.total()) == (5 + 112 * clients, 1)


@pytest.mark.parametrize("text", ["sbc(0.01)", "cnat"])
def test_reading_takes_few_calls_of_the_host(text: str, bench: Any) -> None:
    """A view for each tensor of more than one dimension, and 19 for all."""
    found = bench.from_bytes(text, SHAPES)
    assert (found.calls, found.launches.total(), found.waits) == (73, 1, 1)


@pytest.mark.slow
def test_the_page_says_what_is_counted(bench: Any) -> None:
    """ResNet-50's numbers are those of small tensors, as many of one dimension and of more."""
    assert bench.PAGE.read_text(encoding="utf-8") == bench.page(SHAPES), (
        "run: python benchmarks/gpu_counts.py"
    )


@pytest.mark.slow
def test_resnet50_has_as_many_tensors(bench: Any) -> None:
    pytest.importorskip("torchvision")
    dimensions = [
        sorted(len(s) > 1 for s in shapes.values()) for shapes in (bench.resnet50(), SHAPES)
    ]
    assert dimensions[0] == dimensions[1]
