"""The list's table for the page: what waits, and at which length it was published."""

from pathlib import Path

from experiments.common.tables import table

from .items import ITEMS


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table."""
    lines = [
        [f"`{item.name}`", item.source, str(len(item.runs)), f"{item.published:,}"]
        for item in ITEMS.values()
    ]
    return {"list": table(("item", "repeats", "runs", "published iterations"), lines)}
