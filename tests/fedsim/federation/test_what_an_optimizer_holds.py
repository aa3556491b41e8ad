"""Optimizers of a part of the parameters or of groups, unused parameters and sparse gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, AdamW, SparseAdam

from fedsim import Data, RunConfig, Training, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, build_model

GRADIENTS: list[dict[str, Any]] = [
    {"strategy": "gradients", "method": "raw"},
    {"strategy": "marina", "method": "marina(cnat, 0.3)"},
    {"strategy": "sharded", "method": "raw", "network": "compute=1ms"},
]
HEAD = ["2.weight", "2.bias"]


def first_layer(parameters: Any) -> torch.optim.Optimizer:
    return SGD([*parameters][:2], lr=0.1)


def start(config: RunConfig) -> dict[str, Tensor]:
    data = ClientData.of(config).data
    return {n: p.detach() for n, p in build_model(config.plan.task, 0, data).named_parameters()}


@pytest.mark.parametrize("settings", GRADIENTS, ids=lambda one: one["strategy"])
def test_gradients_that_no_optimizer_holds_do_not_add_up(
    settings: dict[str, Any], make_task: Any
) -> None:
    task = make_task(optimizer=first_layer)
    config = RunConfig.of(task=task, temporal=1, **settings)
    trainers = [Trainer(config, ClientData.of(config)) for _ in range(2)]
    weights = start(config)
    for iteration in range(3):
        trainers[0].train(0, weights, {}, iteration, 1)
    updates = [trainer.train(1, weights, {}, 0, 1).update for trainer in trainers]
    for name, x in updates[0].items():
        assert torch.equal(x, updates[1][name]) and x.any() != (name in HEAD)
    model = run(config, None, progress=False).model
    assert [n for n, x in model.items() if torch.equal(x, weights[n])] == HEAD


def by_place(parameters: Any) -> torch.optim.Optimizer:
    first, *others = parameters
    return SGD([{"params": [first], "lr": 0.0}, {"params": others}], lr=0.1)


def by_shape(parameters: Any) -> torch.optim.Optimizer:
    every = [*parameters]
    matrices, others = ([p for p in every if (p.dim() > 1) == two] for two in (True, False))
    return AdamW([{"params": matrices, "lr": 0.0, "weight_decay": 0.0}, {"params": others}], lr=0.1)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize(
    ("optimizer", "still"),
    [(by_place, {"0.weight"}), (by_shape, {"0.weight", "2.weight"}), (first_layer, {*HEAD})],
)
def test_parts_of_a_sharded_model_have_the_groups_of_its_optimizer(
    optimizer: Any, still: set[str], clients: int, make_task: Any
) -> None:
    task = make_task(optimizer=optimizer, clients=clients)
    config = RunConfig.of(task=task, temporal=1, **GRADIENTS[2])
    moved, before = run(config, None, progress=False).model, start(config)
    for name, x in moved.items():
        assert (x != before[name]).all() != (name in still), name


@pytest.mark.parametrize("settings", GRADIENTS[::2], ids=lambda one: one["strategy"])
def test_sums_that_adagrad_begins_with(settings: dict[str, Any], make_task: Any) -> None:
    """One worker alone: the gradients and steps of ``dsgd``."""
    task = make_task(
        optimizer=lambda parameters: Adagrad(
            [{"params": [p], "initial_accumulator_value": 0.5} for p in parameters], lr=0.1
        )
    )
    one = {"task": task, "temporal": 1, "clients": 1, "method": "raw"}
    found, wanted = (run(RunConfig.of(**one | s), None, progress=False) for s in (settings, {}))
    for name, x in wanted.model.items():
        torch.testing.assert_close(found.model[name], x, rtol=0, atol=1e-6)


class Unused(nn.Module):
    """The loss never reaches one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.never = nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


