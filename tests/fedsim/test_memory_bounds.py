"""Memory of a machine, and of control groups that bound it closer, as containers are."""

import os
from pathlib import Path

import pytest

from fedsim.ground import files

NAMES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control groups are, of which there is none; this process is in ``a/b``."""
    monkeypatch.setattr(files, "_CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(files, "_OWN_CGROUPS", tmp_path / "own")
    return tmp_path / "groups"


def bound(root: Path, kind: str, group: str, most: object, now: int, cached: int) -> None:
    """Makes a group, in which this process is."""
    folder = root / kind / group
    folder.mkdir(parents=True, exist_ok=True)
    limit, usage, cache = NAMES[kind]
    (folder / limit).write_text(f"{most}\n")
    (folder / usage).write_text(f"{now}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{cache} {cached}\n")
    (root.parent / "own").write_text(f"7:cpu:/c\n3:{kind}:/a/b\n")


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("group", ["a/b", "a", ""])  # a job's, a session's, a container's
def test_a_group_bounds_memory(root: Path, kind: str, group: str) -> None:
    """Also where its path is the host's, which a container does not see."""
    bound(root, kind, group, 1 << 20, 700_000, 100_000)
    assert files.ram() == (1 << 20, (1 << 20) - 600_000)


def test_the_closest_bound_counts_and_no_bound_does_not(root: Path) -> None:
    machine = files.ram()[0]
    bound(root, "", "a/b", "max", 700_000, 0)
    assert files.ram()[0] == machine
    bound(root, "", "a", 1 << 21, 1 << 22, 0)
    bound(root, "", "", 1 << 22, 5, 0)
    assert files.ram() == (1 << 21, 0)
    (root / "a" / "memory.max").write_text(str(1 << 62))
    assert files.ram() == (1 << 22, (1 << 22) - 5)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("", {"cpu.max": "150000 100000\n"}),
        ("cpu", {"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}),
        ("cpu,cpuacct", {"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}),
    ],
)
@pytest.mark.parametrize("group", ["a/b", "a", ""])
def test_a_group_s_share_of_time_bounds_the_cores(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str, texts: dict[str, str], group: str
) -> None:
    """A core and a half are two; without a bound those count that the process is bound to."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)))
    (root / kind / group).mkdir(parents=True)
    (root.parent / "own").write_text(f"3:memory:/c\n2:{kind}:/a/b\n")
    assert files.cores() == 7
    for name, text in texts.items():
        (root / kind / group / name).write_text(text)
    assert files.cores() == 2
    for name in texts:
        (root / kind / group / name).write_text("max 100000\n" if name == "cpu.max" else "-1\n")
    assert files.cores() == 7
