"""`char_transformer`: the decoder, its adapters, what travels, the base that comes along."""

import json
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

from fedsim import DataError, RunConfig, UsageError, run
from fedsim.tasks import get_task, transformer
from fedsim.tasks.chars import TEST_CHARACTERS
from fedsim.tasks.models.text import token_loss
from fedsim.tasks.models.transformer import Adapted, Decoder, adapt
from tests.support.markdown import ROOT
from tests.support.realdata import folder_with
from tests.support.runs import clients

MADE = runpy.run_path(str(ROOT / "docs" / "make_transformer.py"))
train, pack_weights = MADE["train"], MADE["pack_weights"]
TEXT = "Act I.\n\nROMEO.\nBut soft!\n\nJULIET.\nAy me!\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a text whose second half is 2,000 characters longer than what is held out."""
    path = tmp_path / "shakespeare" / "shakespeare_complete.txt"
    path.parent.mkdir()
    whole = 2 * (TEST_CHARACTERS + 2000)
    path.write_text((TEXT * (whole // len(TEXT) + 1))[:whole])
    return tmp_path


def trained(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


# ---- the model


def test_no_position_sees_what_follows() -> None:
    torch.manual_seed(0)
    model = Decoder(11)
    x = torch.randint(11, (2, 6))
    other = x.clone()
    other[:, 4] = (other[:, 4] + 1) % 11
    before, after = model(x), model(other)
    assert before.shape == (2, 6, 11)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


def test_a_position_sees_all_before_it() -> None:
    torch.manual_seed(0)
    model = Decoder(11)
    x = torch.randint(11, (1, 6))
    other = x.clone()
    other[0, 0] = (other[0, 0] + 1) % 11
    assert (model(x) != model(other)).any(dim=2).all()


def test_an_adapter_by_hand() -> None:
    layer = nn.Linear(2, 3)
    adapted = Adapted(layer, rank=1, scale=2.0)
    x = torch.tensor([[1.0, -2.0]])
    assert torch.equal(adapted(x), layer(x))  # as it was, until it is trained
    with torch.no_grad():
        adapted.a.copy_(torch.tensor([[3.0, 1.0]]))
        adapted.b.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
    torch.testing.assert_close(adapted(x), layer(x) + torch.tensor([[2.0, 0.0, -2.0]]))


@pytest.mark.parametrize(("train_a", "names"), [(True, {"a", "b"}), (False, {"b"})])
def test_adapters_are_all_that_is_trained(train_a: bool, names: set[str]) -> None:
    """FedIT averages both matrices, FFA-LoRA one: 12 layers."""
    model = adapt(Decoder(11), 4, 2.0, train_a)
    moving = [n for n, p in model.named_parameters() if p.requires_grad]
    assert {n.rpartition(".")[2] for n in moving} == names and len(moving) == 12 * len(names)
    token_loss(
        model(torch.zeros(1, 3, dtype=torch.int64)), torch.ones(1, 3, dtype=torch.int64)
    ).backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())


# ---- the tasks


def test_all_three_start_at_the_base() -> None:
    x = torch.arange(20)[None]
    torch.manual_seed(0)
    names = ("char_transformer", "char_transformer_fedit", "char_transformer_ffa")
    models = [get_task(name).model(None) for name in names]
    first, *others = [model(x) for model in models]
    assert all(torch.equal(first, other) for other in others)
    assert [trained(model) for model in models] == [116_096, 9_216, 4_608]


@pytest.mark.parametrize(
    ("name", "entries"), [("char_transformer_fedit", 9_216), ("char_transformer_ffa", 4_608)]
)
def test_only_adapters_travel(name: str, entries: int, folder: Path) -> None:
    config = RunConfig.of(
        task=name,
        method="raw",
        downlink="raw",
        temporal=1,
        iterations=2,
        clients=2,
        data=str(folder),
        test_samples=8,
    )
    summary = run(config, folder / "out", progress=False).summary
    assert (summary["parameters"], summary["trained_parameters"]) == (125_312, entries)
    messages = clients(folder / "out")
    header = set(messages["up_wire_bits"] - 32 * entries)
    assert len(header) == 1 and 0 < min(header) < 1000
    assert (messages["down_wire_bits"] <= 32 * entries + max(header)).all()
    assert summary["ratio_content"] == 1  # the reference is dense adapters, not the dense model


def test_clients_hold_what_the_base_has_not_seen(folder: Path) -> None:
    first, second, _ = transformer.halves(folder)
    data = transformer.load_halves(folder)
    assert len(first) == len(second) == TEST_CHARACTERS + 2000
    assert data.train_x.shape[1:] == data.test_x.shape[1:] == (64,)
    assert data.train_x[:].flatten().tolist() == transformer.encode_text(second[: 31 * 64]).tolist()
    end = transformer.encode_text(second[-TEST_CHARACTERS:])
    assert data.test_y.flatten().tolist() == end[: 64 * len(data.test_y)].tolist()
    assert data.labels is not None and set(data.labels.tolist()) == {1, 2, 3}


def test_a_text_that_is_too_short(folder: Path) -> None:
    path = folder / "shakespeare" / "shakespeare_complete.txt"
    path.write_text(path.read_text()[:200_000])
    with pytest.raises(DataError, match="has 200,000 characters.\nIts second half takes more than"):
        transformer.halves(folder)


@pytest.mark.parametrize("rank", [0, 65, 2.5])
def test_a_rank_that_is_none(rank: int) -> None:
    with pytest.raises(UsageError, match=f"task mine: rank is {rank}; it is a whole number from 1"):
        transformer.lora("mine", rank)


def test_another_rank_and_rate() -> None:
    task = transformer.lora("mine", 2, train_a=False, lr=0.5)
    model = task.model(None)
    assert trained(model) == 2_304
    optimizer = task.optimizer(p for p in model.parameters() if p.requires_grad)
    assert optimizer.param_groups[0]["lr"] == 0.5


# ---- the base


def test_weights_come_back_from_json_as_float16() -> None:
    weights = {"w": torch.tensor([[1.0, -0.1], [2.5, 3e-5]])}
    packed = json.loads(pack_weights(weights))
    assert packed["w"]["shape"] == [2, 2]
    again = json.loads(pack_weights(transformer.base()))
    assert again == json.loads(
        Path(transformer.__file__).with_name("char_transformer_base.json").read_text()
    )


def test_pretraining_learns_and_repeats() -> None:
    numbers = transformer.encode_text(TEXT * 100)
    first, second = (train(numbers, 4) for _ in range(2))
    x, y = numbers[None, :64], numbers[None, 1:65]
    assert token_loss(first(x), y) < token_loss(train(numbers, 0)(x), y) - 0.01
    same = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in same)


@pytest.mark.slow
def test_the_base_knows_the_other_half() -> None:
    task = get_task("char_transformer")
    data = task.load(folder_with("shakespeare"), False)
    model = task.model(None).eval()
    with torch.no_grad():
        total = sum(
            float(task.metric(model(data.test_x[part]), data.test_y[part]))
            for part in torch.arange(len(data.test_x)).split(200)
        )
    assert task.reported(total / len(data.test_x)) == pytest.approx(4.98, abs=0.01)
