"""From another machine a SuperNode comes in, and a run is refused."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim.engines.deploy import certificates, ports, programs
from fedsim.engines.deploy.certificates import Certificates, write_node_key
from fedsim.engines.deploy.processes import Group, Guard, stop_all
from strategies.channel.owners import read
from tests.support.markdown import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.slow]

JSON = ("--format", "json")


class Site:
    """A SuperLink on the loopback interface with a gate before it, as on the page."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.guard = folder, Guard()
        self.tls: Certificates = certificates.write(folder / "tls")
        self.public, self.link = ports.free(2)
        gate = [sys.executable, "-m", "fedsim.engines.deploy.gate", str(folder / "tls"),
                "--host", ports.LOOPBACK, "--port", str(self.public),
                "--link", str(self.link)]  # fmt: skip
        self.groups = [
            self.group("superlink", programs.superlink(self.link, self.tls)),
            self.group("gate", gate),
        ]

    def group(self, name: str, command: list[str]) -> Group:
        home = programs.environment(self.folder / name)
        return Group(name, command, self.folder / f"{name}.log", home, self.guard)

    def listens(self) -> None:
        """Waits until both answer."""
        until = time.monotonic() + 120
        for port in (self.link, self.public):
            with socket.socket() as client:
                while client.connect_ex((ports.LOOPBACK, port)) != 0:
                    assert time.monotonic() < until
                    time.sleep(0.1)

    def register(self, port: int, public: Path) -> subprocess.CompletedProcess[str]:
        """Asks at a port to let a key in."""
        home = self.folder / f"home-{port}"
        programs.write_connection(home, port, self.tls)
        return subprocess.run(
            programs.register({0: public}, self.folder / "clients.json"), timeout=120,
            env=programs.environment(home), capture_output=True, text=True,
        )  # fmt: skip

    def flwr(
        self, port: int, *words: str, form: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """A command of ``flwr`` from a home of its own that knows a port and ``ca.crt``."""
        home = self.folder / f"home-{port}"
        programs.write_connection(home, port, self.tls)
        return subprocess.run(
            [programs.find("flwr"), *words, programs.CONNECTION, *form], cwd=ROOT, timeout=120,
            env=programs.environment(home) | {"NO_COLOR": "1"}, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        made.listens()
        yield made
    finally:
        stop_all(made.groups)
        made.guard.close()


def joins(site: Site, name: str, key: Path | None) -> bool:
    """Whether a SuperNode that comes by the gate becomes one of the SuperLink's."""
    command = programs.supernode(site.public, ports.free(1)[0], site.tls, {"partition-id": 0}, key)
    node = site.group(name, command)
    site.groups.append(node)
    until = time.monotonic() + 120
    while node.alive and not node.said("SuperNode ID:"):
        assert time.monotonic() < until, "".join(group.last_lines(20) for group in site.groups)
        time.sleep(0.2)
    return node.said("SuperNode ID:")


def test_a_run_from_a_second_home_is_refused_and_a_node_with_a_key_comes_in(site: Site) -> None:
    known, other = (write_node_key(site.folder / name) for name in ("known", "other"))
    taken = site.register(site.link, known.public)
    assert taken.returncode == 0, taken.stdout + taken.stderr
    assert site.register(site.public, other.public).returncode != 0
    assert joins(site, "node", known.private)
    ((node, client),) = read(site.folder / "clients.json").items()
    assert client == 0 and site.groups[-1].said(f"SuperNode ID: {node}")  # the id is the key's
    assert not joins(site, "stranger", other.private) and not joins(site, "nobody", None)
    app = str(ROOT / "examples" / "quickstart")
    for words in (("run", app), ("list",), ("supernode", "list")):
        refused = site.flwr(site.public, *words)
        assert refused.returncode != 0, refused.stdout + refused.stderr
    here = site.flwr(site.link, "list", form=JSON)  # what the SuperLink's own port would give
    assert here.returncode == 0 and '"runs": []' in here.stdout, here.stdout + here.stderr
