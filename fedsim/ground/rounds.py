"""Numbers that follow from a row of rounds, computed in one place for writers and readers."""

from typing import Any


def receivers(rounds: Any) -> Any:
    """How many clients were asked in a round; of a frame of rounds, a column of these."""
    absent = rounds.get("absent", 0)  # not in older folders
    late = rounds.get("late", 0)  # were asked in earlier rounds
    return rounds["clients"] + rounds["failures"] - absent - late
