"""Where the methods stand that like-for-like brings along as rows of a user's own."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments" / "like-for-like" / "own"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
