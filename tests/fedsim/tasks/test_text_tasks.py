"""The language models: Table III's settings, windows of text, perplexity, learning on real text."""

import gzip
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedsim import Data, DataError, Evaluation, RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import evenly_spread
from fedsim.federation.evaluation import evaluate
from fedsim.federation.trainer import Trainer
from fedsim.tasks import chars, get_task, words
from fedsim.tasks.models import text
from tests.support.realdata import folder_with

# ---- the model


def test_parameter_counts_of_the_paper_s_alphabet() -> None:
    """It has 98 symbols, our text 84."""
    y = torch.tensor([[97]])
    model = get_task("char_lstm").build(Data(y, y, y, y, ""))
    assert sum(p.numel() for p in model.parameters()) == 680_898


def test_a_layer_is_torchs_lstm() -> None:
    layer, reference = text.Layer(3, 4), nn.LSTM(3, 4)
    with torch.no_grad():
        for p in layer.parameters():
            p.uniform_(-1, 1)
        reference.weight_ih_l0.copy_(layer.weight_ih)
        reference.weight_hh_l0.copy_(layer.weight_hh)
        reference.bias_ih_l0.copy_(layer.bias)
        reference.bias_hh_l0.zero_()
    x = torch.randn(7, 2, 3)
    for mode in (True, False):
        layer.train(mode)
        torch.testing.assert_close(layer(x), reference(x)[0])


def test_no_position_sees_what_follows() -> None:
    torch.manual_seed(0)
    model = text.LanguageModel(11, 8, 0.5, 0.5).eval()
    x = torch.randint(11, (2, 6))
    other = x.clone()
    other[:, 4] = (other[:, 4] + 1) % 11
    before, after = model(x), model(other)
    assert before.shape == (2, 6, 11)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


def test_initial_weights() -> None:
    model = text.LanguageModel(50, 40, 0.5, 0.05)
    for name, p in model.named_parameters():
        if name.endswith(".bias") and name.startswith("layers"):
            assert not p.any()
        else:
            assert 0.04 < p.abs().max() <= 0.05


# ---- settings


@pytest.mark.parametrize(("gradient", "moved"), [(0.1, 0.1 * 35), (10.0, 5.0)])
def test_the_gradient_of_the_sum_is_clipped(gradient: float, moved: float) -> None:
    p = nn.Parameter(torch.zeros(2))
    optimizer = text.sgd([p])
    p.grad = torch.tensor([0.6, -0.8]) * gradient
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.tensor([-0.6, 0.8]) * moved)


# ---- samples


def test_windows_are_the_text() -> None:
    x, y = text.windows(torch.arange(106), 35)
    assert x.shape == y.shape == (3, 35)
    assert torch.equal(x.flatten(), torch.arange(105))
    assert torch.equal(y, x + 1)


def test_perplexity_is_that_of_all_symbols(make_task: Any) -> None:
    """Held-out rows in unequal batches: exp of the mean loss a symbol."""
    torch.manual_seed(1)
    x, y = torch.randint(9, (7, 6)), torch.randint(9, (7, 6))
    task = make_task(
        build=lambda: text.LanguageModel(9, 8, 0.5, 0.5),
        load=lambda folder, download: Data(x, y, x, y, ""),
        loss=text.token_loss,
        metric=text.summed_loss,
        reported=text.perplexity,
        partition="contiguous",
        evaluation_batch=3,
        optimizer=text.sgd,
    )
    config = RunConfig(task=task)
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    score = evaluate(trainer, weights)
    with torch.no_grad():
        loss = float(F.cross_entropy(trainer.model(x).reshape(-1, 9), y.reshape(-1)))
    assert score.loss == pytest.approx(loss, rel=1e-5)
    assert score.metric == pytest.approx(math.exp(loss), rel=1e-5)
    assert text.perplexity(1e6) == math.exp(100)
    assert math.isnan(text.perplexity(math.nan))


