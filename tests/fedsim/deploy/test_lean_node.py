"""A SuperNode needs what the group `node` names: one message is served without the rest."""

import io
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from flwr.cli.build import build_fab_from_disk

from tests.support.markdown import ROOT

_CHILD = """
import sys
from importlib.machinery import PathFinder

ABSENT = set(sys.argv[1].split(","))

class Without(PathFinder):  # as if they were not installed
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without

import fedsim.runs.app
from flwr.app import ConfigRecord, Context, Message, RecordDict
from fedsim.engines import compat
from fedsim.federation.trainer import trainer_of
from strategies.channel.server_end import ServerEnd

compat.identify()
settings = {"clients": 3, "iterations": 8, "temporal": 2, "gradient": 0.05, "partition": "iid"}
node = {"partition-id": 0, "num-partitions": 3, "client-id": "0", "state-dir": sys.argv[2]}
context = Context(1, 1, node, RecordDict(), settings)
config = fedsim.runs.app.config_of(context)
weights = {name: p.detach() for name, p in trainer_of(config).parameters.items()}
end = ServerEnd(config.plan.method.compressor, config.plan.downlink, weights)
end.begin(1, [0])
content = end.content(0, ConfigRecord({"iterations": 2}))
reply = fedsim.runs.app.client_app(Message(content, dst_node_id=1, message_type="train"), context)
end.take(0, reply)
assert not end.traffic.failures and len(end.traffic.uplinks[0].payload) > 100, end.traffic.failures
try:
    import pandas
except ModuleNotFoundError:
    raise SystemExit(0)
raise SystemExit("the libraries are there after all")
"""
REST = (
    "ray",
    "matplotlib",
    "pandas",
    "pyarrow",
    "flwr_datasets",
    "datasets",
    "zstandard",
    "tensorboard",
    "torchvision",
)
"""What other commands, tasks and partitions need. Flower itself brings rich and tomli-w."""


@pytest.mark.slow
def test_a_client_serves_a_message_without_the_rest(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, ",".join(REST), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["install", "install-node"])
def test_make_takes_torch_from_the_index_that_it_is_given(target: str) -> None:
    told = {
        index: subprocess.run(
            ["make", "-n", "-W", "pyproject.toml", target, f"TORCH_INDEX={index}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for index in ("", "INDEX")
    }
    assert "--index-url" not in told[""] and "-c constraints.txt" in told[""]
    assert "--no-deps --index-url INDEX torch" in told["INDEX"]
    assert "-c .venv/constraints.txt" in told["INDEX"] and "^(torch|" in told["INDEX"]


def test_the_node_requirements_are_those_of_the_project() -> None:
    """The lean list is the project's without its extras."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lean = written["dependency-groups"]["node"]
    assert lean == written["project"]["dependencies"]
    names = {line.partition(">")[0] for line in lean}
    assert not names & {name.replace("_", "-") for name in REST}


@pytest.mark.slow
def test_the_bundle_has_the_three_packages_and_no_more() -> None:
    """What ``flwr run`` sends to SuperLink and SuperNodes, as ``docs/deploy.md`` has it."""
    bundle = build_fab_from_disk(ROOT)
    names = set(zipfile.ZipFile(io.BytesIO(bundle)).namelist())
    packages = ("compressors", "fedsim", "strategies")
    there = {
        str(path.relative_to(ROOT))
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".json")
    }
    assert {name for name in names if name.split("/")[0] in packages} == there
    beside = {name.split("/")[0] for name in names} - {*packages, ".info"}
    assert beside == {"LICENSE", "pyproject.toml"}
    page = " ".join((ROOT / "docs" / "deploy.md").read_text().split())
    told = re.search(r"\(([\d.]+) MB; Flower takes 10\)", page)
    assert told is not None
    assert len(bundle) / 1e6 == pytest.approx(float(told[1]), rel=0.1)
