"""The methods, each as its paper has it with a knob for its strength, and the tasks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compressors import CATALOGUE
from fedsim import UsageError
from fedsim.search import select_methods

KNOBS: dict[str, tuple[Any, ...]] = {  # from weak to strong: by the bits of a message
    "p": tuple(float(f"{d}e-{e}") for e in (5, 4, 3, 2, 1) for d in (1, 2.5, 5)),
    "bits": (1, 2, 3, 4),
    "levels": (1, 3, 7, 15, 63, 127),
    "rank": (1, 2, 4, 8, 16),
    "numbers": (1, 3, 10, 30, 100, 300, 1000, 3000),
    "format": ("e2m1", "e3m2", "e4m3", "e5m2"),
    "step": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1),
}
"""What a method's text may leave to the tuner, as in ``topk({p}) | float32``."""


@dataclass(frozen=True)
class Row:
    """A method.

    Attributes:
        text: as ``--method`` takes it, with one of ``KNOBS`` in braces or none.
        kind: what it does to an update.
        source: the paper.
        downlink: as ``--downlink`` takes it; empty: the method itself, at the same strength.
        more: other settings of the run that the paper asks for.
    """

    text: str
    kind: str
    source: str
    downlink: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def strengths(self) -> tuple[Any, ...]:
        """From weak to strong; one that says nothing where the method has no knob."""
        knob = re.search(r"\{(\w+)\}", self.text)
        return KNOBS[knob[1]] if knob else (None,)

    def at(self, strength: Any) -> tuple[str, str]:
        """The method and its downlink at a strength.

        Example:
            >>> Row("sbc({p})", "", "").at(0.01), Row("raw", "", "", "relay").at(None)
            (('sbc(0.01)', 'sbc(0.01)'), ('raw', 'relay'))
        """
        up, down = (re.sub(r"\{\w+\}", str(strength), t) for t in (self.text, self.downlink))
        return up, down or up

    @property
    def spelled(self) -> str:
        """As ``--add`` takes it."""
        more = dict(self.more) | ({"downlink": self.downlink} if self.downlink else {})
        return self.text + "".join(f" --{name} {value}" for name, value in more.items())


DENSE = "fedavg"
BITS, ENTRIES, BOTH = "fewer bits", "fewer entries", "both"
ROWS = {
    DENSE: Row("raw", "dense", "McMahan et al. 2017"),
    "floats": Row("mx({format})", BITS, "Rouhani et al. 2023: FP4 to FP8, a scale per 32"),
    "qsgd": Row("qsgd({levels}, bucket=512) | elias_gaps", BITS, "Alistarh et al. 2017"),
    "fedpaq": Row("fedpaq({levels})", BITS, "Reisizadeh et al. 2020: QSGD with one norm"),
    "natural": Row("natural_dither({levels}) | huffman", BITS,
                   "Horváth et al. 2022; Huffman's code as Gajjala et al. 2020"),
    "eden": Row("eden({bits})", BITS, "Vargaftik et al. 2022; with 1 bit DRIVE, 2021"),
    "uveqfed": Row("uveqfed({bits})", BITS, "Shlezinger et al. 2021"),
    "majority": Row("signsgd({step})", BITS, "Bernstein et al. 2018", "", {"strategy": "majority"}),
    "ef_sign": Row("ef_sign()", BITS, "Karimireddy et al. 2019"),
    "powersgd": Row("powersgd({rank})", "low rank", "Vogels et al. 2019"),
    "permk": Row("permk(4)", ENTRIES, "Szlendak et al. 2021", "eden(4)", {"strategy": "permk"}),
    "topk": Row("gradient_dropping({p})", ENTRIES, "Aji & Heafield 2017"),
    "ef21": Row("ef21(topk({p}) | float32 | golomb)", ENTRIES, "Richtárik et al. 2021", "",
                {"strategy": "ef21"}),
    "sketched": Row("sketched({p}, 2)", BOTH, "Konečný et al. 2016"),
    "sbc": Row("sbc({p})", BOTH, "Sattler et al. 2018"),
    "stc": Row("stc({p})", BOTH, "Sattler et al. 2020"),
    "sparseloco": Row("sparseloco({p}, 0.95)", BOTH, "Sarfi et al. 2025"),
    "scalars": Row("ef(flat(projections({numbers}, false)))", "scalars",
                   "Rostami & Kia 2024, with a memory", "relay"),
}  # fmt: skip
"""By the names of ``--only``."""

