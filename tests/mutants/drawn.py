"""Mutants by mutmut's operators, and a sample of them that stays while the code stays."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

ROOT = Path(__file__).parents[2]
ROOMS = {
    "ledger": "fedsim/federation/ledger.py",
    "channel": "strategies/channel",
    "results": "fedsim/results",
    "settings": "fedsim/settings",
    "controllers": "fedsim/settings/controllers",
    "whole": "compressors/whole",
    "network": "fedsim/network",
    "search": "fedsim/search",
    "show": "fedsim/show",
    "runs": "fedsim/runs",
    "engines": "fedsim/engines",
    "tasks": "fedsim/tasks",
    "commands": "fedsim/commands",
    "federation": "fedsim/federation",
    "server": "strategies/server",
    "algorithms": "strategies/algorithms",
}
"""What is broken, by its name in the table; a room within another one counts by itself."""

UNREAD = ('"utf-8"', "strict=True")
"""Mistakes in these are not made: they stand beside what cannot happen here, as `assert` does."""


@dataclass(frozen=True)
class Mutant:
    """One mistake, by what it is called in the CSV file: no line number, which moves."""

    room: str
    file: str
    function: str
    mistake: str
    module: cst.Module
    mutation: Mutation
    lines: range
    imported: bool
    """Whether an import executes it: it stands in no function's body."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Its name."""
        return self.file, self.function, self.mistake

    @property
    def rank(self) -> str:
        """The sample is the lowest ranks of each room: drawn, with no generator's state."""
        return hashlib.sha256("\0".join(self.key).encode()).hexdigest()

    @cached_property
    def source(self) -> str:
        """The file with the mistake in it."""
        replaced = self.module.deep_replace(self.mutation.original_node, self.mutation.mutated_node)
        return replaced.code


def files(room: str) -> list[Path]:
    """The room's files, without those of a room of its own within it."""
    inner = [ROOT / path for path in ROOMS.values() if path.startswith(ROOMS[room] + "/")]
    top = ROOT / ROOMS[room]
    found = sorted(top.rglob("*.py")) if top.is_dir() else [top]
    return [path for path in found if not any(path.is_relative_to(x) for x in inner)]


def told(before: str, after: str) -> str:
    """A mistake in words: what stands there, what stands there instead, 30 characters around."""
    before, after = (re.sub(r"\s+", " ", text.strip()) for text in (before, after))
    pairs = zip(before, after, strict=False)
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    back = zip(before[start:][::-1], after[start:][::-1], strict=False)
    end = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], back))
    start, end = max(0, start - 30), max(0, end - 30)
    cut = [text[start : len(text) - end] for text in (before, after)]
    return f"{'…' * (start > 0)}{cut[0]}{'…' * (end > 0)} -> {cut[1]}"


def mutants(room: str, path: Path) -> Iterator[Mutant]:
    """All mutants of a file, but of ``assert``, ``raise`` and ``UNREAD``.

    Texts of one word are lengthened, and not written in capitals as well; sentences are let be.
    """
    wrapper = MetadataWrapper(cst.parse_module(path.read_text(encoding="utf-8")))
    visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    parents, places = wrapper.resolve(ParentNodeProvider), wrapper.resolve(PositionProvider)
    seen: Counter[tuple[str, str]] = Counter()
    for mutation in visitor.mutations:
        old, new = mutation.original_node, mutation.mutated_node
        above = [old]
        while (parent := parents.get(above[-1])) is not None:
            above.append(parent)
        before, after = module.code_for_node(old), module.code_for_node(new)
        text = isinstance(old, cst.BaseString)
        if (
            any(isinstance(node, cst.Assert | cst.Raise) for node in above)
            or (text and (" " in before or not after.strip("rbf\"'").startswith("XX")))
            or any(before.count(word) != after.count(word) for word in UNREAD)
        ):
            continue
        names = [x.name.value for x in above if isinstance(x, cst.FunctionDef | cst.ClassDef)]
        function, mistake = ".".join(names[::-1]), told(before, after)
        seen[function, mistake] += 1
        if seen[function, mistake] > 1:
            mistake += f" ({seen[function, mistake]})"
        place = next(places[node] for node in above if node in places)
        lines = range(place.start.line, place.end.line + 1)
        file = str(path.relative_to(ROOT))
        imported = not any(
            isinstance(node, cst.FunctionDef) and block is node.body
            for block, node in pairwise(above)
        )
        yield Mutant(room, file, function, mistake, module, mutation, lines, imported)


def drawn(room: str, most: int | None) -> list[Mutant]:
    """The sample of a room: ``most`` of its mutants inside functions; with None all mutants."""
    found = [mutant for path in files(room) for mutant in mutants(room, path)]
    own = [mutant for mutant in found if most is None or not mutant.imported]
    return sorted(own, key=lambda mutant: mutant.rank)[:most]
