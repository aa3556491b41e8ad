"""Files that come by user: LEAF's JSON, and Stack Overflow's HDF5; small ones, made here."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedsim import Clients, RunConfig
from fedsim.federation import ClientData
from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks import leaf_femnist, leaf_shakespeare, stack_overflow
from fedsim.tasks.datacache import load_data
from fedsim.tasks.leaf import word_accuracy, word_hits, word_loss
from fedsim.tasks.models.leaf import NextCharacter, NextWord


def written(file: Path, users: dict[str, tuple[list, list]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": x, "y": y} for name, (x, y) in users.items()}
    counts = [len(y) for _, y in users.values()]
    file.write_text(json.dumps({"users": [*users], "num_samples": counts, "user_data": data}))


def femnist(folder: Path) -> Path:
    """Three writers in two files, of 2, 3 and 1 images; pixel i of sample k of a writer is k."""
    for role in ("train", "test"):
        for file, users in (("b", {"f03": [9, 8]}), ("a", {"f01": [1, 61, 0], "f02": [5]})):
            images = {u: ([[k / 10] * 784 for k in range(len(y))], y) for u, y in users.items()}
            written(folder / role / f"all_data_{file}.json", images)
    return folder


def tiny() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 62))


def test_writers_hold_their_own_images(tmp_path):
    task = leaf_femnist(femnist(tmp_path / "data"), tiny, clients=3)
    held = ClientData.of(RunConfig(task=task))
    assert held.data.train_x.shape == (6, 1, 28, 28) and held.data.test_count == 6
    assert held.data.train_x[:, 0, 0, 0].tolist() == pytest.approx([0, 0.1, 0.2, 0, 0, 0.1])
    assert held.data.train_y.tolist() == [1, 61, 0, 5, 9, 8]
    assert sorted(part.tolist() for part in held.shards) == [[0, 1, 2], [3], [4, 5]]
    fixed = ClientData.of(RunConfig(task=task, clients=Clients(partition="fixed")))
    assert [part.tolist() for part in fixed.shards] == [[0, 1, 2], [3], [4, 5]]
    two = ClientData.of(RunConfig(task=task, clients=Clients(2)))
    assert sorted(int(x) for part in two.shards for x in part) == [*range(6)]


def test_a_role_s_text_is_leaf_s_numbers(tmp_path):
    text = "\n !" + "a" * 76 + "~"
    for role in ("train", "test"):
        written(tmp_path / role / "all.json", {"HAMLET": ([text], ["}"]), "OPHELIA": ([], [])})
    data = load_data(leaf_shakespeare(tmp_path, clients=1), None, False).data
    assert data.train_x.shape == (1, 80)
    assert data.train_x[0, [0, 1, 2, 3, 79]].tolist() == [0, 1, 2, 53, 79]
    assert data.train_y.tolist() == [79]
    assert len(data.shards or ()) == 1  # a role without samples is no user


@pytest.mark.parametrize("model", [NextCharacter(), NextWord(9)])
def test_forget_gates_start_open_and_embeddings_small(model):
    """As in the code of LEAF (BasicLSTMCell) and of Reddi et al. (Keras)."""
    for layer in model.layers:
        gates = layer.bias.detach().view(4, -1)
        assert gates.mean(1).tolist() == [0, 1, 0, 0]
    bound = 0.05 if isinstance(model, NextWord) else (6 / 88) ** 0.5
    assert 0.9 * bound < model.embedding.weight.abs().max() <= bound
    assert not model.output.bias.any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("users"), "is no file of LEAF's; it has users, num_samples, user_data"),
        (lambda d: d["num_samples"].pop(), "has 2 users and 1 num_samples"),
        (lambda d: d["user_data"].pop("f02"), "no x and y of user 'f02'"),
        (lambda d: d["user_data"]["f01"]["y"].pop(), "'f01' has 3 x, 2 y and num_samples 3"),
        (lambda d: d["user_data"]["f01"]["x"][1].pop(), "'f01': an image has 783 numbers"),
        (lambda d: d["user_data"]["f01"].update(y=[0, 62, 1]), "'f01': a class is 62"),
        (lambda d: d["users"].__setitem__(0, "f03"), "'f03'"),
    ],
)
def test_a_file_that_is_not_leaf_s_is_refused(tmp_path, change, words):
    file = femnist(tmp_path / "data") / "train" / "all_data_a.json"
    held = json.loads(file.read_text())
    change(held)
    file.write_text(json.dumps(held))
    with pytest.raises(DataError, match=f"task leaf_femnist: .*all_data_a.json.*{words}"):
        load_data(leaf_femnist(tmp_path / "data", tiny), None, False)


def test_folders_that_lack_files_and_texts_of_another_length_are_refused(tmp_path):
    with pytest.raises(DataError, match="is not in"):
        load_data(leaf_femnist(tmp_path / "none"), None, False)
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match=r"train has no file \*\.json"):
        load_data(leaf_femnist(tmp_path), None, False)
    written(tmp_path / "train" / "a.json", {"HAMLET": (["to be"], ["e"])})
    with pytest.raises(DataError, match="user 'HAMLET': a text has 5 characters; it has 80"):
        load_data(leaf_shakespeare(tmp_path), None, False)


SENTENCES = {"12": ["a b a", "c"], "7": ["a " * 30], "99": ["b d"]}


def sentences(file: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py (pip install 'fedsim-lab[hdf5]')")
    with h5py.File(file, "w") as held:
        for user, texts in SENTENCES.items():
            held[f"examples/{user}/tokens"] = [text.encode() for text in texts]
    return file


def test_sentences_are_words_by_user(tmp_path):
    """By frequency a (32), b (2), c, d (1): with three words a, b, c are 4, 5, 6."""
    file = sentences(tmp_path / "train.h5")
    task = stack_overflow(file, file, vocabulary=3, clients=3, test_users=1)
    data = load_data(task, None, False).data
    assert data.train_x[:2, :6].tolist() == [[2, 4, 5, 4, 3, 0], [2, 6, 3, 0, 0, 0]]
    assert data.train_y[:2, :5].tolist() == [[4, 5, 4, 3, 0], [6, 3, 0, 0, 0]]
    assert data.train_x[2].tolist() == [2] + [4] * 19 and data.train_y[2].tolist() == [4] * 20
    assert data.train_x[3, :4].tolist() == [2, 5, 1, 3]
    assert [part.tolist() for part in data.shards or ()] == [[0, 1], [2], [3]]
    assert data.test_count == 2  # of the first user alone
    (tmp_path / "words").write_text("b 9\nd 8\na 7\n")
    listed = stack_overflow(file, file, vocabulary=2, words=tmp_path / "words", users=1)
    assert load_data(listed, None, False).data.train_x[0, :5].tolist() == [2, 1, 4, 1, 3]


def test_a_model_of_words_is_scored_without_what_fills_up():
    targets = torch.tensor([[5, 4, 1, 3, 0, 0]])
    logits = nn.functional.one_hot(torch.tensor([[5, 5, 1, 3, 9, 9]]), 10).float()
    sums = {k: float(x) for k, x in word_hits(logits, targets).items()}
    assert sums == {"hits": 1, "words": 2} and word_accuracy(sums) == {"accuracy": 0.5}
    right, wrong = (torch.logsumexp(logits[0, 0], 0) - x for x in (1, 0))
    assert word_loss(logits, targets).item() == pytest.approx(float(3 * right + wrong) / 4)


def test_files_of_sentences_that_cannot_be_are_refused(tmp_path, monkeypatch):
    for setting, value in (("users", 0), ("vocabulary", 2.5)):
        with pytest.raises(UsageError, match=f"{setting} is {value}; give a whole number from 1"):
            stack_overflow("a.h5", "b.h5", **{setting: value})
    (tmp_path / "a.h5").write_bytes(np.zeros(9).tobytes())
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "h5py", None)
        with pytest.raises(DataError, match=r"h5py cannot be imported.*\n.*fedsim-lab\[hdf5\]"):
            load_data(stack_overflow(*[tmp_path / "a.h5"] * 2), None, False)
    pytest.importorskip("h5py", reason="HDF5 needs h5py (pip install 'fedsim-lab[hdf5]')")
    with pytest.raises(DataError, match="has no examples/USER/tokens"):
        load_data(stack_overflow(*[tmp_path / "a.h5"] * 2), None, False)
