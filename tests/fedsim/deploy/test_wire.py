"""A client's replies over the wire of a deployment: sent twice, sent again, one byte a second."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import run
from fedsim.engines.deploy import Deployment, ports, programs
from fedsim.settings.config import from_toml
from tests.support.polling import quick_polls
from tests.support.runs import assert_same, clients

__all__ = ["quick_polls"]  # the fixture
pytestmark = [pytest.mark.slow, pytest.mark.processes]

VICTIM, ROUNDS, TIMEOUT = 1, 3, 20
PULL = "/v1/fleet/pull-messages"
PUSHES = ("/v1/fleet/push-messages", "/v1/fleet/push-object")
Push = tuple[str, bytes, dict[str, str]]
SETTINGS: dict[str, programs.Value] = {
    "iterations": 2 * ROUNDS,
    "temporal": 2,
    "gradient": 0.05,
    "evaluate-every": 1,
}


class Wire(ThreadingHTTPServer):
    """Passes one SuperNode's requests on to the SuperLink.

    Attributes:
        slow: whether replies travel with one byte a second; else all that were passed on are sent
            again whenever one has arrived.
        pushes: what was passed on.
        repeated: how often something was sent again.
        dribbled: bytes that have travelled one by one.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((ports.LOOPBACK, 0), Handler)
        self.link, self.slow, self.closed = 0, False, False
        self.pushes: list[Push] = []
        self.fresh, self.repeated, self.dribbled = False, 0, 0

    def begin(self, link: int) -> None:
        """Listens, as the SuperLink on port ``link`` would."""
        self.link = link
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def pass_on(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """The SuperLink's answer to a request."""
        if path in PUSHES:
            self.pushes.append((path, body, headers))
            self.fresh = True
        elif path == PULL and self.fresh:  # the last reply has arrived with all its parts
            self.fresh = False
            for push in self.pushes:
                self.post(*push)
                self.repeated += 1
        return self.post(path, body, headers)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """A request of its own."""
        connection = http.client.HTTPConnection(ports.LOOPBACK, self.link, timeout=60)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def dribble(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Sends a request with one byte a second, until the test is over."""
        lines = [f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        with socket.create_connection((ports.LOOPBACK, self.link)) as link:
            link.sendall("\r\n".join(lines).encode())
            for byte in body:
                if self.closed:
                    return
                link.sendall(bytes([byte]))
                self.dribbled += 1
                time.sleep(1)


class Handler(BaseHTTPRequestHandler):
    """One request of the SuperNode."""

    server: Wire
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        wire, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers.items())
        if wire.slow and self.path in PUSHES:
            wire.dribble(self.path, body, headers)
            self.close_connection = True
            return
        try:
            status, answer = wire.pass_on(self.path, body, headers)
        except OSError:  # the SuperLink has been stopped
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *words: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def deployed(
    quick_polls: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Wire, Deployment]]:
    """Two SuperNodes, one of which reaches the SuperLink through a wire that is not honest."""
    wire, command = Wire(), programs.supernode

    def through(link: int, port: int, settings: Mapping[str, str | int]) -> list[str]:
        if settings["partition-id"] == VICTIM:
            wire.begin(link)
            link = wire.server_address[1]
        return command(link, port, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "supernode", through)
        out = tmp_path_factory.mktemp("deployment")
        with Deployment(2, out) as federation:
            yield wire, federation
            wire.closed = True
    wire.shutdown()
    wire.server_close()


def test_a_reply_that_is_sent_again_is_used_once(
    deployed: tuple[Wire, Deployment], tmp_path: Path
) -> None:
    """When a reply has arrived, it is sent again with all replies before."""
    wire, federation = deployed
    federation.run(SETTINGS, tmp_path / "out", print)
    assert wire.repeated > 2 * len(wire.pushes) > 2 * ROUNDS
    run(from_toml(tmp_path / "out" / "config.toml").but(engine="local"), tmp_path / "local")
    assert_same(tmp_path / "local", tmp_path / "out")


def test_a_reply_of_one_byte_a_second_is_late_and_nobody_else_waits(
    deployed: tuple[Wire, Deployment], tmp_path: Path
) -> None:
    wire, federation = deployed
    wire.slow = False

    def tell(line: str) -> None:
        wire.slow |= line.startswith("round 1/")

    federation.run(SETTINGS | {"timeout": TIMEOUT}, tmp_path / "out", tell)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "done" and wire.dribbled > 5, summary
    frame, rows = pd.read_parquet(tmp_path / "out" / "rounds.parquet"), clients(tmp_path / "out")
    assert frame["clients"].tolist()[-2:] == [1, 1] and frame["clients"].min() == 1
    assert {*rows.loc[rows["failures"] > 0, "client"]} == {VICTIM}
    assert frame["failures"].sum() - frame["absent"].sum() == 1  # asked once, and then waited for