def test_fewer_held_out_samples_are_spread(make_task: Any) -> None:
    assert evenly_spread(10, 3).tolist() == [0, 3, 6]
    assert evenly_spread(10, 99).tolist() == list(range(10))
    seen: list[int] = []
    task = make_task(metric=lambda outputs, targets: seen.append(len(targets)) or torch.tensor(0.0))
    config = RunConfig(task=task, evaluation=Evaluation(test_samples=5))
    trainer = Trainer(config, ClientData.of(config))
    evaluate(trainer, {n: p.detach().clone() for n, p in trainer.parameters.items()})
    assert seen == [5]
    assert config.identity() != RunConfig(task=task).identity()


def test_the_alphabet_is_that_of_the_text() -> None:
    numbers, symbols = chars.encode_characters("to be, or")
    assert symbols == 7
    assert sorted(set(numbers.tolist())) == list(range(7))


def test_the_vocabulary_is_the_most_frequent_words() -> None:
    numbers = words.vocabulary(words.tokens("a a b b b c\n<unk> a d\n"), size=4)
    assert numbers == {"a": 0, "b": 1, "<eos>": 2, "<unk>": 3}
    assert words.encode_words(["b", "zebra", "<eos>"], numbers).tolist() == [1, 3, 2]


def test_treebank_files_come_first_and_have_their_10_000(tmp_path: Path) -> None:
    """9,999 kinds of words, <unk> among them, and the end of a line."""
    vocabulary = [f"w{i}" for i in range(9998)] + ["<unk>"]
    (tmp_path / "ptb").mkdir()
    train, test = (tmp_path / "ptb" / f"ptb.{part}.txt" for part in ("train", "test"))
    train.write_text(" " + " ".join(vocabulary) + " \n")
    test.write_bytes(("w1 w2\n" * 200).encode())
    data = get_task("word_lstm").load(tmp_path, False)
    assert data.source.startswith("ptb, 10,000 training words, 10,000 distinct, 0.0% of the test")
    assert data.train_x.shape == (285, 35)
    assert data.test_x.shape == (1, 350)
    assert torch.equal(data.test_x[0, 1:], data.test_y[0, :-1])


def test_files_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    for name in ("char_lstm", "word_lstm", "ncf"):
        with pytest.raises(DataError, match=f"task {name}: no data folder.*\n.*--data DIR"):
            get_task(name).load(None, False)
        with pytest.raises(DataError, match=f"task {name}: its files are not in .*\nIt takes"):
            get_task(name).load(tmp_path, False)
    play = tmp_path / "shakespeare" / "shakespeare_complete.txt.gz"
    play.parent.mkdir()
    for content, reason in (
        (gzip.compress(b"To be")[:-3], "cannot be read"),
        (gzip.compress(b"To be"), "has 5 characters"),
        (gzip.compress(b"\xff\xfe"), "cannot be read .*utf-8"),
    ):
        play.write_bytes(content)
        with pytest.raises(DataError, match=f"task char_lstm: .*{reason}"):
            get_task("char_lstm").load(tmp_path, False)


# ---- real text


@pytest.mark.slow
def test_shakespeare_as_the_paper_splits_it() -> None:
    data = get_task("char_lstm").load(folder_with("shakespeare"), False)
    assert "5,057,321 characters, 84 distinct, the last 105,675 held out" in data.source
    assert data.test_y.numel() == 105_675
    assert len(data.train_x) == (5_057_321 - 105_675 - 1) // 35
    assert int(max(data.train_y.max(), data.test_y.max())) == 83


def test_windows_belong_to_who_speaks() -> None:
    text = "Act I.\n\nROMEO.\nBut soft!\n\nJULIET.\nAy me!\n\nROMEO.\nShe speaks.\n"
    owners = chars.roles(text, len(text) // 5, 5).tolist()  # no name, JULIET, ROMEO: 0, 1, 2
    assert owners == [0, 0, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2]
