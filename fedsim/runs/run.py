"""One run, from its settings to a folder of results."""

import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.serverapp import Grid
from safetensors.torch import save

from compressors.usercode import error_text, located
from fedsim.engines import flower, heap
from fedsim.engines.flower_memory import Carried
from fedsim.engines.flowerlog import flower_quiet
from fedsim.engines.local import LocalGrid
from fedsim.engines.processes import Processes
from fedsim.engines.remote import AppOf, RemoteGrid
from fedsim.federation import precheck, storage
from fedsim.federation.branches import forget_clients
from fedsim.federation.client import make_client_app
from fedsim.federation.client_memory import AtNode, InProcess, Memories
from fedsim.federation.clientdata import ClientData
from fedsim.federation.drivers import at_once, make_answer_several
from fedsim.federation.server import Server
from fedsim.federation.trainer import Trainer
from fedsim.federation.trainer import settings_used as trained_settings
from fedsim.ground.children import forks_train
from fedsim.ground.errors import (
    RunFailed,
    StoppedEarly,
    UsageError,
    expect,
    resumed,
    without_home,
    writing,
)
from fedsim.ground.extras import check_extra
from fedsim.ground.files import write_bytes, write_text
from fedsim.ground.sigchld import children_waited
from fedsim.ground.threads import one_thread
from fedsim.results.schema import COLUMNS, METHOD_FACTS, TRAINED, read_summary, write_run
from fedsim.runs import checkpoint, devices, lock
from fedsim.runs.callbacks import Callback, RoundRow, Several
from fedsim.runs.checkpoint import Checkpoint
from fedsim.runs.folder import as_there, check_kind, examine, prepare, tell, tidy
from fedsim.runs.progress import Named, reporter_of
from fedsim.runs.recorder import Folder, RunRecords, write_run_tables
from fedsim.runs.result import RunResult
from fedsim.runs.totals import count_unapplied, totals
from fedsim.runs.trackers import registry
from fedsim.settings.config import RunConfig
from fedsim.settings.declarations import declared
from fedsim.settings.grids import Cell
from fedsim.settings.groups import Keep
from fedsim.settings.masks import told_of
from fedsim.settings.sentconfig import SentConfig
from strategies.channel.nodes import forget

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

Engine = Callable[[Callable[[Grid], None]], None]


def run(
    config: RunConfig,
    out: Path | str | None = None,
    progress: bool = True,
    *,
    callbacks: Iterable[Callback | Callable[[RoundRow], Any]] = (),
    ray_address: str | None = None,
) -> RunResult:
    """Trains the run ``config`` and returns its summary, tables and model.

    Without a folder ``out`` everything stays in memory. In a folder a run that is done is not done
    again, and goes on where ``iterations`` is raised (``fedsim.runs.extending``); one that was
    killed goes on from its last checkpoint. Both end bit-identical to a run that never stopped.
    The folder then holds ``config.toml``, ``rounds.parquet``, ``clients.parquet``,
    ``summary.json``, ``environment.json`` and the final weights in ``model.safetensors``.

    Args:
        config: what to run.
        out: a folder, made if need be; None: nothing is written.
        progress: whether rounds are shown on stderr where that is a terminal, and in a notebook.
        callbacks: what follows the run; a function is called with every round's row.
        ray_address: a running Ray cluster for the engines ``ray`` and ``flower``, all of whose
            cores serve clients; None: one is started, of ``workers`` cores.

    Raises:
        UsageError: the folder cannot be written, belongs to other settings or to a sweep, is
            damaged, or another process writes to it; the data is missing or cannot be split as
            the settings say; a task of the user's own refuses its first batch; without a folder,
            something is to be kept.
        RunFailed: too few clients replied, or a weight is not finite; ``summary.json`` has the
            status ``failed`` and ``error.txt`` has the traceback. Or the folder cannot be written
            any more: the disk is full, or it is gone.

    Example:
        >>> result = run(RunConfig(method="sbc(0.05)", temporal=5, iterations=20))
        >>> result.summary["status"], result.rounds["round"].tolist()
        ('done', [1, 2, 3, 4])
    """
    expect(config, RunConfig, "run()")
    if callable(progress):
        raise UsageError(f"progress is {progress!r}: give a function as callbacks=[...]")
    if not isinstance(callbacks, Iterable):
        raise UsageError(f"callbacks is {callbacks!r}: give a list, callbacks=[...]")
    folder = None if out is None else Path(out)
    if folder is not None:
        (config,) = as_there([config], folder)
    plan, name = config.plan, Cell.of(config).name
    with reporter_of(progress, {name: plan.rounds}, plan.task.metric_name) as tell:
        follower = Several([*callbacks, *([Named(name, tell)] if tell else [])])
        return carry_out(config, folder, *engine_of(config, ray_address), follower)


