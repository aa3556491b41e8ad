"""What is published of tasks: numbers of parameters, optimizers, batches and iterations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedsim import Data, RunConfig
from fedsim.tasks import get_task
from fedsim.tasks.ncf import NeuMF
from fedsim.tasks.tasklist import LISTED

PAPERS = Path(__file__).resolve().parents[4] / "shared" / "papers"

Settings = tuple[str, dict[str, Any]]
"""An optimizer's class, and what its groups of parameters say."""

Steps = Sequence[tuple[int, float]]
"""First iterations and factors of the learning rate."""

COUNTS = {
    "digits": 21_386, "mnist_lenet5": 431_080, "mnist_lenet5_caffe": 431_080,
    "fashion_lenet5": 431_080, "char_lstm": 675_284,  # 84 symbols
    "word_lstm": 19_775_200,  # Zaremba's medium has 19.8 million
    "ncf": 31_832_577,  # DeepReduce, Table 1: ml-20m's 138,493 users and 26,744 rated items
    "mnist_mlp4096": 36_818_954, "mnist_mlp4096_ln": 36_843_530,
    "mnist_mlp512": 932_362, "mnist_mlp512_ln": 935_434,
    "mnist_mlp128_ln": 135_562,
    "mnist_2nn": 199_210, "mnist_cnn": 1_663_370,  # McMahan et al. 2017, section 3
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


def sgd(lr: float, decay: float = 0.0, momentum: float = 0.9, name: str = "SGD") -> Settings:
    """An optimizer in numbers."""
    numbers = {"lr": lr, "momentum": momentum, "weight_decay": decay, "nesterov": False}
    return name, numbers | {"dampening": 0}


def adam(lr: float, betas: tuple[float, float] = (0.9, 0.999)) -> Settings:
    """Adam in numbers."""
    numbers = {"lr": lr, "betas": betas, "eps": 1e-8, "weight_decay": 0, "amsgrad": False}
    return "Adam", numbers


ADAGRAD = (
    "Adagrad",
    {"lr": 0.005, "lr_decay": 0, "weight_decay": 0, "initial_accumulator_value": 0},
)
LENET5 = (adam(0.001), 128, 2_000, ())
"""Sattler et al. 2018 (SBC), Table III: batch 128 x 4."""
MLP = (ADAGRAD, 40, 7_500, ())
"""Aji & Heafield 2017, section 4 (the rate and the batch) and 5 (20 epochs of 60,000 / 160)."""
RESNET = (sgd(0.1, 1e-4), 32, 64_000, ((32_000, 0.1), (48_000, 0.01)))
"""He et al. 2016, section 4.2: batch 128, here of four clients."""
TUNED = (adam(0.003), 8, 1_000, ())
"""Chosen here."""
SETTINGS: dict[str, tuple[Settings, int, int, Steps]] = {
    "digits": (sgd(0.02), 32, 1_200, ()),  # chosen here
    "mnist_lenet5": LENET5, "mnist_lenet5_caffe": LENET5, "fashion_lenet5": LENET5,
    "mnist_mlp4096": MLP, "mnist_mlp4096_ln": MLP, "mnist_mlp512": MLP, "mnist_mlp512_ln": MLP,
    "mnist_mlp128_ln": MLP,
    # McMahan et al. 2017, section 3: SGD, B = 10; the rate and the length are chosen here
    "mnist_2nn": (sgd(0.1, momentum=0), 10, 6_000, ()),
    "mnist_cnn": (sgd(0.1, momentum=0), 10, 6_000, ()),
    "cifar_resnet8": (sgd(0.1, 1e-4), 32, 500, ((250, 0.3), (400, 0.03))),  # chosen here
    "cifar_resnet20": RESNET, "cifar_resnet44": RESNET, "cifar_resnet56": RESNET,
    "cifar_resnet110": (*RESNET[:3], ((0, 0.1), (400, 1.0), *RESNET[3])),  # 0.01 to warm up
    # SBC, Table III; the decay: He et al., TensorFlow's code
    "cifar_resnet32": (sgd(0.01, 2e-4), 128, 60_000, ((30_000, 0.1), (50_000, 0.01))),
    "imagenet_resnet50": (sgd(0.1, 1e-4), 32, 700_000, ((300_000, 0.1), (600_000, 0.01))),
    "char_lstm": (  # SBC, Table III
        sgd(1.0, momentum=0, name="ClippedSGD"), 5, 16_000,
        ((5_000, 0.8), (8_000, 0.64), (10_000, 0.512), (12_000, 0.4096), (14_000, 0.32768)),
    ),
    "word_lstm": (  # SBC, Table III: 0.8 @ 24000 + 1200 n
        sgd(1.0, momentum=0, name="ClippedSGD"), 5, 60_000,
        tuple((24_000 + 1_200 * n, 0.8 ** (n + 1)) for n in range(30)),
    ),
    "cifar_resnet18": (sgd(0.1, 5e-4), 32, 78_000, ((39_000, 0.1), (58_500, 0.01))),  # chosen here
    "cifar_vgg11": (sgd(0.05, 5e-4), 32, 78_000, ((39_000, 0.1), (58_500, 0.01))),  # chosen here
    # Gajjala et al. 2020, section 5: 70 epochs of 50,000 / 640, the rate grows in the first five
    "cifar_vgg16": (
        sgd(0.5, momentum=0), 160, 5_460,
        ((0, 1 / 32), (78, 1 / 16), (156, 1 / 8), (234, 1 / 4), (312, 1 / 2), (390, 1.0)),
    ),
    # Horvath et al. 2022 (CNat), Fig. 14: batch 256; else TensorFlow's benchmarks
    "cifar_alexnet": (sgd(0.1, 4e-5), 64, 39_000, ((19_500, 0.1),)),
    # Huang et al. 2017: batch 64, 300 epochs, a tenth at a half and three quarters of them
    "cifar_densenet40": (sgd(0.1, 1e-4), 16, 234_300, ((117_150, 0.1), (175_725, 0.01))),
    # DeepReduce 2021, section 6.2: 10^6 samples, four of five drawn; NVIDIA's recipe
    "ncf": (adam(0.0045, (0.25, 0.5)), 200_000, 750, ()),
    "char_transformer": (adam(0.001), 8, 1_000, ()),  # chosen here
    "char_transformer_fedit": TUNED, "char_transformer_ffa": TUNED,
}  # fmt: skip
"""Optimizer, batch, iterations and steps of the rate by task, and where they are printed."""


def test_every_task_is_here() -> None:
    assert {*SETTINGS} == {*COUNTS} == {*LISTED}


@pytest.mark.parametrize(("name", "expected"), SETTINGS.items(), ids=SETTINGS)
def test_published_settings(name: str, expected: tuple[Any, ...]) -> None:
    (kind, group), batch_size, iterations, lr_steps = expected
    task = get_task(name)
    optimizer = task.optimizer([nn.Parameter(torch.zeros(1))])
    assert type(optimizer).__name__ == kind
    assert {key: optimizer.param_groups[0][key] for key in group} == group
    assert (task.batch_size, task.iterations, task.clients) == (batch_size, iterations, 4)
    assert [start for start, _ in task.lr_steps] == [start for start, _ in lr_steps]
    factors = [factor for _, factor in lr_steps]
    assert [factor for _, factor in task.lr_steps] == pytest.approx(factors)


def table_iii(name: str, title: str, optimizer: str, decay: str) -> tuple[str, str]:
    """A row of SBC's table with the numbers of a task of ours."""
    task = get_task(name)
    lr = task.optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
    numbers = f"{task.batch_size}×{task.clients} {lr} {decay}"
    return "sparse-binary", f"{title} {task.iterations} {optimizer} {numbers}"


def printed() -> list[tuple[str, str]]:
    """Begin of a paper's file name, and what stands in it, with the numbers of tasks."""
    mlp, vgg = get_task("mnist_mlp4096"), get_task("cifar_vgg16")
    parameter = [nn.Parameter(torch.zeros(1))]
    rates = {task.name: task.optimizer(parameter).param_groups[0]["lr"] for task in (mlp, vgg)}
    steps = {name: [start for start, _ in get_task(name).lr_steps] for name in SETTINGS}
    both = [", ".join(map(str, steps[name])) for name in ("cifar_resnet32", "imagenet_resnet50")]
    chars, words = ", ".join(map(str, steps["char_lstm"])), steps["word_lstm"]
    epoch = steps["cifar_vgg16"][1]
    return [
        table_iii("mnist_lenet5", "LeNet5-Caffe", "Adam [4]", "-"),
        table_iii("cifar_resnet32", "ResNet32", "Momentum @0.9", f"0.1 @ {both[0]}"),
        table_iii("imagenet_resnet50", "ResNet50", "Momentum @0.9", f"0.1 @ {both[1]}"),
        table_iii("char_lstm", "CharLSTM", "Gradient Descent", f"0.8 @ {chars}"),
        table_iii("word_lstm", "WordLSTM", "Gradient Descent",
                  f"0.8 @ {words[0]} + {words[1] - words[0]}× n"),
        ("gradient-dropping", f"initial learning rate of {rates['mnist_mlp4096']}. "
                              f"The mini-batch size of {mlp.batch_size} is used"),
        ("gradient-dropping",
         f"for {mlp.iterations * mlp.batch_size * mlp.clients // 60_000} epochs as mentioned"),
        ("huffman", f"mini-batch size to {vgg.batch_size} images per batch"),
        ("huffman", f"learning rate to {rates['cifar_vgg16']} for CIFAR-10"),
        ("huffman", f"exponentially during the first {len(vgg.lr_steps) - 1} epochs"),
        ("huffman", f"CIFAR-10 experiments for {vgg.iterations // epoch} epochs"),
        ("natural", f"AlexNet (Batch sizes: {4 * get_task('cifar_alexnet').batch_size},"),
        ("deepreduce", f"ResNet-20 [42] Image classif. CIFAR-10 [46] {COUNTS['cifar_resnet20']:,}"),
        ("deepreduce", f"DenseNet40-K12 [35] Image classif. CIFAR-10 [46] "
                       f"{COUNTS['cifar_densenet40']:,}"),
        ("deepreduce", f"ImageNet [18] {COUNTS['imagenet_resnet50']:,} SGD-M"),
        ("deepreduce", f"Movielens-20M [52] {COUNTS['ncf']:,} Adam"),
    ]  # fmt: skip


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' texts are not in ../shared/papers")
@pytest.mark.parametrize(("paper", "words"), printed())
def test_the_papers_print_the_tasks_numbers(paper: str, words: str) -> None:
    (file,) = PAPERS.glob(f"{paper}*.txt")
    assert words in " ".join(file.read_text(encoding="utf-8").split())


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
    [
        ("char_lstm", "perplexity", False, "contiguous"),
        ("word_lstm", "perplexity", False, "contiguous"),
        ("ncf", "hit_rate", True, "iid"),
    ],
)
def test_published_metrics_and_splits(name: str, metric: str, higher: bool, partition: str) -> None:
    task = get_task(name)
    assert (task.metric_name, task.higher_is_better) == (metric, higher)
    assert RunConfig(task=name).plan.partition == partition
