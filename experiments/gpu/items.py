"""What waits for a GPU: tables and figures of the papers at the papers' scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from fedsim import Clients, RunConfig


@dataclass(frozen=True)
class Item:
    """A table or a figure: runs of one task, of equal length.

    Attributes:
        name: of its folder.
        source: what it repeats.
        runs: settings by name, at the published length.

    Example:
        >>> ITEMS["deepreduce"].published
        64000
    """

    name: str
    source: str
    runs: Mapping[str, RunConfig]

    @property
    def published(self) -> int:
        """Local iterations of each run as published, or the task's."""
        return next(iter(self.runs.values())).plan.iterations


def _table2() -> dict[str, RunConfig]:
    """SBC's Table II; federated averaging has the delay that the paper prints."""
    rows = import_module("experiments.sbc-table2.rows")
    task = "cifar_resnet32"
    return {
        column.name: RunConfig.of(
            task=task,
            method=column.method,
            temporal=rows.PAPER[task]["fedavg"][1] if column.name == "fedavg" else column.temporal,
            gradient=column.gradient,
            momentum_masking=column.masking,
        )
        for column in rows.columns(task)
    }


def _convergence(task: str, panel: str) -> dict[str, RunConfig]:
    """A panel of Horváth et al.: natural compression both ways, or at neither end."""
    rows = import_module("experiments.cnat-convergence.rows")
    return {
        name: RunConfig(
            task=task,
            method=rows.METHODS[name].method,
            downlink="cnat" if rows.METHODS[name].nat else "raw",
            temporal=1,
        )
        for name in rows.PANELS[panel]
    }


def _deepreduce() -> dict[str, RunConfig]:
    """DeepReduce's methods in a federation: 100 clients, Dirichlet 0.3, ten per round, n = 10."""
    rows = import_module("experiments.deepreduce.rows")
    return {
        name: RunConfig(
            task="cifar_resnet20",
            method=rows.ROWS[name].method,
            temporal=10,
            clients=Clients(100, cohort=10, partition="dirichlet(0.3)"),
        )
        for name in ("dense", "topr", "topr-p0-0.001", "topr-p2-0.001", "fit-poly", "p2-qsgd")
    }


ITEMS = {
    item.name: item
    for item in (
        Item("sbc-table2", "Sattler et al. 2018, Table II, ResNet-32 on CIFAR-10", _table2()),
        Item(
            "cnat-resnet",
            "Horváth et al. 2022, Fig. 13 to 15, ResNet-20 (theirs: ResNet-110) on CIFAR-10",
            _convergence("cifar_resnet20", "Fig. 5, 13 to 15"),
        ),
        Item(
            "cnat-alexnet",
            "Horváth et al. 2022, Fig. 5, AlexNet on CIFAR-10",
            _convergence("cifar_alexnet", "Fig. 5, 13 to 15"),
        ),
        Item(
            "cnat-vgg11",
            "Horváth et al. 2022, Fig. 20, VGG11 on CIFAR-10",
            _convergence("cifar_vgg11", "Fig. 19, 20"),
        ),
        Item(
            "deepreduce",
            "Kostopoulou et al. 2021, ResNet-20 on CIFAR-10 in a federation",
            _deepreduce(),
        ),
    )
}
"""In the order in which they run."""
