"""NeuMF on MovieLens: the published size, one left out a user, drawn negatives, hits."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedsim import DataError
from fedsim.tasks import get_task
from fedsim.tasks.data.recommend import UserItems, interactions
from fedsim.tasks.ncf import NeuMF, hits

# User 7 rates items 10, 30, 20 in this order of time; user 9 items 20, 40 at the same time.
RATINGS = np.array([[9, 20, 5], [7, 20, 3], [7, 10, 1], [7, 30, 2], [9, 40, 5]])


def many(users: int = 4, items: int = 200, each: int = 50) -> np.ndarray:
    """Each user rates 50 of 200 items, and every item has its user."""
    order = np.random.default_rng(0).permutation(items)
    return np.array(
        [(u, order[(40 * u + t) % items], t) for u in range(users + 1) for t in range(each)]
    )


def test_the_latest_of_each_user_is_left_out() -> None:
    others = [[user, 100 * user + item, 0] for user in (2, 3) for item in range(100)]
    data = interactions("ncf", np.concatenate([RATINGS, others]), "made up")
    # users 2, 3, 7, 9 are 0 to 3; items 10, 20, 30, 40 are 0 to 3
    mine = data.train_x[data.labels > 1]
    assert mine.tolist() == [[2, 0], [2, 2], [3, 1]]
    assert data.test_x[2:, 0].tolist() == [[2, 1], [3, 3]]
    assert data.test_y[:, 0].tolist() == [1, 1, 1, 1]
    assert not data.test_y[:, 1:].any()
    assert data.source == "MovieLens made up, 205 ratings, 4 users, 204 items"


def test_a_user_with_one_rating_is_for_training() -> None:
    data = interactions("ncf", np.concatenate([many(), [[77, 5, 0]]]), "made up")
    assert data.train_x[-1].tolist() == [5, 5]
    assert len(data.test_x) == 5


def test_an_item_that_was_rated_twice_is_not_trained_on_where_it_is_held_out() -> None:
    again = [[0, item, time] for item, time in ((7, 900), (8, 901), (7, 902))]
    data = interactions("ncf", np.concatenate([many(), again]), "made up")
    held, mine = data.test_x[0, 0].tolist(), data.train_x[data.labels == 0].tolist()
    assert held == [0, 7] and held not in mine and [0, 8] in mine


def test_nobody_is_judged_on_what_he_rated_or_twice_on_the_same() -> None:
    ratings = many()
    data = interactions("ncf", ratings, "made up")
    assert data.test_x.shape == (5, 100, 2)
    had = {(u, i) for u, i, _ in ratings.tolist()}
    for row in data.test_x.tolist():
        assert tuple(row[0]) in had
        assert not {tuple(pair) for pair in row[1:]} & had
        assert len({item for _, item in row}) == 100
    again = interactions("ncf", ratings, "made up")
    assert torch.equal(data.test_x, again.test_x)


def test_negatives_are_drawn_evenly_from_the_rest() -> None:
    known = UserItems.of(torch.tensor([[0, 1], [0, 2], [1, 0]]), items=5)
    generator = torch.Generator().manual_seed(0)
    drawn = known.sample_unrated(torch.tensor([0, 1]), 30_000, generator, distinct=False)
    counts = [row.bincount(minlength=5) / 30_000 for row in drawn]
    torch.testing.assert_close(counts[0], torch.tensor([1, 0, 0, 1, 1]) / 3, atol=0.02, rtol=0)
    torch.testing.assert_close(counts[1], torch.tensor([0, 1, 1, 1, 1]) / 4, atol=0.02, rtol=0)


def test_a_batch_has_four_negatives_each() -> None:
    data = interactions("ncf", many(), "made up")
    index = torch.tensor([3, 0, 60])

    def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        return data.batch(index, torch.Generator().manual_seed(seed))

    x, y = batch(1)
    assert x.shape == (15, 2)
    assert y.tolist() == [1.0] * 3 + [0.0] * 12
    assert torch.equal(x[:3], data.train_x[index])
    assert torch.equal(x[3:, 0], data.train_x[index][:, 0].repeat_interleave(4))
    trained = {tuple(pair) for pair in data.train_x.tolist()}
    assert not {tuple(pair) for pair in x[3:].tolist()} & trained
    assert torch.equal(batch(1)[0], x)
    assert not torch.equal(batch(2)[0], x)


def test_a_pair_has_one_logit() -> None:
    assert NeuMF(3, 4)(torch.zeros(2, 5, 2, dtype=torch.long)).shape == (2, 5)


def test_hits() -> None:
    scores = torch.arange(100.0).repeat(4, 1)
    scores[0, 0], scores[1, 0] = 89.5, 90.5  # ten above it, nine above it
    scores[2], scores[3] = 1.0, float("nan")  # nothing told apart
    assert [int(hits(row[None], row[None])) for row in scores] == [0, 1, 0, 0]
    assert int(hits(scores, scores)) == 1


def test_too_few_items_are_refused() -> None:
    with pytest.raises(DataError, match="a user rated 3 of 4 items.\nThe task takes 99"):
        interactions("ncf", RATINGS, "made up")


@pytest.mark.parametrize("name", ["ml-20m/ratings.csv", "ml-1m/ratings.dat"])
def test_files_of_the_other_sets(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    by, head = ("::", "") if "1m" in name else (",", "userId,movieId,rating,timestamp\n")
    rows = [by.join(map(str, (u, i, 3.5 if by == "," else 3, t))) for u, i, t in many().tolist()]
    path.write_text(head + "\n".join(rows) + "\n")
    data = get_task("ncf").load(tmp_path, False)
    expected = interactions("ncf", many(), "")
    assert torch.equal(data.train_x, expected.train_x)
    assert data.source.startswith(f"MovieLens {path.parent.name}, sha256 ")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "ml-1m" / "ratings.dat"
    path.parent.mkdir()
    for text in ("", "1::2\n", "1::2::x::y\n"):
        path.write_text(text)
        with pytest.raises(DataError, match="task ncf: .*ratings.dat is not a table of user, item"):
            get_task("ncf").load(tmp_path, False)
