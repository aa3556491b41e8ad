"""One run, from its settings to a folder of results."""

import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid
from safetensors.torch import save

from fedsim.engines import flower, heap, local
from fedsim.federation import ledger, trial
from fedsim.federation.client_memory import AtNode, InProcess
from fedsim.federation.clientdata import ClientData
from fedsim.federation.drivers import at_once, make_client_app, make_together
from fedsim.federation.events import EventServer
from fedsim.federation.held import held
from fedsim.federation.server import Server
from fedsim.federation.sharding import ShardServer
from fedsim.federation.trained import entries as trained_entries
from fedsim.federation.trained import settings as trained_settings
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import RunFailed, StoppedEarly, UsageError, expect, without_home, writing
from fedsim.ground.files import write_bytes, write_text
from fedsim.results.schema import COLUMNS, TOLD, TRAINED, read_summary, write_run
from fedsim.runs import devices, lock, tensorboard
from fedsim.runs.cargo import Cargo
from fedsim.runs.folder import check_kind, examine, prepare, tidy
from fedsim.runs.progress import shown
from fedsim.runs.recorder import FolderRecorder, Progress
from fedsim.settings.config import RunConfig
from fedsim.settings.grids import Cell
from fedsim.settings.methods import told

Engine = Callable[[Callable[[Grid], None]], None]

SERVERS: dict[str, type[Server]] = {"rounds": Server, "server": EventServer, "shards": ShardServer}
"""The server's loop, by what drives the strategy (``fedsim.settings.strategies``)."""


def run(
    config: RunConfig,
    out: Path | str,
    progress: Progress | bool | None = True,
    *,
    ray_address: str | None = None,
) -> dict[str, Any]:
    """Runs ``config`` in the folder ``out`` and returns its summary (``summary.json``).

    A run that is done is not done again, and goes on where ``iterations`` is raised
    (``fedsim.runs.extending``); one that was killed goes on from its last checkpoint. Both end
    bit-identical to a run that never stopped. The folder then holds
    ``config.toml``, ``rounds.parquet``, ``clients.parquet``, ``summary.json``,
    ``environment.json`` and the final weights in ``model.safetensors``.

    Args:
        config: what to run.
        out: a folder, made if need be.
        progress: called with every round's row; True: shown on stderr where stderr is a terminal,
            and in a notebook; False or None: not shown.
        ray_address: a running Ray cluster for the engine ``flower``, all of whose cores serve
            clients; None: one is started, of ``workers`` cores.

    Raises:
        UsageError: the folder cannot be written, belongs to other settings or to a sweep, is
            damaged, or another process writes to it; the data is missing or cannot be split as
            the settings say; a task of the user's own refuses its first batch.
        RunFailed: too few clients replied, or a weight is not finite; ``summary.json`` says
            ``failed`` and ``error.txt`` has the traceback. Or the folder cannot be written any
            more: the disk is full, or it is gone.
    """
    expect(config, RunConfig, "run()")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # its strategies write two lines per round
    plan, name = config.plan, Cell.of(config).name
    by_name: Any = progress if not callable(progress) else lambda _, row: progress(row)
    with shown(by_name, {name: plan.rounds}, plan.task.metric_name) as tell:
        by_row = None if tell is None else partial(tell, name)
        return carry_out(config, Path(out), *_engine(config, ray_address), by_row)


def _engine(config: RunConfig, address: str | None = None) -> tuple[InProcess | None, Engine]:
    """The clients' memory, where this process holds it, and the engine of ``config``."""
    if address is not None and (config.machine.engine != "flower" or config.machine.workers != 1):
        what = "--engine" if config.machine.engine != "flower" else "--workers"
        value = config.machine.engine if what == "--engine" else config.machine.workers
        raise UsageError(
            f"--ray-address is {address!r} and {what} is {value!r}: a cluster is for --engine "
            "flower, and all of its cores serve clients"
        )
    cargo, clients, workers = Cargo(config), config.plan.clients, config.machine.workers
    if config.machine.engine == "flower":
        app = make_client_app(lambda _: cargo.config, AtNode())
        gpus = devices.gpus_per_client(config)
        return None, lambda main: flower.simulate(main, app, clients, workers, address, gpus)
    states = InProcess()
    app, together = make_client_app(lambda _: cargo.config, states), make_together(config, states)
    return states, lambda main: local.simulate(
        main, app, clients, workers, together, at_once(config)
    )


