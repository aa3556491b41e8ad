"""A SuperLink and its SuperNodes as processes on this machine, and runs through them."""

import json
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from fedsim.engines.deploy import ports, programs
from fedsim.engines.deploy.processes import Group, stop_all
from fedsim.ground.errors import RunFailed
from strategies.channel.nodes import TABLE

Tell = Callable[[str], None]
NODE_FOLDER = "nodes"  # the folder of the clients' memories, in that of the deployment

START_SECONDS = 180.0
_GONE_SECONDS = 2.0
_POLL_SECONDS = 0.1
_REGISTERED = "SuperNode ID:"


class Deployment:
    """A context in which a SuperLink and ``clients`` SuperNodes run on the loopback interface.

    The node config of SuperNode ``i`` is ``partition-id=i num-partitions=CLIENTS client-id="i"
    state-dir="FOLDER/nodes/i"``. There is neither TLS nor a key: users of this machine reach the
    port. Logs are in ``FOLDER/logs``. All processes end with the block, and with this process
    however it ends.

    Args:
        clients: how many SuperNodes.
        folder: where logs and the clients' memory go; mostly the results folder of the run.
        port: of the SuperLink; None: a free one.

    Raises ``UsageError`` where something has the port; ``RunFailed`` on entry where a process ends
    before it is ready, with its last lines.

    Example:
        with Deployment(3, Path("out")) as federation:
            federation.run({"temporal": 5}, Path("out"), print)
    """

    def __init__(self, clients: int, folder: Path, port: int | None = None) -> None:
        if port is not None:
            ports.check_port(port, "--port")
        self.clients, self.folder = clients, folder.resolve()
        self.port = port if port is not None else ports.free_ports(1)[0]
        self.nodes: dict[int, Group] = {}
        self.link: list[Group] = []
        self._run: Group | None = None
        self._runs = 0
        self._before: Any = None

    def __enter__(self) -> "Deployment":
        self._private = tempfile.TemporaryDirectory(prefix="fedsim-deploy-")
        self.private = Path(self._private.name)
        self._clients_socket = self.private / "warm.sock"
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)

        def answer(_: int, __: FrameType | None) -> NoReturn:
            raise KeyboardInterrupt

        # SIGTERM ends the block as Ctrl-C does, so that processes are stopped.
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, answer)
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def start(self, client: int) -> None:
        """Starts the SuperNode of ``client`` and waits until the SuperLink knows it."""
        self._launch(client, ports.free_ports(1)[0])
        self._wait([self.nodes[client]])

    def kill(self, client: int) -> None:
        """Kills the SuperNode of ``client`` and what it runs, as if its machine lost its power."""
        self.nodes.pop(client).kill()

    def stop(self, client: int) -> None:
        """Stops the SuperNode of ``client``, which tells the SuperLink that it leaves."""
        self.nodes.pop(client).stop()

    def run(
        self,
        settings: Mapping[str, programs.Value],
        out: Path,
        tell: Tell,
        at_work: Callable[[], bool] | None = None,
    ) -> Group:
        """Runs fedsim's app with ``settings`` and waits for its end; results are in ``out``.

        Returns the process that followed the run, whose output is all that the app said.

        Args:
            settings: of the run, as flags of ``fedsim run`` without their dashes; no defaults.
            out: the results folder.
            tell: called with every line in which the app tells of a round, and where a SuperNode
                ends.
            at_work: whether the server's app has the results folder in hand, or has left it with
                results. Flower notices after a minute that an app was killed; this notices at once.

        Raises ``RunFailed`` where the SuperLink or the server's app is killed, or the SuperLink
        refuses the run. Whether the run itself
        failed is in its ``summary.json``; Flower does not say.
        """
        self._runs += 1
        app = self.private / f"app-{self._runs}"
        programs.write_app(app, {**settings, "clients": self.clients, "out": str(out.resolve())})
        return self.run_app(app, tell, at_work)

    def run_app(
        self, app: Path, tell: Tell = print, at_work: Callable[[], bool] | None = None
    ) -> Group:
        """Runs the Flower app in the folder ``app``, as ``run`` does fedsim's.

        If a SuperNode ends meanwhile, ``tell`` reports it once.
        """
        home = self.private / "cli"
        programs.write_connection(home, self.port)
        command = [programs.find("flwr"), "run", str(app), programs.CONNECTION, "--stream"]
        self._run = run = self._group("run", "`flwr run`", command, home)
        line_count, worked = 0, 0.0
        while True:
            ended = run.ended()  # asked before the output is read: its last lines are not missed
            lines = run.output().split("\n")[:-1]
            for line in lines[line_count:]:
                if line.startswith("round "):
                    tell(line)
            line_count = len(lines)
            if ended:
                break
            for group in self.link:
                if not group.alive:
                    raise RunFailed(f"during the run {group.end()}")
            if at_work is not None and at_work():
                worked = time.monotonic()
            elif worked and time.monotonic() - worked > _GONE_SECONDS:
                raise RunFailed(f"the server's app was killed; its log: {self.link[1].log}")
            for client, group in list(self.nodes.items()):
                if not group.alive:
                    del self.nodes[client]
                    group.kill()  # and what it has left behind
                    tell(group.end())
            time.sleep(_POLL_SECONDS)
        if run.process.returncode:
            raise RunFailed(f"`flwr run` failed:{run.last_lines()}")
        return run

    def traffic(self) -> list[dict[str, int]]:
        """What Flower counted of each run, in order: bytes ``up`` to the SuperLink and ``down``."""
        command = [programs.find("flwr"), "list", programs.CONNECTION, "--format", "json"]
        environment = programs.environment(self.private / "cli")
        listed = subprocess.run(command, env=environment, capture_output=True, check=True)
        runs = sorted(json.loads(listed.stdout)["runs"], key=lambda run: run["pending-at"])
        counted = [run["network-traffic"] for run in runs]
        return [{"up": c["inbound-bytes"], "down": c["outbound-bytes"]} for c in counted]

    def _start(self) -> None:
        """SuperLink and SuperNodes, all at the same time: each takes seconds to import Flower."""
        programs.write_shim(self.private / "bin", self._clients_socket)
        warm = programs.warm(self._clients_socket)
        link = programs.superlink(self.port)
        self.link = [self._group("superlink", "the SuperLink", link, self.private / "link")]
        executor = programs.superexec(self.port)
        self.link.append(self._group("superexec", "SuperExec", executor, self.private / "link"))
        self.link.append(
            self._group("clients", "the clients' process", warm, self.private / "warm")
        )
        others = [port for port in ports.free_ports(self.clients + 1) if port != self.port]
        for client in range(self.clients):
            self._launch(client, others[client])
        self._wait(list(self.nodes.values()))

    def _launch(self, client: int, port: int) -> None:
        state = self.folder / NODE_FOLDER / str(client)
        state.mkdir(parents=True, exist_ok=True)
        settings: dict[str, str | int] = {
            "partition-id": client,
            "num-partitions": self.clients,
            "client-id": str(client),
            "state-dir": str(state),
        }
        command = programs.supernode(self.port, port, settings)
        home = self.private / f"node-{client}"  # two in one home would install the app at once
        self.nodes[client] = self._group(
            f"node-{client}", f"SuperNode {client}", command, home, self.private / "bin"
        )

    def _group(
        self, log: str, name: str, command: list[str], home: Path, first: Path | None = None
    ) -> Group:
        path = self.folder / "logs" / f"{log}.log"
        environment = programs.environment(home, first) | {TABLE: ""}  # nodes are believed
        return Group(name, command, path, environment)

    def _wait(self, nodes: list[Group]) -> None:
        """Until ``nodes`` have registered, and the SuperLink and the clients' process listen."""
        until = time.monotonic() + START_SECONDS
        link, _, clients = self.link
        while True:
            late = [node for node in nodes if not node.has_printed(_REGISTERED)]
            with socket.socket() as probe:
                if probe.connect_ex((ports.LOOPBACK, self.port)) != 0:
                    late.append(link)
            if not self._clients_socket.exists():
                late.append(clients)
            if not late:
                return
            for group in (*self.link, *nodes):
                if not group.alive:
                    code = group.process.returncode
                    raise RunFailed(
                        f"{group.name} ended at its start (exit code {code}):{group.last_lines()}"
                    )
            if time.monotonic() > until:
                raise RunFailed(
                    f"{late[0].name} is not ready after {START_SECONDS:g} s:{late[0].last_lines()}"
                )
            time.sleep(_POLL_SECONDS)

    def _close(self) -> None:
        groups = [*([self._run] if self._run else []), *self.nodes.values(), *reversed(self.link)]
        try:
            stop_all(groups)
        finally:
            self._private.cleanup()
            if self._before is not None:
                signal.signal(signal.SIGTERM, self._before)
