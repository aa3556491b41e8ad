"""What methods are called, and which cells belong on a method's plane."""

from fedsim.results.labels import methods_of, of_method, several
from tests.support.sweepmaker import make_cell, runs_of


def told(*pairs: tuple[str, float], **more: str) -> list[str]:
    cells = [make_cell(1, p, 0.9, method=method, **more) for method, p in pairs]
    return runs_of(cells)["label"].tolist()


def test_published_methods_go_by_their_names() -> None:
    assert told(
        ("ef(per_tensor(one_sided(0.01) | mean | golomb))", 0.01),
        ("ef(per_tensor(topk(1e-05) | float32 | golomb))", 1e-5),
        ("ef(per_tensor(l1_sign))", 1),
        ("raw", 1),
    ) == ["sbc", "gradient_dropping", "ef_sign", "dense"]


def test_other_methods_are_their_text_as_typed() -> None:
    assert told(("topk(0.1) | cnat(8, 0)", 0.1), ("cnat(8, 0)", 1)) == [
        "topk(0.1) | cnat(8, 0)", "cnat(8, 0)",
    ]  # fmt: skip
    assert told(("ef(per_tensor(cnat))", 1)) == ["ef(per_tensor(cnat))"]
    one, typed = "per_tensor(topk(1) | cnat | golomb)", "topk({p}) | cnat"
    assert told(("per_tensor(topk(0.1) | cnat)", 0.1), (one, 1), typed=typed) == [typed, typed]


def test_the_dense_line_is_no_method_of_its_own() -> None:
    runs = runs_of([make_cell(1, 1, 0.9), make_cell(10, 0.1, 0.8)])
    assert methods_of(runs) == ["sbc({p})"] and not several(runs)
    assert methods_of(runs[:1]) == ["dense"]
    assert several(runs_of([make_cell(10, 0.1, 0.8), make_cell(10, 1, 0.8, method="cnat")]))


def test_a_method_takes_the_dense_cells_of_its_delays() -> None:
    runs = runs_of([
        make_cell(1, 1, 0.9), make_cell(10, 1, 0.8), make_cell(50, 1, 0.7),
        make_cell(10, 0.1, 0.6), make_cell(10, 1, 0.5, method="cnat"),
        make_cell(50, 0.1, 0.4, method="topk(0.1) | cnat", typed="topk({p}) | cnat"),
        make_cell(50, 1, 0.3, method="per_tensor(topk(1) | cnat)", typed="topk({p}) | cnat"),
    ])  # fmt: skip
    assert of_method(runs, "sbc({p})")["metric"].tolist() == [0.9, 0.8, 0.6]
    assert of_method(runs, "cnat")["metric"].tolist() == [0.9, 0.5]
    assert of_method(runs, "topk({p}) | cnat")["metric"].tolist() == [0.9, 0.4, 0.3]
    assert of_method(runs, "dense")["metric"].tolist() == [0.9]
    assert of_method(runs, "raw")["metric"].tolist() == [0.9, 0.8, 0.7]