def engine_of(config: RunConfig, address: str | None = None) -> tuple[Memories, Engine]:
    """The clients' memory, and the engine of ``config``; ``address``: of a running Ray cluster."""
    engine, workers = config.machine.engine, config.machine.workers
    if address is not None and (engine == "local" or workers != 1):
        what = f"--engine is {engine!r}" if engine == "local" else f"--workers is {workers}"
        raise UsageError(
            f"--ray-address is {address!r} and {what}: a cluster is for --engine ray or flower, "
            "and all of its cores serve clients"
        )
    if engine != "local":
        check_extra("ray", f"--engine {engine}")
    gpus, clients = devices.gpus_per_client(config), config.plan.clients
    if engine == "flower":
        sent, memories = SentConfig(config), Carried()
        app = make_client_app(lambda _: sent.config, AtNode())
        return memories, lambda main: flower.simulate(
            main, app, clients, workers, memories, address, gpus
        )
    states = storage.states_of(config)  # with ray they travel with messages

    def on_actors(main: Callable[[Grid], None]) -> None:
        from fedsim.engines import workers as actors  # importing Ray takes a second

        with actors.on_ray(app_of(config), clients, states, workers, address, gpus) as grid:
            main(grid)

    def in_process(main: Callable[[Grid], None]) -> None:
        with closing(grid_of(config, states)) as grid:
            main(grid)

    return states, on_actors if engine == "ray" else in_process


def app_of(config: RunConfig) -> AppOf:
    """What makes the clients' app of a run, here or in another process."""
    sent = SentConfig(config)
    return partial(make_client_app, lambda _: sent.config)


def grid_of(config: RunConfig, states: InProcess) -> LocalGrid | RemoteGrid:
    """The grid of a run: its clients train in this process, or in as many as it has workers."""
    clients = config.plan.clients
    workers = min(config.machine.workers, clients)  # a client has one message at a time
    if workers > 1:
        device = config.machine.device
        spawned = device != "cpu" or not forks_train()
        environment = partial(devices.worker_environment, device)
        processes = Processes(app_of(config), workers, spawned, environment)
        return RemoteGrid(app_of(config), clients, states, processes)
    return LocalGrid(
        app_of(config)(states),
        clients,
        make_answer_several(config, states),
        at_once(config),
        numbered=True,
        end=partial(forget_clients, config),
    )


def check_run(config: RunConfig) -> None:
    """Refuses, before anything is written, a device, a batch, data or a split that cannot be."""
    devices.check_device(config.machine.device)
    precheck.check_trainable(config)
    registry.check_tracker(config.keep.track)


@one_thread()
@children_waited()
@flower_quiet()
def carry_out(
    config: RunConfig,
    out: Path | None,
    states: Memories,
    engine: Engine,
    follower: Callback,
    extendable: bool = True,
) -> RunResult:
    """The body of ``run`` over any engine: a function that takes the server and gives it a grid.

    The server works on one torch thread, as every worker does. ``extendable``: whether a small
    memory is kept unasked, from which a longer run goes on.
    """
    check_run(config)
    storage.check_storage(config, out)
    if out is None:
        check_kept(config)
        return _trained(config, None, states, engine, follower)
    check_kind(out)
    with lock.locked(out):
        examined = examine(config, out)
        tell([(out, examined)])
        with writing(out):
            finished = prepare(config, out, examined)
        if finished is not None:
            return RunResult(config, finished, out)
        follower = Several([*registry.trackers(config.keep.track, out), follower])
        return _trained(config, Folder(out, config), states, engine, follower, extendable)


def check_kept(config: RunConfig) -> None:
    """Refuses to keep what goes to a folder, where there is none."""
    for setting in declared(Keep, "keep"):
        if (value := getattr(config.keep, setting.attr)) != setting.default:
            raise UsageError(f"{setting.flag} is {value}: it goes to a run's folder; give out")


def _trained(
    config: RunConfig,
    folder: Folder | None,
    states: Memories,
    engine: Engine,
    follower: Callback,
    extendable: bool = False,
) -> RunResult:
    server, records = server_of(config, states, follower, folder)
    description, path = describe_run(config, server.trainer), folder.path if folder else None
    try:
        follower.begin(description, records.follower_rows)
        engine(server.main if folder is None else folder.recording(server.main))
    except Exception as error:
        summary = broken_off(description, records, server, error)
        failed = not isinstance(error, StoppedEarly)
        trace = "".join(traceback.format_exception(error)) if failed else ""
        with suppress(OSError):  # the disk may be what failed: the first error is raised
            if path is not None:
                _leave(path, records, summary, trace)
        follower.end(summary)
        raise
    tables, weights = records.frames(), server.model
    summary = summary_of(description, records, server, tables)
    if folder is None or path is None:
        result = RunResult(config, summary, None, tables, weights)
    else:
        folder.check()
        with writing(path):
            write_bytes(path / "model.safetensors", save(weights))
            write_run_tables(path, tables)
            checkpoint.forget_end(path)  # an earlier attempt may have left one
            keeps_end = config.keep.checkpoint or extendable
            if keeps_end and records.states is not None and states.is_local:
                end = records.memory(server)  # from which a longer run would go on
                if config.keep.checkpoint or end.bytes <= checkpoint.KEPT_BYTES:
                    checkpoint.save_end(path, end, tables)
            write_run(path, summary)
            tidy(path)
        if not states.is_local:  # now that the results are: a kill before this only leaves it there
            engine(lambda grid: forget(grid, server.strategy.end.channel_id))
        result = RunResult(config, read_summary(path), path)
    follower.end(result.summary)
    return result


