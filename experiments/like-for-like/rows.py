"""The methods that are compared, each as its paper has it, and by what budgets set its fraction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A method.

    Attributes:
        text: as ``--method`` takes it; ``{p}`` is the fraction that a budget sets, ``{step}`` a
            step of the server that is tuned in place of the clients' rate.
        source: the paper.
        kind: what it does to an update, in a word, by which figures are coloured.
        more: settings of the run that the paper asks for.
        delays: the delays n that are tried; None: those of the task.
    """

    text: str
    source: str
    kind: str
    more: Mapping[str, Any] = field(default_factory=dict)
    delays: tuple[int, ...] | None = None


DENSE = "dense"
ROWS = {
    DENSE: Row("raw", "SGD, a message per iteration", "dense", delays=(1,)),
    "fedavg": Row("raw", "McMahan et al. 2017", "dense"),
    "bfloat16": Row("bfloat16", "reference", "fewer bits"),
    "cnat": Row("cnat", "Horváth et al. 2022", "fewer bits"),
    "natural_dither": Row("natural_dither(7) | huffman", "Horváth et al. 2022", "fewer bits"),
    "qsgd": Row("qsgd(3) | elias_gaps", "Alistarh et al. 2017", "fewer bits"),
    "fedpaq": Row("fedpaq(7)", "Reisizadeh et al. 2020", "fewer bits"),
    "terngrad": Row("terngrad", "Wen et al. 2017", "fewer bits"),
    "rotated": Row("rotate(minmax(4))", "Suresh et al. 2017", "fewer bits"),
    "drive": Row("drive()", "Vargaftik et al. 2021", "fewer bits"),
    "eden": Row("eden(2)", "Vargaftik et al. 2022", "fewer bits"),
    "signsgd": Row("signsgd({step})", "Bernstein et al. 2018", "fewer bits",
                   {"strategy": "majority"}),
    "ef_sign": Row("ef_sign()", "Karimireddy et al. 2019", "fewer bits"),
    "onebit": Row("ef(onebit)", "Seide et al. 2014", "fewer bits"),
    "threelc": Row("ef(threelc(1.75))", "Lim et al. 2019", "fewer bits"),
    "inceptionn": Row("inceptionn(10)", "Li et al. 2018", "fewer bits"),
    "sz": Row("sz(0.01)", "Tao et al. 2017", "fewer bits"),
    "powersgd": Row("powersgd(2)", "Vogels et al. 2019", "low rank"),
    "atomo": Row("atomo(2)", "Wang et al. 2018", "low rank"),
    "structured_mask": Row("structured_mask({p})", "Konečný et al. 2016", "fewer entries"),
    "randk": Row("randk({p}) | float32", "Stich et al. 2018", "fewer entries"),
    "gspar": Row("gspar({p}) | float32 | golomb", "Wangni et al. 2018", "fewer entries"),
    "rtopk": Row("rtopk({p}, 0.5) | float32 | golomb", "Barnes et al. 2020", "fewer entries"),
    "ef_randk": Row("ef(randk({p}, false) | float32)", "Stich et al. 2018", "fewer entries"),
    "gradient_dropping": Row("gradient_dropping({p})", "Aji & Heafield 2017", "fewer entries"),
    "ef21": Row("ef21(topk({p}) | float32 | golomb)", "Richtárik et al. 2021", "fewer entries",
                {"strategy": "ef21"}),
    "blocks": Row("ef(blocks(8, {p}) | float32)", "Fei et al. 2020", "fewer entries"),
    "adacomp": Row("adacomp(50)", "Chen et al. 2018", "fewer entries"),
    "sbc": Row("sbc({p})", "Sattler et al. 2018", "both"),
    "stc": Row("stc({p})", "Sattler et al. 2020", "both"),
    "sketched": Row("sketched({p}, 2)", "Konečný et al. 2016", "both"),
    "q_sparse": Row("q_sparse({p}, 7)", "Basu et al. 2019", "both"),
    "topk_cnat": Row("topk_cnat({p})", "Horváth et al. 2022", "both"),
    "sketchml": Row("ef(sketchml({p}, 16, 4))", "Jiang et al. 2018", "both"),
    "skcompress": Row("skcompress({p}, 16)", "Jiang et al. 2020", "both"),
    "deepreduce": Row("deepreduce({p}, bloom_p0, 'qsgd')", "Kostopoulou et al. 2021", "both"),
    "cocktailsgd": Row("cocktailsgd({p}, 0.25)", "Wang et al. 2023", "both"),
    "demo": Row("demo({p}, 0.9, 8)", "Peng et al. 2024", "both"),
    "sparseloco": Row("sparseloco({p}, 0.9)", "Sarfi et al. 2025", "both"),
}  # fmt: skip
"""By the names of ``--only``. ``dgc`` is not here: it keeps the momentum that the tasks' clients
have already."""


def spelled(row: Row) -> str:
    """A method as the command line takes it, in Markdown, with the settings that it is run with."""
    flags = "".join(f" --{name.replace('_', '-')} {value}" for name, value in row.more.items())
    return f"`{row.text}{flags}`".replace("|", "\\|")


def kind(method: str) -> str:
    """What a method does to an update; ``added`` of one that is not in the table."""
    return ROWS[method].kind if method in ROWS else "added"
