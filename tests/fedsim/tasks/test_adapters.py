"""Adapters of `peft` on a frozen base: what travels, and what a run is named by."""

import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from fedsim import Clients, RunConfig, run
from fedsim.federation import ClientData, Trainer
from fedsim.federation.trainer import start_of
from fedsim.ground.errors import UsageError
from fedsim.tasks import Task, from_peft, from_torch, get_task
from fedsim.tasks.datacache import load_data

WHY = "adapters need peft and transformers (pip install 'fedsim-lab[peft]')"
WORDS = 20


class Sentences(Dataset):
    """Forty-eight rows as a tokenizer makes them; good where the first word is below 10."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, i: int):
        ids = torch.randint(1, WORDS, (6,), generator=torch.Generator().manual_seed(i))
        good = int(ids[0] < 10)
        return {"input_ids": ids, "attention_mask": torch.ones(6).long(), "labels": good}


def bert(hidden: int = 8, fill: float | None = None) -> nn.Module:
    """BERT with one layer and random weights."""
    from transformers import BertConfig, BertForSequenceClassification

    made = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=hidden,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=8,
            num_labels=2,
        )
    )
    if fill is not None:
        nn.init.constant_(made.bert.embeddings.word_embeddings.weight, fill)
    return made


def films() -> Task:
    return from_torch(Sentences, 0.25, partial(bert), name="films", batch_size=4, iterations=20)


def lora(base=bert, r: int = 2, **fields) -> Task:
    peft = pytest.importorskip("peft", reason=WHY)
    pytest.importorskip("transformers", reason=WHY)
    config = peft.LoraConfig(
        r=r, target_modules=["query", "value"], modules_to_save=["classifier"], lora_dropout=0.1
    )
    return from_peft(base, config, films(), name="films-lora", **fields)


def test_adapters_and_the_new_head_travel_and_the_base_does_not():
    """Two adapters of 8 x 2 + 2 x 8, and a head of 8 x 2 + 2."""
    config = RunConfig(task=lora(), clients=Clients(2))
    trainer = Trainer(config, ClientData.of(config))
    assert sum(p.numel() for p in trainer.parameters.values()) == 2 * 32 + 18
    assert all("lora_" in name or "modules_to_save" in name for name in trainer.parameters)
    before = {n: p.clone() for n, p in trainer.frozen.items()}
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    update = trainer.train(0, weights, {}, 0, 2).update
    assert any(x.abs().max() > 0 for n, x in update.items() if "lora_B" in n)
    assert all(torch.equal(before[n], p) for n, p in trainer.frozen.items())


def test_every_process_has_the_same_base():
    config = RunConfig(task=lora(), clients=Clients(2))
    one, other = (Trainer(config, ClientData.of(config)).frozen for _ in range(2))
    assert one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def test_a_run_is_named_by_the_base_s_weights_and_by_the_adapters_settings():
    def digest(task: Task) -> str:
        return RunConfig(task=task, clients=Clients(2)).digest

    one = digest(lora(partial(bert, fill=0.5)))
    assert digest(lora(partial(bert, fill=0.5))) == one
    assert digest(lora(partial(bert, fill=0.25))) != one
    assert digest(lora(partial(bert, fill=0.5), r=3)) != one
    first, second = (
        start_of(RunConfig(task=lora(partial(bert, fill=x)), clients=Clients(2)))
        for x in (0.5, 0.25)
    )
    assert first != second


@pytest.mark.slow
def test_a_run_sends_adapters_alone(tmp_path):
    result = run(RunConfig(task=lora(), method="raw", clients=Clients(2)), tmp_path / "run")
    bits = result.rounds["up_content_bits"].iloc[0]
    assert bits == 2 * 82 * 32 and len(result.rounds) == 2  # of two clients


def test_any_task_s_data_may_be_trained_on_and_its_settings_replaced():
    peft = pytest.importorskip("peft", reason=WHY)
    digits = get_task("digits")
    config = peft.LoraConfig(r=2, target_modules=["1"])

    def base() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    task = from_peft(base, config, digits, name="digits-lora", batch_size=7)
    assert task.batch_size == 7 and task.loss is digits.loss
    data = load_data(task, None, False)
    assert ", base " in data.content and data.data.base
    assert sum(p.numel() for p in task.model(None).parameters() if p.requires_grad) == 2 * 74


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": {"r": 2}}, "config is of type dict; give a configuration of peft"),
        ({"model": nn.Linear(1, 1)}, "model is of type Linear; give a function"),
        ({"task": "digits"}, "task is of type str; give a fedsim.Task"),
        ({"clents": 3}, "clents"),
    ],
)
def test_what_makes_no_task_is_refused(change, words):
    peft = pytest.importorskip("peft", reason=WHY)
    usual = {"model": bert, "config": peft.LoraConfig(), "task": get_task("digits"), "name": "mine"}
    with pytest.raises(UsageError, match=f"task mine: .*{words}"):
        from_peft(**(usual | change))


def test_a_config_that_does_not_fit_the_base_is_refused():
    peft = pytest.importorskip("peft", reason=WHY)
    task = from_peft(
        lambda: nn.Linear(2, 2),
        peft.LoraConfig(target_modules=["query"]),
        get_task("digits"),
        name="mine",
    )
    with pytest.raises(UsageError, match="task mine: config is LoraConfig.*query"):
        task.model(None)


def test_a_missing_peft_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"peft cannot be imported.*\n.*fedsim-lab\[peft\]"):
        from_peft(bert, None, get_task("digits"), name="mine")
