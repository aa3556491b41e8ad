"""Where tests find real data sets: nothing is downloaded, what is not there is not tested."""

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
    pytest.skip(f"{name} is neither in $FEDSIM_DATA nor in ../shared/data")
