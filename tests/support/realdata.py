"""Where tests find real data sets: nothing is downloaded, what is not there is not tested.

That is for a user's machine. Where $CI is set and ../shared lies beside the checkout, as it does
for the project's own runs, a missing set fails the test: a skip that nobody reads tests nothing.
"""

import os
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def folder_with(name: str) -> Path:
    """The data folder that holds ``name``: `$FEDSIM_DATA`, or ../shared/data of the checkout."""
    named = os.environ.get("FEDSIM_DATA")
    for folder in (Path(named) if named else _SHARED, _SHARED):
        if (folder / name).is_dir():
            return folder
    if os.environ.get("CI") and _SHARED.parent.is_dir():
        pytest.fail(f"{name} is not in {_SHARED.parent.name}/{_SHARED.name}, which CI has")
    pytest.skip(f"{name} is neither in $FEDSIM_DATA nor in ../shared/data")
