"""What is published of tasks: numbers of parameters, optimizers, batches and iterations."""

from typing import Any

import pytest
import torch
from torch import nn

from fedsim import Data, RunConfig
from fedsim.tasks import get_task
from fedsim.tasks.ncf import NeuMF

COUNTS = {
    "digits": 21_386, "mnist_lenet5": 431_080, "mnist_lenet5_caffe": 431_080,
    "fashion_lenet5": 431_080, "char_lstm": 675_284,  # 84 symbols
    "word_lstm": 19_775_200,  # Zaremba's medium has 19.8 million
    "ncf": 31_832_577,  # DeepReduce, Table 1: ml-20m's 138,493 users and 26,744 rated items
    "mnist_mlp4096": 36_818_954, "mnist_mlp4096_ln": 36_843_530,
    "mnist_mlp512": 932_362, "mnist_mlp512_ln": 935_434,
    "mnist_mlp128_ln": 135_562,
    # He et al. 2016, Table 6 (rounded); the first is printed by Gajjala et al. and DeepReduce
    "cifar_resnet8": 75_290, "cifar_resnet20": 269_722, "cifar_resnet32": 464_154,
    "cifar_resnet44": 658_586, "cifar_resnet56": 853_018, "cifar_resnet110": 1_727_962,
    "cifar_resnet18": 11_173_962, "cifar_vgg11": 9_231_114,
    "cifar_vgg16": 14_728_266,  # Gajjala et al. 2020, Table 2
    "cifar_alexnet": 1_756_682,
    "cifar_densenet40": 357_491,  # DeepReduce, Table 1
    "imagenet_resnet50": 25_557_032,  # both
    "char_transformer": 116_096, "char_transformer_fedit": 125_312,
    "char_transformer_ffa": 125_312,
}  # fmt: skip
"""Parameters by task."""


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_parameter_counts(name: str, count: int) -> None:
    y = torch.tensor([[83]])
    data = Data(y, y, y, y, "") if name == "char_lstm" else None
    with torch.device("meta"):  # without numbers: shapes alone
        model = NeuMF(138_493, 26_744) if name == "ncf" else get_task(name).model(data)
    assert sum(p.numel() for p in model.parameters()) == count
    assert f"{count:,}" in get_task(name).title


LENET5 = ("Adam", 128, 2_000, {"lr": 0.001}, ())
LANGUAGE = {"lr": 1.0, "momentum": 0}
SETTINGS: dict[str, tuple[str, int, int, dict[str, Any], Any]] = {
    "mnist_lenet5": LENET5, "mnist_lenet5_caffe": LENET5, "fashion_lenet5": LENET5,
    "char_lstm": ("ClippedSGD", 5, 16_000, LANGUAGE, None),
    "word_lstm": ("ClippedSGD", 5, 60_000, LANGUAGE, None),
    "ncf": ("Adam", 200_000, 750, {"lr": 0.0045, "betas": (0.25, 0.5)}, ()),
    "mnist_mlp4096": ("Adagrad", 40, 7_500, {"lr": 0.005}, ()),
    "cifar_resnet32": (
        "SGD", 128, 60_000, {"lr": 0.01, "momentum": 0.9, "weight_decay": 2e-4},
        ((30_000, 0.1), (50_000, 0.01)),
    ),
    "cifar_resnet8": (
        "SGD", 32, 500, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((250, 0.3), (400, 0.03)),
    ),
    "cifar_resnet20": (
        "SGD", 32, 64_000, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((32_000, 0.1), (48_000, 0.01)),
    ),
    "imagenet_resnet50": (
        "SGD", 32, 700_000, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((300_000, 0.1), (600_000, 0.01)),
    ),
    "cifar_densenet40": (
        "SGD", 16, 234_300, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((117_150, 0.1), (175_725, 0.01)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), SETTINGS.items(), ids=SETTINGS)
def test_published_settings(name: str, expected: tuple[Any, ...]) -> None:
    """Of the language models' many steps, see below."""
    kind, batch_size, iterations, group, lr_steps = expected
    task = get_task(name)
    optimizer = task.optimizer([nn.Parameter(torch.zeros(1))])
    assert type(optimizer).__name__ == kind
    assert {key: optimizer.param_groups[0][key] for key in group} == group
    assert (task.batch_size, task.iterations, task.clients) == (batch_size, iterations, 4)
    assert lr_steps is None or task.lr_steps == lr_steps


def rate(name: str, iteration: int) -> float:
    task = get_task(name)
    base = task.optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
    factors = [factor for start, factor in task.lr_steps if start <= iteration]
    return base * factors[-1] if factors else base


def test_warm_ups_and_decays() -> None:
    assert [rate("cifar_resnet110", i) for i in (0, 399, 400, 32_000, 48_000)] == pytest.approx(
        [0.01, 0.01, 0.1, 0.01, 0.001]
    )
    grown = [rate("cifar_vgg16", 78 * epoch) for epoch in range(7)]
    assert grown == pytest.approx([0.5 / 32, 0.5 / 16, 0.5 / 8, 0.5 / 4, 0.5 / 2, 0.5, 0.5])
    assert rate("char_lstm", 14_000) == pytest.approx(0.8**5)
    assert [rate("word_lstm", i) for i in (23_999, 24_000, 26_400)] == pytest.approx(
        [1, 0.8, 0.8**3]
    )
    steps = [start for start, _ in get_task("char_lstm").lr_steps]
    assert steps == [5000, 8000, 10_000, 12_000, 14_000]


@pytest.mark.parametrize(
    ("name", "metric", "higher", "partition"),
    [("char_lstm", "perplexity", False, "contiguous"),
     ("word_lstm", "perplexity", False, "contiguous"), ("ncf", "hit_rate", True, "iid")],
)  # fmt: skip
def test_published_metrics_and_splits(name: str, metric: str, higher: bool, partition: str) -> None:
    task = get_task(name)
    assert (task.metric_name, task.higher_is_better) == (metric, higher)
    assert RunConfig(task=name).plan.partition == partition
