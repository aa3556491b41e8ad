"""Tasks: the table, the models, the embedded data."""

import pickle
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks import TASKS, Data, get_task
from fedsim.tasks.mnist import LeNet5
from fedsim.tasks.tasklist import LISTED

PAIRS = torch.tensor([[0, 1], [1, 0]])
TINY = Data(PAIRS, PAIRS, PAIRS[:, None], PAIRS, "for models whose size follows from the data")

OURS = {name: TASKS[name] for name in LISTED}
"""Without tasks that other tests have made their own."""


def parameters(model):
    return sum(p.numel() for p in model.parameters())


# ---- the table


def test_names_of_the_table_are_those_of_the_tasks():
    assert {name: task.name for name, task in OURS.items()} == {name: name for name in OURS}


def test_an_unknown_task_lists_the_known_ones():
    words = "unknown task 'mnist'.*; known are digits, mnist_lenet5, mnist"
    with pytest.raises(UsageError, match=words):
        get_task("mnist")


@pytest.mark.parametrize("task", OURS.values(), ids=OURS)
def test_a_task_is_a_value_that_travels(task):
    assert pickle.loads(pickle.dumps(task)) == task


LARGE = ("mlp4096", "mlp4096_ln", "resnet18", "vgg11", "vgg16", "resnet50", "word_lstm")
LENGTHY = ("char_transformer", *LARGE)  # made from a base, or of more than five million weights
MADE = [task for task in OURS.values() if not task.name.endswith(LENGTHY)]


@pytest.mark.parametrize("task", MADE, ids=lambda task: task.name)
def test_weights_follow_torchs_generator(task):
    def build(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return torch.cat([p.detach().flatten() for p in task.model(TINY).parameters()])

    assert torch.equal(build(1), build(1))
    assert not torch.equal(build(1), build(2))


INPUTS = {
    "digits": torch.zeros(2, 1, 8, 8),
    "mnist": torch.zeros(2, 1, 28, 28),
    "fashion": torch.zeros(2, 1, 28, 28),
    "cifar": torch.zeros(2, 3, 32, 32),
}


SHALLOW = ("digits", "mnist", "fashion", "cifar_resnet8", "cifar_vgg", "cifar_alexnet")


@pytest.mark.parametrize(
    "task", [t for t in OURS.values() if t.name.startswith(SHALLOW)], ids=lambda task: task.name
)
def test_every_parameter_has_a_gradient_and_a_place_in_the_optimizer(task):
    """So no run of these tasks tries a batch for it (``Trainer.unused``)."""
    with torch.device("meta"):
        model = task.model(TINY)
        outputs = model(INPUTS[task.name.partition("_")[0]].to("meta"))
        outputs.sum().backward()
        trained = [p for p in model.parameters() if p.requires_grad]
        held = {id(p) for group in task.optimizer(trained).param_groups for p in group["params"]}
    assert trained and all(p.grad is not None and id(p) in held for p in trained)


def test_loss_is_a_mean_and_metric_a_sum():
    task = get_task("digits")
    outputs = torch.tensor([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    targets = torch.tensor([0, 1, 1])
    assert task.metric(outputs, targets).item() == 2
    rows = [task.loss(outputs[i : i + 1], targets[i : i + 1]) for i in range(3)]
    assert task.loss(outputs, targets).item() == pytest.approx(sum(rows).item() / 3)


# ---- digits


def test_digits_are_scikit_learn_s_split():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    theirs = load_digits()
    drawn = train_test_split(range(1797), test_size=360, stratify=theirs.target, random_state=0)
    data = get_task("digits").load(None, False)
    assert data.source.startswith("scikit-learn ") and data.train_x.shape == (1437, 1, 8, 8)
    x_and_y = (data.train_x, data.train_y), (data.test_x, data.test_y)
    for (x, y), part in zip(x_and_y, drawn, strict=True):
        assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
        pixels = ((x * 0.3760 + 0.3053) * 16).flatten(1)
        np.testing.assert_allclose(pixels, theirs.data[part], atol=1e-4)
        assert y.tolist() == theirs.target[part].tolist()
    assert abs(data.train_x.mean()) < 0.02 and abs(data.train_x.std() - 1) < 0.02


def test_digits_do_not_touch_global_generators():
    from fedsim.tasks import digits

    np.random.seed(1)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state()
    first = digits.load_digits.__wrapped__(None, False)
    assert (np.random.get_state()[1] == before[0]).all()
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert torch.equal(digits.load_digits.__wrapped__(None, False).test_x, first.test_x)


def test_digits_without_scikit_learn(monkeypatch):
    from fedsim.tasks import digits

    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match="scikit-learn.*\n.*pip install scikit-learn"):
        digits.load_digits.__wrapped__(None, False)


def test_digits_learn():
    task = get_task("digits")
    data = task.load(None, False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = task.build()
        order = torch.randperm(1437)
    optimizer = task.optimizer(model.parameters())
    for step in range(150):
        batch = order[torch.arange(step * 64, step * 64 + 64) % 1437]
        optimizer.zero_grad()
        task.loss(model(data.train_x[batch]), data.train_y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        assert task.metric(model(data.test_x), data.test_y) >= 0.93 * 360


# ---- LeNet5


def test_lenet5_starts_as_caffes_xavier():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LeNet5(caffe_init=True)
    for layer, fan_in in ((model.conv1, 25), (model.conv2, 500), (model.fc1, 800)):
        bound = (3 / fan_in) ** 0.5
        assert 0.95 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


@pytest.mark.parametrize("conv_relu", [False, True])
def test_lenet5_is_the_function_it_says(conv_relu):
    model = LeNet5(conv_relu)
    x = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    y = x
    for conv in (model.conv1, model.conv2):  # ReLU before pooling, as others write it
        y = conv(y)
        y = F.max_pool2d(F.relu(y) if conv_relu else y, 2)
    y = model.fc2(F.relu(model.fc1(y.reshape(4, 800))))
    torch.testing.assert_close(model(x), y)


def test_lenet5_is_the_same_channels_last():
    model = LeNet5()
    x = torch.randn(8, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    F.cross_entropy(model(x), torch.arange(8)).backward()
    outputs = model(x)
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.to(memory_format=torch.channels_last)
    again = model(x.to(memory_format=torch.channels_last))
    F.cross_entropy(again, torch.arange(8)).backward()
    torch.testing.assert_close(again, outputs, rtol=1e-4, atol=1e-5)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)