@devices.one_thread()
def carry_out(
    config: RunConfig,
    out: Path,
    states: InProcess | None,
    engine: Engine,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The body of ``run`` over any engine: a function that takes the server and gives it a grid.

    The server works on one torch thread, as every worker does.
    """
    devices.check(config.machine.device)
    trial.check(config)
    tensorboard.check(config.keep.tensorboard)
    ClientData.of(config)  # missing data and bad splits are refused before anything is written
    check_kind(out)
    with lock.held(out):
        return _locked(config, out, states, engine, progress)


def _locked(
    config: RunConfig,
    out: Path,
    states: InProcess | None,
    engine: Engine,
    progress: Progress | None,
) -> dict[str, Any]:
    found = examine(config, out)
    with writing(out):
        finished = prepare(config, out, found)
    if finished is not None:
        return finished
    heap.keep()
    trainer = Trainer(config, ClientData.of(config))
    # Of a server that does not wait nothing is kept: its messages are always under way.
    clock = config.plan.algorithm.clock
    kept = states if clock == "rounds" else None
    recorder = FolderRecorder(out, config, kept, progress, trained_entries(trainer))
    server = SERVERS[clock](config, trainer, recorder)
    try:
        engine(server.main)
    except Exception as error:
        with suppress(OSError):  # the disk may be what failed: the first error is told
            _fail(config, out, recorder, trainer, error)
        raise
    with writing(out):
        return _finish(config, out, recorder, server)


def describe(config: RunConfig, trainer: Trainer | None) -> dict[str, Any]:
    """What is known of a run before it starts: the first columns of its summary.

    ``trainer``: None where a run failed before there was a model.
    """
    plan = config.plan
    settings = {**config.flat(), **config.filled()}
    known = {name: settings[name] for name in COLUMNS if name in settings} | {
        "rounds": plan.rounds,
        "metric_name": plan.task.metric_name,
        "higher_is_better": plan.task.higher_is_better,
        "total_sparsity": plan.method.gradient / plan.temporal,
        TOLD: told(config.method, plan.method.text, plan.method.gradient),
    }
    if trainer is None:
        return known
    return known | {
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "trained_parameters": trained_entries(trainer),
        "data_source": trainer.federation.data.source,
        TRAINED: trained_settings(config, trainer.parameters.values()),
    }


def _finish(
    config: RunConfig, out: Path, recorder: FolderRecorder, server: Server
) -> dict[str, Any]:
    exchange = server.strategy.exchange
    assert exchange is not None
    buffers = server.strategy.buffers.values if server.strategy.buffers else {}
    moved = {n: x for n, x in exchange.weights.items() if n in server.trainer.parameters}
    whole = server.trainer.frozen | moved | buffers
    weights = {n: x.contiguous().cpu() for n, x in whole.items()}
    write_bytes(out / "model.safetensors", save(weights))
    rounds, clients = recorder.frames()
    summary = describe(config, server.trainer) | ledger.per_participation(rounds)
    summary |= ledger.of_federation(rounds, summary["clients"]) | ledger.failed(rounds, clients)
    if recorder.states is not None:
        summary |= held(exchange, recorder.states.copy(), summary["clients"])
    if "sim_seconds" in rounds:
        summary["sim_seconds"] = float(rounds["sim_seconds"].sum())
    summary |= {
        "up_share": ledger.share(rounds, summary["trained_parameters"]),
        "iterations": int(rounds["iteration"].iloc[-1]),  # fewer where it stopped at its bits
        "rounds": len(rounds),
        "metric": float(rounds["metric"].iloc[-1]),
        "loss": float(rounds["loss"].iloc[-1]),
        "seconds": float(rounds["seconds"].sum()),
        "status": "done",
        "error": None,
    }
    if config.controller is not None:  # n and p moved: what they were on average
        fractions = float(rounds["sent_fraction"].sum())
        summary["total_sparsity"] = fractions / summary["iterations"]
    for kind in ("wire", "content"):
        up_bits = summary[f"up_{kind}_bits"]
        summary[f"ratio_{kind}"] = ledger.ratio(
            summary["trained_parameters"], summary["iterations"], up_bits
        )
    recorder.write_frames()
    recorder.keep_end(server)
    write_run(out, summary)
    tidy(out)
    return read_summary(out)


def _fail(
    config: RunConfig, out: Path, recorder: FolderRecorder, trainer: Trainer, error: Exception
) -> None:
    """Leaves what there is of a failed or stopped run, its unused replies too, and why it ended."""
    summary = describe(config, trainer)
    if recorder.rows:
        recorder.write_frames()
        summary |= ledger.failed(*recorder.frames())
    if isinstance(error, StoppedEarly):
        write_run(out, summary | {"status": "stopped", "error": str(error)})
        tidy(out)
        return
    write_text(out / "error.txt", without_home("".join(traceback.format_exception(error))))
    reason = str(error) if isinstance(error, RunFailed) else f"{type(error).__name__}: {error}"
    write_run(out, summary | {"status": "failed", "error": without_home(reason)})