@pytest.mark.parametrize("settings", GRADIENTS, ids=lambda one: one["strategy"])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: AdamW(p, lr=0.01, weight_decay=0.1),
    ],
)
def test_what_the_loss_does_not_reach_does_not_decay(
    optimizer: Any, settings: dict[str, Any], make_task: Any
) -> None:
    task = make_task(build=Unused, optimizer=optimizer)
    config = RunConfig.of(task=task, temporal=1, clients=1, **settings)
    model, before = run(config, None, progress=False).model, start(config)
    assert [name for name, x in model.items() if torch.equal(x, before[name])] == [
        "never.weight",
        "never.bias",
    ]
    if "marina" not in settings["strategy"]:
        plain = run(RunConfig.of(task=task, temporal=1, clients=1, method="raw"), None).model
        for name, x in plain.items():
            torch.testing.assert_close(model[name], x, rtol=0, atol=1e-6)


class Sometimes(Unused):
    """One batch in about two does not reach a layer; the first one of client 0 is such a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.never = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out + self.never(x) if x.sum() < 0 else out


def test_what_is_reached_later_trains_then(make_task: Any) -> None:
    task = make_task(
        build=Sometimes, optimizer=lambda p: SGD(p, lr=0.1, weight_decay=0.1), clients=1
    )
    config = RunConfig.of(task=task, temporal=1, iterations=12, **GRADIENTS[0])
    trainer = Trainer(config, ClientData.of(config))
    assert trainer.unused == {"never.weight", "never.bias"}
    assert any(trainer.batch(0, i)[0].sum() < 0 for i in range(12))
    found = run(config, None, progress=False).model
    plain = run(RunConfig.of(task=task, temporal=1, method="raw"), None, progress=False).model
    for name, x in plain.items():
        torch.testing.assert_close(found[name], x, rtol=0, atol=1e-6)


# ---- gradients of an embedding that are sparse


def words(sparse: bool, optimizer: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 20, (60,), generator=generator)
    data = Data(x[:48], x[:48] % 3, x[48:], x[48:] % 3, "made up")
    return {
        "build": lambda: nn.Sequential(nn.Embedding(20, 4, sparse=sparse), nn.Linear(4, 3)),
        "load": lambda folder, download: data,
        "optimizer": optimizer,
        "clients": 2,
    }


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return SGD(parameters, lr=0.2, momentum=0.9, nesterov=True)


def no_momentum(parameters: Any) -> torch.optim.Optimizer:
    return SGD(parameters, lr=0.2)


SPARSE: list[tuple[Any, dict[str, Any]]] = [
    (momentum, {"method": "raw"}),
    (momentum, {"method": "sbc(0.1)"}),
    (momentum, {"method": "raw", "training": Training(proximal=0.1)}),
    (no_momentum, {"method": "raw", "strategy": "scaffold"}),
    (no_momentum, {"method": "dgc(0.1)", "temporal": 1}),
    (lambda parameters: Adagrad(parameters, lr=0.1), {"method": "sbc(0.1)"}),
    *((momentum, {**settings, "temporal": 1}) for settings in GRADIENTS),
]


@pytest.mark.parametrize(("optimizer", "settings"), SPARSE)
def test_sparse_gradients_are_the_dense_ones(
    optimizer: Any, settings: dict[str, Any], make_task: Any
) -> None:
    models = []
    for sparse in (True, False):
        given = {"task": make_task(**words(sparse, optimizer)), "temporal": 3} | settings
        models.append(run(RunConfig.of(**given), None, progress=False).model)
    for name, x in models[1].items():
        torch.testing.assert_close(models[0][name], x, rtol=0, atol=1e-6)


def test_sparse_adam_is_given_sparse_gradients(make_task: Any) -> None:
    def both(parameters: Any) -> torch.optim.Optimizer:
        return SparseAdam([next(iter(parameters))], lr=0.1)

    config = RunConfig.of(task=make_task(**words(True, both)), method="raw", temporal=3)
    found, before = run(config, None, progress=False).model, start(config)
    assert [n for n, x in found.items() if not torch.equal(x, before[n])] == ["0.weight"]


def test_sparse_memory_is_refused(make_task: Any) -> None:
    class Keeping(SGD):
        def step(self, closure: Any = None) -> Any:
            p = self.param_groups[0]["params"][0]
            self.state[p]["seen"] = torch.eye(3).to_sparse()
            return super().step(closure)

    task = make_task(optimizer=lambda parameters: Keeping(parameters, lr=0.1))
    with pytest.raises(UsageError, match=r"state\[parameter '0.weight'\]\['seen'\] is a sparse"):
        run(RunConfig.of(task=task, method="raw"), None, progress=False)
