"""The methods, by what chooses the entries that travel, and the tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MASK, TOPK, BESIDE = "mask", "topk", "beside"


@dataclass(frozen=True)
class Row:
    """A method.

    Attributes:
        text: as ``--method`` takes it; ``{p}`` is the fraction that a budget sets.
        kind: ``mask``: unbiased, positions from the seed, no memory; ``topk``: the largest entries,
            with error feedback; ``beside``: neither, shown and not tested.
        source: the paper.
        more: settings of the run that the paper asks for.
    """

    text: str
    kind: str
    source: str
    more: Mapping[str, Any] = field(default_factory=dict)


DENSE = "dense"
ROWS = {
    DENSE: Row("raw", BESIDE, "Federated Averaging without a budget: what there is to reach"),
    "mask1": Row("sketched({p}, 1)", MASK, "Konečný et al. 2016, one bit per entry"),
    "mask2": Row("sketched({p}, 2)", MASK, "the same, two bits"),
    "mask4": Row("sketched({p}, 4)", MASK, "the same, four bits"),
    "sbc": Row("sbc({p})", TOPK, "Sattler et al. 2018"),
    "sbc_unmasked": Row(
        "sbc({p})", BESIDE, "the same, without its paper's masking", {"momentum_masking": "off"}
    ),
    "stc": Row("stc({p})", TOPK, "Sattler et al. 2020"),
    "topk4": Row("ef(topk({p}) | minmax(4) | context)", TOPK, "top-k, four bits, context coder"),
    "ef21": Row(
        "ef21(topk({p}) | float32 | golomb)", BESIDE, "Richtárik et al. 2021", {"strategy": "ef21"}
    ),
    "drive": Row("drive()", BESIDE, "Vargaftik et al. 2021"),
}


@dataclass(frozen=True)
class Setting:
    """A task with its clients' shares.

    Attributes:
        task: as ``RunConfig`` takes it.
        partition: of the clients' samples.
        classes: a model that knows nothing is right in one of so many samples.
        scored: held-out samples by which finals are scored.
        lengths: local iterations of its runs; None: those of the scale.
        answers: of a sample; a window of text has one per character.
    """

    task: str
    partition: str
    classes: int
    scored: int
    lengths: tuple[int, ...] | None = None
    answers: int = 1


_CHARS = "experiments.common.models:CHAR_TRANSFORMER_NEW"
SETTINGS = {
    "digits_iid": Setting("digits", "iid", 10, 360),
    "digits_skewed": Setting("digits", "dirichlet(0.1)", 10, 360),
    "mnist_iid": Setting("mnist_lenet5", "iid", 10, 2000),
    "mnist_skewed": Setting("mnist_lenet5", "dirichlet(0.1)", 10, 2000),
    "chars_iid": Setting(_CHARS, "iid", 97, 400, answers=64),
    "chars_skewed": Setting(_CHARS, "natural", 97, 400, answers=64),
    "cifar_skewed": Setting("cifar_resnet8", "dirichlet(0.3)", 10, 2000, (500,)),
}
"""By the names of ``--only``. Characters are skewed by the role that speaks."""


@dataclass(frozen=True)
class Scale:
    """What a scale runs.

    Attributes:
        settings: names of ``SETTINGS``.
        lengths: local iterations of a client.
        budgets: upstream bits of a client, as parts of a dense message per local iteration.
        delays: values of n; a method is tuned over the first two at which all its rounds fit.
        factors: on the task's rate, that are tried at first.
        seeds: final runs of each method.
    """

    settings: tuple[str, ...]
    lengths: tuple[int, ...] = (125, 500, 2000)
    budgets: tuple[float, ...] = (0.01, 0.001, 0.0001)
    delays: tuple[int, ...] = (5, 25, 125, 625)
    factors: tuple[float, ...] = (1 / 9, 1 / 3, 1.0, 3.0)
    seeds: int = 10


SCALES = {
    "smoke": Scale(("digits_iid",), (8,), (0.1,), (2, 4), (1.0, 3.0), 2),
    "short": Scale(tuple(SETTINGS)),
    "paper": Scale(tuple(SETTINGS), (500, 2000, 8000)),
}
CLIENTS = 4
EVALUATIONS = 4
EXTENSIONS = 2
"""How often a rate at the edge of what was tried moves the edge, by a factor of three each."""
