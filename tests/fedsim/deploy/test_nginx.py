"""The commands of docs/deploy.md, with nginx: a SuperNode with a key is served, others are not."""

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.control_pb2 import ListRunsRequest, ListRunsResponse
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from google.protobuf.message import Message

from fedsim.engines.deploy import ports, programs
from fedsim.engines.deploy.processes import Group, stop_all
from tests.support.markdown import ROOT, blocks

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]

PAGE = ROOT / "docs" / "deploy.md"
STRANGER = "127.0.0.2"  # of the loopback interface, too: limits are per address
APP = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server_app = ServerApp()
client_app = ClientApp()

@server_app.main()
def main(grid, context):
    node, = grid.get_node_ids()
    request = Message(RecordDict(), dst_node_id=node, message_type="train")
    reply, = grid.send_and_receive([request], timeout=60)
    print("the reply has", reply.content["update"].count_bytes(), "bytes", flush=True)

@client_app.train()
def train(message, context):
    update = ArrayRecord({"update": Array(np.zeros(3_000_000, np.float32))})
    return Message(RecordDict({"update": update}), reply_to=message)
"""
_BODY = "application/protobuf"


class Site:
    """A SuperLink with nginx in front and one SuperNode, by the commands of the page.

    Attributes:
        public, link: the ports of nginx and of the SuperLink.
        nodes: the node ids of ``node-0``, which the SuperNode has, and of ``node-1``.
        trust: what a client of nginx has, who knows ``ca.crt`` alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.public, self.link = ports.free_ports(2)
        self.groups: list[Group] = []

    def start_all(self) -> None:
        """By the commands of the page; returns when the SuperNode is one of the SuperLink's."""
        folder = self.folder
        self.shell(self.block("openssl"))
        self.trust = ssl.create_default_context(cafile=folder / "ca.crt")
        self.trust.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does
        self.superlink = self.start("superlink", self.block("flower-superlink --host"))
        self.nginx = self.start("nginx", f"{NGINX} -p {folder} -c {self.configured()}")
        self.wait(lambda: self.listens(self.link) and self.listens(self.public))
        self.connect("home", self.link)
        programs.write_app(folder / "app", {})
        (folder / "app" / "fedsim_deployed.py").write_text(APP)
        self.nodes = [self.register(f"node-{client}") for client in range(2)]
        self.node = self.start("supernode", self.block("flower-supernode --superlink"))
        self.wait(lambda: self.node.has_printed("SuperNode ID:"))

    def block(self, start: str) -> str:
        """The commands of the page's block that has ``start``, with the site's ports and folder."""
        text = next(b.text for b in blocks(PAGE) if start in b.text)
        text = re.sub(r"/etc/fedsim|/var/lib/fedsim", str(self.folder), text)
        text = text.replace("LINK", "localhost")
        return text.replace("8001", str(self.link)).replace("8000", str(self.public))

    def configured(self) -> Path:
        """The configuration that the documentation ships, in one for a user without rights."""
        shipped = (ROOT / "docs" / "nginx-superlink.conf").read_text(encoding="utf-8")
        shipped = shipped.replace("/etc/fedsim", str(self.folder))
        shipped = shipped.replace("8001", str(self.link)).replace("8000", str(self.public))
        temporary = "".join(
            f"{kind}_temp_path {self.folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "" if os.getuid() else "user root;\n"  # or the workers cannot enter the folder
        path = self.folder / "nginx.conf"
        path.write_text(
            f"{user}daemon off; pid {self.folder}/nginx.pid; error_log stderr;\n"
            f"events {{}}\nhttp {{\n{temporary}{shipped}}}\n"
        )
        return path

    def environment(self, home: str = "home") -> dict[str, str]:
        return programs.environment(self.folder / home) | {"NO_COLOR": "1"}

    def start(self, name: str, command: str) -> Group:
        """A program of the recipe, in a shell."""
        log, home = self.folder / f"{name}.log", self.environment(name)
        command = f"cd '{self.folder}' && exec env {command}"
        self.groups.append(Group(name, ["sh", "-c", command], log, home))
        return self.groups[-1]

    def shell(self, text: str) -> str:
        """Runs a block of the page to its end; returns its output."""
        done = subprocess.run(
            ["sh", "-e", "-c", text],
            cwd=self.folder,
            env=self.environment(),
            timeout=60,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def connect(self, home: str, port: int) -> None:
        """The page's ``config.toml``, for a port."""
        (self.folder / home).mkdir(exist_ok=True)
        text = self.block("[superlink.link]").replace(str(self.link), str(port))
        (self.folder / home / "config.toml").write_text(text)

    def register(self, key: str) -> int:
        """Makes and registers a key; returns its node id."""
        block = self.block("flwr supernode register").replace("node-0", key)
        output = self.shell(block)
        node = re.search(r"SuperNode (\d+) registered", output)
        assert node is not None, output
        return int(node[1])

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not condition():
            logs = "".join(group.last_lines(20) for group in self.groups)
            assert time.monotonic() < until and all(g.alive for g in self.groups), logs
            time.sleep(0.1)

    def listens(self, port: int) -> bool:
        with socket.socket() as client:
            return client.connect_ex((ports.LOOPBACK, port)) == 0

    def connection(self, port: int, source: str = STRANGER) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "localhost", port, timeout=30, context=self.trust, source_address=(source, 0)
        )

    def post(
        self,
        path: str,
        message: Message,
        headers: dict[str, str] | None = None,
        port: int = 0,
        source: str = STRANGER,
    ) -> tuple[int, bytes]:
        """Status and body that answer one request, by default of a stranger to nginx."""
        connection = self.connection(port or self.public, source)
        with ExitStack() as stack:
            stack.callback(connection.close)
            sent = {"content-type": _BODY, "accept": _BODY} | (headers or {})
            connection.request("POST", path, message.SerializeToString(), sent)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def key(self, name: str) -> ec.EllipticCurvePrivateKey:
        key = load_ssh_private_key((self.folder / name).read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def runs(self) -> int:
        """How many runs the SuperLink has had."""
        status, body = self.post("/v1/control/list-runs", ListRunsRequest(), port=self.link)
        assert status == 200
        return len(ListRunsResponse.FromString(body).run_dict)


def signed(key: ec.EllipticCurvePrivateKey, age: timedelta = timedelta(0)) -> dict[str, str]:
    """The headers with which a SuperNode shows that it has ``key``."""
    stamp, public = (now() - age).isoformat(), public_key_to_bytes(key.public_key())
    return {
        "flwr-timestamp": stamp,
        "flwr-public-key": b64encode(public).decode(),
        "flwr-signature": b64encode(sign_message(key, stamp.encode())).decode(),
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        site.start_all()
        yield site
    finally:
        stop_all(site.groups)


def test_control_is_refused_from_outside(site: Site) -> None:
    site.connect("outside", site.public)
    flwr = [programs.find("flwr"), "run", str(ROOT / "examples" / "quickstart"), "link"]
    environment = site.environment("outside")
    refused = subprocess.run(flwr, env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "403" in refused.stdout + refused.stderr
    for path in (
        "/v1/control/list-runs",
        "//v1/control/list-runs",
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
        "/v1/fleet/..%2fcontrol/list-runs",
        "/v1/fleet/",
        "/v1/control/list-runs?/v1/fleet/pull-messages",
        "/v1/runtime/pull-messages",
        "/docs",
    ):
        assert site.post(path, ListRunsRequest())[0] == 403, path
    assert site.post("/v1/control/list-runs", ListRunsRequest(), port=site.link)[0] == 200
    assert site.runs() == 0


def test_a_node_shows_its_own_key_and_a_new_time_stamp(site: Site) -> None:
    own, other = site.key("node-0"), site.key("node-1")
    stranger = ec.generate_private_key(ec.SECP384R1())
    path, message = "/v1/fleet/pull-messages", PullMessagesRequest(node=Node(node_id=site.nodes[1]))
    assert site.post(path, message, signed(other))[0] == 200
    assert site.post(path, message, signed(own))[0] == 401  # another node's id
    assert site.post(path, message, signed(other, timedelta(minutes=10)))[0] == 401
    assert site.post(path, message)[0] == 401
    assert site.post(path, message, signed(stranger))[0] == 401
    public = public_key_to_bytes(stranger.public_key())
    for path, joins in {
        "/v1/fleet/register-node": RegisterNodeFleetRequest(public_key=public),
        "/v1/fleet/activate-node": ActivateNodeRequest(public_key=public, heartbeat_interval=30),
    }.items():
        status, body = site.post(path, joins, signed(stranger))
        assert 400 <= status < 500, (path, body)


def memory(process: int) -> int:
    """The most bytes that a process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_before_flower_reads_it(site: Site, chunked: bool) -> None:
    before, size = memory(site.superlink.process.pid), 300 << 20
    connection = site.connection(site.public)
    connection.putrequest("POST", "/v1/fleet/push-messages")
    connection.putheader("content-type", _BODY)
    connection.putheader(*("transfer-encoding", "chunked") if chunked else ("content-length", size))
    connection.endheaders()
    part = bytes(1 << 20)
    for _ in range(9):
        connection.send(b"100000\r\n" + part + b"\r\n" if chunked else part)
    assert connection.getresponse().status == 413
    connection.close()
    assert memory(site.superlink.process.pid) < before + (20 << 20)


def stalled(site: Site, number: int) -> socket.socket:
    """A peer that connects, one that has also done the handshake, or one that stops in a body."""
    plain = socket.create_connection(("localhost", site.public), 30, (STRANGER, 0))
    if number % 3 == 0:
        return plain
    peer = site.trust.wrap_socket(plain, server_hostname="localhost")
    if number % 3 == 1:
        peer.sendall(
            b"POST /v1/fleet/push-messages HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/protobuf\r\ncontent-length: 1000\r\n\r\nabc"
        )
    return peer


def test_a_supernode_is_served_among_a_hundred_stalled_peers(site: Site) -> None:
    message, key = PullMessagesRequest(node=Node(node_id=site.nodes[1])), site.key("node-1")
    logged = site.superlink.output().count("\n")
    with ExitStack() as stack:
        peers = [stack.enter_context(stalled(site, number)) for number in range(100)]
        path, home = "/v1/fleet/pull-messages", ports.LOOPBACK
        assert site.post(path, message, signed(key), source=home)[0] == 200
        assert site.superlink.output().count("\n") <= logged + 2
        output = site.shell("flwr run ./app link --stream")
        assert "the reply has 12000" in output, output + site.node.last_lines()
        for peer in peers:
            peer.settimeout(20)
            with suppress(ConnectionResetError):
                while peer.recv(1 << 16):  # an answer such as 408; then nginx has closed it
                    pass
    assert site.runs() == 1 and all(group.alive for group in site.groups)