def _leave(folder: Path, records: RunRecords, summary: dict[str, Any], trace: str) -> None:
    """Writes the tables, the summary and the error's traceback of a run that was broken off."""
    if records.rows:
        write_run_tables(folder, records.frames())
    if trace:
        write_text(folder / "error.txt", without_home(trace))
    write_run(folder, summary)
    if not trace:
        tidy(folder)


def server_of(
    config: RunConfig,
    states: Memories,
    follower: Callback,
    folder: Folder | None = None,
    before: Checkpoint | None = None,
) -> tuple[Server, RunRecords]:
    """The server of a run and its records: from the start, from ``before`` or the folder's."""
    heap.keep()
    trainer = Trainer(config, ClientData.of(config))
    # A server that does not wait keeps nothing where clients, who may be ahead, have their memory.
    clock = config.plan.algorithm.clock
    remembered = states if clock == "rounds" or states.is_local else None
    before = folder.loaded if folder is not None and remembered is not None else before
    if before is not None and bool(before.clients) != states.is_local:
        before = None  # of another engine: whose clients' memory is elsewhere
    place = None if folder is None else folder.path
    states.begin(place, remembered is not None, before.clients if before else None)
    records = RunRecords(config, follower, remembered, before, folder)
    return Server(config, trainer, records), records


def describe_run(config: RunConfig, trainer: Trainer | None) -> dict[str, Any]:
    """The first columns of a run's summary, which are known before it starts.

    ``trainer``: None where a run failed before there was a model.
    """
    plan = config.plan
    settings = {**config.flat(), **config.filled()}
    description = {name: settings[name] for name in COLUMNS if name in settings} | {
        "rounds": plan.rounds,
        "temporal": plan.temporal,
        "metric_name": plan.task.metric_name,
        "higher_is_better": plan.task.higher_is_better,
        "total_sparsity": plan.method.gradient / plan.temporal,
        METHOD_FACTS: told_of(config, plan),
    }
    if plan.by_client:  # its iterations follow from the clients that take part
        description |= {"total_sparsity": None}
    for name in ("local_epochs", "local_seconds"):
        if (work := getattr(plan, name)) is not None:
            description[name] = work
    if trainer is None:
        return description
    return description | {
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "trained_parameters": sum(p.numel() for p in trainer.parameters.values()),
        "data_source": trainer.federation.data.source,
        "scored_samples": len(trainer.scored_samples),
        TRAINED: trained_settings(config, trainer.parameters.values()),
    }


def broken_off(
    description: dict[str, Any], records: RunRecords, server: Server, error: Exception
) -> dict[str, Any]:
    """The summary of a run that ``error`` has ended: what failed before, and why it ended.

    One that was stopped where its model was scored has the numbers of a run that is done.
    """
    summary = description | records.failures()
    if isinstance(error, StoppedEarly):
        scored = records.rows and not math.isnan(records.rows[-1]["metric"])
        if scored:
            summary = summary_of(description, records, server, records.frames())
        return summary | {"status": "stopped", "error": error_text(error)}
    message = error_text(error) if isinstance(error, RunFailed) else located(error)
    return summary | {"status": "failed", "error": without_home(resumed(message, error))}


def summary_of(
    description: dict[str, Any],
    records: RunRecords,
    server: Server,
    tables: Mapping[str, "pd.DataFrame"],
) -> dict[str, Any]:
    """The summary of a run that is done; ``tables``: ``records.frames()``."""
    channel = server.strategy.end
    entries = sum(x.numel() for x in server.initial.values())
    controlled = records.config.controller is not None
    held: dict[str, float] = {}
    in_rounds = records.config.plan.algorithm.clock == "rounds"  # else updates are always under way
    if in_rounds and records.states is not None and records.states.is_local:
        memory_as = records.config.machine.memory_as
        held = count_unapplied(channel, records.states.copy(), description["clients"], memory_as)
    epochs = records.config.plan.by_client
    results = totals(
        tables["rounds"], tables["clients"], description, entries, controlled, epochs, held
    )
    return description | results | {"status": "done", "error": None}
