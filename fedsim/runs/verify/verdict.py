"""The result of checking a run's folder: what was checked, and what differs."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Verdict:
    """The result of checking one run."""

    name: str  # of the run's folder
    looked: list[str] = field(default_factory=list)  # what was checked, in that order
    failures: list[str] = field(default_factory=list)  # what differs, the plainest first
    remarks: list[str] = field(default_factory=list)  # what could not be checked, and why
    # What was not checked: it cannot be, or only further options check it.
    unchecked: list[str] = field(default_factory=list)

    def add(self, what: str, failures: Iterable[str]) -> None:
        """Notes what was checked and what differed there."""
        differing = list(failures)  # it may raise
        self.looked.append(what)
        self.failures += differing

    @property
    def line(self) -> str:
        """All of it in a line.

        Example:
            >>> Verdict("n1", ["files", "sums"], [], ["no messages are stored"]).line
            'n1: files, sums agree; no messages are stored'
            >>> Verdict("n1", ["files"], ["loss is 1 there, 2 here", "metric too"]).line
            'n1: FAILS: loss is 1 there, 2 here (and 1 more)'
        """
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        failing = f"FAILS: {self.failures[0]}{more}" if self.failures else ""
        agree = f"{', '.join(self.looked)} agree" if self.looked else ""
        return f"{self.name}: {'; '.join(filter(None, [failing or agree, *self.remarks]))}"


def digest_difference(place: str, recorded: str, computed: str) -> str:
    """Words for two digests that are not the same; an empty one is of nothing."""
    one, other = (f"{digest[:4]}…" if digest else "none" for digest in (recorded, computed))
    return f"{place} differs: {one} recorded, {other} found"
