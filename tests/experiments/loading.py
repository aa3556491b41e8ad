"""An experiment's module, as the command line loads it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from tests.markdown import ROOT


def experiment(name: str) -> Any:
    """The ``run.py`` of an experiment; its dataclasses look it up among the loaded modules."""
    spec = spec_from_file_location(name.replace("-", "_"), ROOT / "experiments" / name / "run.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