_FLAG = re.compile(r"\s+--([\w-]+)[ =]+")


def added(text: str) -> dict[str, Row]:
    """A row of a user's own, by the name that tables and folders call it.

    Args:
        text: a method, then what else it is run with: ``ef21(topk({p}) | cnat) --strategy ef21``.

    Raises:
        UsageError: a text that cannot be read, a knob that there is not, or a row that there is.
    """
    method, *rest = _FLAG.split(text.strip())
    more = {
        name.replace("-", "_"): value.strip(" '\"")
        for name, value in zip(rest[::2], rest[1::2], strict=True)
    }
    bare = CATALOGUE.get(method)
    if bare is not None and bare.kind == "method":
        raise UsageError(f"--add is {text!r}: give {method}'s settings, as in '{method}({{p}})'")
    knobs = re.findall(r"\{(\w+)\}", method)
    if len(set(knobs)) > 1 or set(knobs) - set(KNOBS):
        known = ", ".join(f"{{{knob}}}" for knob in KNOBS)
        raise UsageError(f"--add is {text!r}: give one of {known}, or none")
    row = Row(method, "added", "added", more.pop("downlink", ""), more)
    # Signs and points stay: a row of -0.5 is another one than that of 0.5.
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", text.replace(" --", " ")).strip("-")
    if any(row.spelled == other.spelled for other in ROWS.values()):
        raise UsageError(f"--add is {text!r}: this is compared already, see --only")
    try:
        select_methods([row.at(row.strengths[len(row.strengths) // 2])[0]])
    except UsageError as error:
        raise UsageError(str(error).replace("--methods", "--add", 1)) from error
    return {name: row}


@dataclass(frozen=True)
class Task:
    """A task with its clients' shares.

    Attributes:
        task: as ``RunConfig`` takes it.
        partition: of the clients' samples.
        classes: a model that knows nothing is right in one of so many samples.
        scored: held-out samples by which finals are scored.
        iterations: of a client.
        seeds: final runs.
        clients, cohort, batch_size: as ``RunConfig`` has them; None: all, and the task's own.
        answers: of a sample; a window of text has one per character.
    """

    task: str
    partition: str
    classes: int
    scored: int
    iterations: int
    seeds: int = 5
    clients: int = 4
    cohort: int | None = None
    batch_size: int | None = None
    answers: int = 1


TASKS = {
    "digits_skewed": Task("digits", "dirichlet(0.1)", 10, 360, 500, 10),
    "digits_iid": Task("digits", "iid", 10, 360, 500, 10),
    "mnist": Task("mnist_lenet5", "dirichlet(0.5)", 10, 2000, 1000, 5, 20, 5, 16),
    "chars": Task(
        "experiments.common.models:CHAR_TRANSFORMER_NEW", "natural", 97, 400, 1000, answers=64
    ),
    "cifar": Task("cifar_resnet8", "dirichlet(0.3)", 10, 2000, 500, batch_size=16),
}
"""By the names of ``--only``. Characters are shared out by the role that speaks."""

RANKED = tuple(name for name in TASKS if name != "digits_iid")
"""The tasks over which methods are ranked: one per data set."""


@dataclass(frozen=True)
class Scale:
    """What a scale runs.

    Attributes:
        tasks: names of ``TASKS``.
        rows: names of ``ROWS`` that are run where ``--only`` names none.
        budgets: bits up and down of a client, as parts of a dense message each way per iteration.
        draws: of rounds, rate and strength, for each method at each budget.
        longer: by how much runs are longer than at ``short``.
        seeds: final runs; None: the task's.
        iterations: of a client; None: the task's.
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    rows: tuple[str, ...] = tuple(ROWS)
    budgets: tuple[float, ...] = (1 / 30, 1 / 300, 1 / 3000)
    draws: int = 16
    longer: int = 1
    seeds: int | None = None
    iterations: int | None = None


SCALES = {
    "smoke": Scale(("digits_skewed",), (DENSE, "eden", "sbc"), (0.5, 0.05), 4, 1, 2, 8),
    "short": Scale(),
    "paper": Scale(longer=8),
}
