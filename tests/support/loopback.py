"""A SuperLink and SuperNodes as processes of this machine, on free loopback ports."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
SECONDS = 300


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Federation:
    """A SuperLink and SuperNodes; their logs lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "flower"
        self.home.mkdir(parents=True)
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        (self.home / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        self.environment = os.environ | {
            "FLWR_HOME": str(self.home), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        }  # fmt: skip

    def start(self, nodes: int) -> None:
        """Starts them all."""
        self._start(
            "flower-superlink", "--insecure", "--disable-runtime-dependency-installation",
            "--host", "127.0.0.1", "--port", str(self.port),
        )  # fmt: skip
        self._wait(self.port)
        for number in range(nodes):
            self._start(
                "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}",
                "--host", "127.0.0.1", "--port", str(free_port()),
                "--node-config", f"partition-id={number} num-partitions={nodes}",
            )  # fmt: skip

    def _start(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}-{len(self.processes)}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(
                [str(BIN / program), *arguments], env=self.environment, stdout=log, stderr=log,
                start_new_session=True,
            ))  # fmt: skip

    def _wait(self, port: int) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"the SuperLink does not listen: see {self.folder}")

    def flwr(self, *arguments: str) -> str:
        """What a command of Flower's prints."""
        done = subprocess.run(
            [str(BIN / "flwr"), *arguments], env=self.environment, capture_output=True, text=True,
            timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, app: Path, config: str = "") -> dict[str, Any]:
        """Runs the app in a folder to its end; what ``flwr list`` says of the run."""
        more = ("--run-config", config) if config else ()
        started = json.loads(self.flwr("run", str(app), *more, "--format", "json"))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            listed = json.loads(self.flwr("list", "--format", "json"))["runs"]
            (run,) = [one for one in listed if str(one["run-id"]) == str(started["run-id"])]
            if str(run["status"]).startswith("finished"):
                return dict(run)
            time.sleep(1)
        raise TimeoutError(f"the run does not end: see {self.folder}")

    def close(self) -> None:
        """Ends every process, and what each has started."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


@contextmanager
def federation(folder: Path, nodes: int) -> Iterator[Federation]:
    """A federation that is gone in the end."""
    made = Federation(folder)
    try:
        made.start(nodes)
        yield made
    finally:
        made.close()
