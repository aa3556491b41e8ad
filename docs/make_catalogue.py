"""Writes ``docs/catalogue.md`` from the table of compressors: ``python docs/make_catalogue.py``."""

from pathlib import Path

from compressors import CATALOGUE, parse, text
from compressors.segments.plan import plan_of

PAGE = Path(__file__).with_name("catalogue.md")
KINDS = (
    "method",
    "compressor",
    "codec",
    "sparsifier",
    "quantizer",
    "positions",
    "symbols",
    "coder",
)

WHOLE = ("method", "compressor", "codec")
"""Kinds whose rows say how they differ from their papers."""

HEAD = """# Catalogue

Every method and part that has a name. `python docs/make_catalogue.py` makes this page from
`compressors/catalogue.py`. Each row encodes to bytes and back and passes the contract suite.

* [grammar.md](grammar.md) shows how to combine the names.
* A bare pipeline means `per_tensor(...)`.
* `sbc` and `ef(..., mask=true)` alone mask momentum ([strategies.md](strategies.md)).
* `contrib` marks what at most one of the experiments uses. The contract suite and golden bytes are
  the same for it, and its code is in `compressors/contrib`.
* The last column shows what makes and reads the messages of an update on a GPU: `kernels` there,
  or the `CPU` ([gpu.md](gpu.md)).
"""


def page() -> str:
    """The page as markdown."""
    lines = [HEAD]
    for kind in (k for k in KINDS if any(row.kind == k for row in CATALOGUE.values())):
        whole = kind in WHOLE
        told = " differs from its paper |" if whole else ""
        lines += [
            f"## {kind}",
            "",
            f"| name | what | source | example | stands for |{told} on a GPU |",
            "| --- " * (6 + whole) + "|",
        ]
        for row in (r for r in CATALOGUE.values() if r.kind == kind):
            method = parse(row.example)
            where = "CPU" if plan_of(method) is None else "kernels"
            cells = (
                f"`{row.name}`" + " (contrib)" * row.contrib,
                row.title,
                row.source,
                f"`{row.example}`",
                f"`{text(method)}`",
                *([row.differs] if whole else []),
                where,
            )
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
