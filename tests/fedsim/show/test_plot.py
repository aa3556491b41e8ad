"""The matrix and how figures are saved: the numbers in them, not their looks."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fedsim.ground.errors import UsageError
from fedsim.show.planes import plane
from fedsim.show.plot import matrix, save
from fedsim.show.style import looks
from tests.support.sweepmaker import make_cell as run
from tests.support.sweepmaker import runs_of


def texts(axes: Axes) -> dict[tuple[int, int], list[str]]:
    """What is written in the cells of a matrix, by (row, column)."""
    written: dict[tuple[int, int], list[str]] = {}
    for text in axes.texts:
        x, y = text.xy if hasattr(text, "xy") else text.get_position()
        written.setdefault((round(y), round(x)), []).append(text.get_text())
    return written


def title(axes: Axes) -> str:
    return axes.figure.get_suptitle()


def test_the_matrix_has_n_down_and_p_across() -> None:
    runs = runs_of([run(n, p, n / 1000 + p / 10) for n in (100, 1, 10) for p in (0.01, 1, 0.1)])
    figure = matrix(runs)
    axes = figure
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "10", "100"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "0.1", "0.01"]
    assert "delay n" in axes.get_ylabel() and axes.get_xlabel() == "fraction of entries sent p"
    written = texts(figure)
    assert written[0, 0] == ["0.1010", "p/n = 1"]
    assert written[2, 1] == ["0.1100", "p/n = 0.001"]
    assert written[1, 2] == ["0.0110", "p/n = 0.001"]
    assert "digits" in title(figure) and "sbc({p})" in title(figure) and "accuracy" in title(figure)


def test_equal_total_sparsity_is_joined() -> None:
    runs = runs_of([run(n, p, 0.5) for n in (1, 10, 100) for p in (1, 0.1, 0.01)])
    grid = plane(runs)
    # Two cells at a corner are no line to follow.
    assert grid.diagonals() == [[(0, 2), (1, 1), (2, 0)]]
    figure = matrix(runs)
    # Two joints, dark lines with white ones on them; NaN parts joint from joint.
    dark, white = figure.lines
    assert dark.get_color() == "black" and white.get_color() == "white"
    np.testing.assert_allclose(dark.get_xdata(), [1.68, 1.32, np.nan, 0.68, 0.32, np.nan])
    np.testing.assert_allclose(white.get_ydata(), [0.32, 0.68, np.nan, 1.32, 1.68, np.nan])
    assert "Short lines join cells of equal total sparsity" in figure.figure.get_supxlabel()
    assert 0.3 / 3 != 0.1  # the same but for rounding
    thirds = runs_of([run(n, p, 0.5) for n in (1, 3, 9) for p in (0.9, 0.3, 0.1)])
    assert plane(thirds).diagonals() == [[(0, 2), (1, 1), (2, 0)]]
    uneven = matrix(runs_of([run(n, p, 0.5) for n in (1, 3) for p in (1, 0.1)]))
    assert not uneven.lines and not uneven.figure.get_supxlabel()


def test_a_missing_cell_is_hatched() -> None:
    runs = runs_of([run(1, 1, 0.8), run(1, 0.1, 0.7), run(10, 1, 0.6)])
    axes = matrix(runs)
    assert [patch.get_hatch() for patch in axes.patches] == ["///"]
    (patch,) = axes.patches
    assert isinstance(patch, Rectangle) and patch.get_xy() == (0.5, 0.5)
    assert texts(axes)[1, 1] == ["no run"]


def test_the_dense_reference_is_a_cell_only_where_it_leaves_no_holes() -> None:
    single = matrix(runs_of([run(1, 1, 0.98), run(10, 0.01, 0.97)]))
    assert texts(single) == {(0, 0): ["0.9700", "p/n = 0.001"]}
    assert "dense reference (n = 1, p = 1): 0.9800" in title(single)
    row = matrix(runs_of([run(1, 1, 0.98), run(1, 0.1, 0.97), run(1, 0.01, 0.9)]))
    assert sorted(texts(row)) == [(0, 0), (0, 1), (0, 2)] and "dense" not in title(row)
    others = [run(n, p, 0.9) for n in (1, 2) for p in (0.1, 0.2)]
    square = plane(runs_of([run(1, 1, 0.98), *others]))
    assert square.values.shape == (2, 2) and square.dense == 0.98
    alone = plane(runs_of([run(1, 1, 0.98)]))
    assert alone.values.tolist() == [[0.98]] and alone.dense is None


def test_ratios_have_a_logarithmic_scale_and_perplexity_a_turned_one() -> None:
    runs = runs_of([run(1, 1, 0.9, bits=1e-1), run(1, 0.1, 0.8, bits=1e-3)])
    more = runs_of([run(1, p, 0.9, bits=b) for p, b in ((1, 1e-1), (0.1, 1e-2), (0.01, 1e-3))])
    image = matrix(more, "ratio_content").collections[0]
    assert image.get_array()[0].tolist() == pytest.approx([0, 0.5, 1])
    assert image.cmap.name == "cividis"
    assert texts(matrix(runs, "ratio_content"))[0, 1][0] == "×1000"
    runs["higher_is_better"] = False
    runs["metric_name"] = "perplexity"
    turned = matrix(runs)
    assert turned.collections[0].cmap.name == "cividis_r"
    assert texts(turned)[0, 0][0] == "0.9" and turned.figure.axes[1].get_ylabel() == "perplexity"


def test_all_failed_still_draws() -> None:
    runs = runs_of([run(10, p, np.nan, status="failed") for p in (0.1, 0.01)])
    for value in ("metric", "ratio_content"):
        figure = matrix(runs.assign(ratio_content=np.nan), value)
        assert list(texts(figure).values()) == [["failed"], ["failed"]]
        assert len(figure.figure.axes) == 1  # no colour bar


def test_what_does_not_lie_on_one_plane_is_refused() -> None:
    runs = runs_of([run(1, 0.1, 0.9), run(1, 0.1, 0.8)])
    with pytest.raises(UsageError, match="n = 1, p = 0.1, seed 0"):
        matrix(runs)
    with pytest.raises(UsageError, match="2 tasks"):
        matrix(runs_of([run(1, 0.1, 0.9), run(1, 0.2, 0.8, task="other")]))
    with pytest.raises(UsageError, match=r"several methods \(other, sbc\({p}\)\)"):
        plane(runs_of([run(1, 0.1, 0.9), run(1, 0.1, 0.8, method="other")]))
    with pytest.raises(UsageError, match="'speed'"):
        matrix(runs, "speed")
    with pytest.raises(UsageError, match="'status'"):
        matrix(runs, "status")
    with pytest.raises(UsageError, match="no runs"):
        matrix(runs[:0])


def test_the_dense_cell_is_black_and_p_decides_the_colour() -> None:
    styles = looks([(1, 1.0), (10, 1.0), (10, 0.1), (100, 0.1)])
    black, pale, some, same = (look.colour for look in styles.values())
    assert black == "#000000" != pale
    assert some == same != pale
    assert [look.place for look in styles.values()] == [0, 1, 1, 2]


def test_a_dollar_in_a_method_is_no_formula(tmp_path: Path) -> None:
    runs = runs_of([run(10, 0.1, 0.5, method=r"a$\frac{b$")])
    save(matrix(runs), tmp_path / "x.png")
    assert r"a\$\frac{b\$" in title(matrix(runs))


def test_a_single_cell_is_drawn_as_one_among_others() -> None:
    alone = matrix(runs_of([run(1, 1, 0.98), run(10, 0.01, 0.97)]))
    assert alone.get_box_aspect() == 0.8 / 1.25
    assert matrix(runs_of([run(10, p, 0.9) for p in (0.1, 0.2)])).get_box_aspect() is None
