"""The search from settings to results: which way of saving bits is best for a task."""

import shlex
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import tomli_w

from fedsim.ground import units
from fedsim.ground.errors import RunFailed, UsageError, writing
from fedsim.ground.files import write_text
from fedsim.network.quantities import quantity
from fedsim.results.neutral import csv_text
from fedsim.runs import lock
from fedsim.runs.folder import as_there, goes_on
from fedsim.runs.sweep import check_folder, check_sweep
from fedsim.search import record
from fedsim.search.exploration import Exploration, Limits, Say
from fedsim.search.finals import Finalist, Finals, winner
from fedsim.search.goal import SATURATED, Goal
from fedsim.search.methods import select_methods
from fedsim.search.page import SearchResult, search_page
from fedsim.search.picture import draw_trials
from fedsim.search.space import Sizes, Space, fitting
from fedsim.search.study import Study, journal
from fedsim.settings import trust_check
from fedsim.settings.config import SETTINGS, RunConfig, tables
from fedsim.settings.foreign import own_files
from fedsim.settings.grids import Cell
from fedsim.settings.versions import read_settings_toml, stamped
from fedsim.show.plot.paper import save, without_rc

VALIDATION, SEEDS, TIME = 0.2, 3, "10min"
_ALWAYS = ("task", "method", "temporal", "seed")  # in best.toml
_KEPT = "2"  # what a study keeps of its trials; one that kept less is not gone on with


def search(
    base: RunConfig,
    out: Path | str,
    *,
    budget: str | float | None = None,
    target: float | None = None,
    methods: str | Sequence[str] = "published",
    time: str | float | None = None,
    trials: int | None = None,
    seeds: int = SEEDS,
    jobs: int = 1,
    ray_address: str | None = None,
    rows: str | None = None,
    say: Say = print,
) -> SearchResult:
    """Searches method, n, p, coder, rates and downlink for a task, in the folder ``out``.

    The same call goes on where it was stopped. Scores come from a validation part of the training
    samples (``base.validation``, 0.2 where it is None); the best run again on fresh seeds.

    Args:
        base: the task and the shared settings; the search of rates begins at its rates.
        out: a folder, made if need be; trials are its ``cells``.
        budget: bits of a client, such as ``"2Mbit"``, for the best metric within them. Upstream
            bits count; with ``base.budget_of`` ``total``, those of both ways. Then the downlink is
            searched, too, unless ``base`` gives one.
        target: the metric that is to be reached with the fewest bits.
        methods: ``"published"``, ``"all"`` or texts (``fedsim.search.methods.select_methods``).
        time: for everything but the preparation, over all calls: ``"30min"``; None: 10 minutes
            without ``trials``.
        trials: how many, in place of a time. Every method gets the same number, so a multiple of
            the number of methods is best.
        seeds: fresh seeds per finalist.
        jobs: runs at the same time, in processes forked from this one; 1 runs them in it.
        ray_address: a Ray cluster to run on.
        rows: the file of methods of your own that the command on the page names; it is not read.
        say: takes a line of progress.

    Raises ``UsageError`` before any work: bad settings, an unknown method, a budget below one
    message of every method; ``RunFailed`` where the time is over before any trial, or the disk is
    full.

    Example:
        found = search(RunConfig(task="digits"), "results", budget="100kbit", trials=20)
    """
    out, base = Path(out), _base(base)
    limits = _limits(time, trials, seeds)
    base.but(seed=base.seed + seeds)  # refused now, if the finalists' last seed is none
    check_sweep([Cell("search", base)], jobs, on_this_machine=ray_address is None)
    check_folder(out, [Cell("search", base)])
    (before,) = as_there([base], out)
    if before != base:
        say(goes_on(out))
        base = before
    task, texts = base.plan.task, select_methods(methods)
    bits = None if budget is None else quantity(budget, "--budget", "bits")
    goal = Goal(task.higher_is_better, task.metric_name, bits, target, base.budget_of)
    say(
        f"preparing: data, model and a message of each of {len(texts)} methods; a first search "
        "compiles their kernels, which can take minutes; --time begins after it"
    )
    sizes = Sizes(base)
    fit, left = fitting(base, goal, texts, sizes)
    for method, reason in left.items():
        say(f"left out: {method}: {reason}")
    if trials is not None and trials % len(fit):
        fewest, some = divmod(trials, len(fit))
        say(
            f"--trials is {trials}: {some} of {len(fit)} methods get {fewest + 1}, the others "
            f"{fewest}; a multiple of {len(fit)} gives each the same number"
        )
    space = Space(base, goal, fit, sizes)
    space.prepare()
    with lock.locked(out), journal(out), own_files(out, [base]):
        study = Study(space, out / "study.db", _name(space))
        finals = Finals(study, out, seeds, jobs, ray_address, limits, say)
        limits.reserve = finals.reserve
        Exploration(study, out, limits, say).run(jobs, ray_address)
        if not study.trials and limits.seconds is not None:
            raise RunFailed(
                f"the time, {units.duration(limits.seconds)}, was over before a trial had ended; "
                "give more --time: the same folder goes on"
            )
        ranked, played = finals.run()
        study.seconds = limits.spent()
        with writing(out):
            return _written(study, ranked, played, left, out, rows)


def _base(base: RunConfig) -> RunConfig:
    """The shared settings: those that are searched at their defaults, and a validation part."""
    if base.rounds is not None:
        raise UsageError(
            f"--rounds is {base.rounds}: a search varies n, and compares after as many local "
            "iterations: give --iterations"
        )
    part = VALIDATION if base.evaluation.validation is None else base.evaluation.validation
    return base.but(
        method="raw",
        temporal=1,
        gradient=None,
        validation=part,
        label=None,
        stop_at_bits=None,
        stop_at_joules=None,
        evaluate_every=None,
    )


def _limits(time: str | float | None, trials: int | None, seeds: int) -> Limits:
    if time is not None and trials is not None:
        raise UsageError(f"--time is {time} and --trials {trials}: give one of them")
    for flag, value in (("--trials", trials), ("--seeds", seeds)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} is {value}: give a number above 0")
    if isinstance(time, str) and time.strip().replace(".", "", 1).isdecimal():
        raise UsageError(f"--time is {time!r}: it needs a unit: s, min or h, such as {time}min")
    duration = quantity(TIME if time is None else time, "--time", "time")
    return Limits(trials, None if trials is not None else duration)


def _name(space: Space) -> str:
    """A study's name in its file: what it depends on."""
    goal, settings = space.goal, space.base.digest_of(files=False)
    parts = [_KEPT, settings, str(goal.budget), str(goal.target), *space.methods]
    return blake2b("/".join(parts).encode(), digest_size=8).hexdigest()


def _written(
    study: Study,
    ranked: list[Finalist],
    played: str,
    left: dict[str, str],
    out: Path,
    rows: str | None = None,
) -> SearchResult:
    goal, base = study.space.goal, study.space.base
    frame = record.trials(study, out)
    methods = record.methods(study, frame, ranked, out)
    few = record.too_few(frame, study.space.methods)
    shares = {} if few else record.importance(frame, goal)
    first = winner(ranked, goal)
    write_text(out / "trials.csv", csv_text(frame))
    write_text(out / "methods.csv", csv_text(methods))
    write_text(out / "finalists.csv", csv_text(record.finalists(ranked, goal)))
    again = ""
    for name in ("best.toml", "search.png"):  # of an earlier call, which may have had another goal
        (out / name).unlink(missing_ok=True)
    if first is not None:
        write_text(out / "best.toml", to_toml(first, goal))
        again = rerun(out, rows)
    saturated = bool(frame.loc[frame["state"] == "complete", "metric"].map(goal.saturated).any())
    facts = {
        "task": base.plan.task.name,
        "goal": goal.words(),
        **({"saturated": SATURATED.format(name=goal.name)} if saturated else {}),
        "trials": f"{len(frame)}, of which {record.by_themselves(frame).sum()} ended by themselves",
        "finals": played,
        "time": units.duration(study.seconds),
        "clients": str(base.plan.clients),
        "iterations at most": str(base.plan.iterations),
        "seed of the trials": str(base.seed),
        "validation part": f"{base.evaluation.validation:g} of the training samples",
        "dense sending": f"{units.bits(study.space.dense)} per client {goal.ways}",
        "methods": "; ".join(study.space.methods),
    }
    result = SearchResult(
        goal, frame, methods, tuple(ranked), first, shares, few, left, out, saturated, played, again
    )
    with without_rc():
        write_text(out / "report.html", search_page(result, facts))
        if frame["metric"].notna().any():
            save(draw_trials(frame, ranked, first, goal, facts["task"]), out / "search.png")
    return result


def to_toml(final: Finalist, goal: Goal) -> str:
    """The run of a finalist's first fresh seed on all training samples, and what it came to.

    Settings of a machine are not written.
    """
    config = final.config
    point = final.held.points[0]
    goal_text = goal.words()
    lines = [f"{goal_text[0].upper()}{goal_text[1:]}, as a search found it."]
    if point is not None:
        score, bits = units.score(point[1], goal.name), units.bits(point[0])
        lines.append(
            f"This run: {goal.name} {score} on held-out samples with {bits} per client {goal.ways}."
        )
    for name, part in (("task", config.task), ("strategy", config.strategy)):
        if not isinstance(part, str) and not part.place:
            lines.append(f"The {name} is made in Python: run it from there, with these settings.")
    settings = {
        name: value
        for name, value in config.flat().items()
        if name in _ALWAYS
        or (SETTINGS[name].result and name != "device" and value != SETTINGS[name].default)
    }
    written = tomli_w.dumps(stamped(tables(settings)))
    return "".join(f"# {line}\n" for line in lines) + "\n" + written


def rerun(out: Path, rows: str | None = None) -> str:
    """The command that runs the winner again; it names the user's own code, which is executed.

    ``rows``: the file of methods of the user's own.
    """
    config, best = (shlex.quote(str(out / name)) for name in ("best.toml", "best"))
    written = read_settings_toml(out / "best.toml") if (out / "best.toml").exists() else {}
    own_flags = "".join(f" --own {shlex.quote(place)}" for place in trust_check.named_code(written))
    own_flags += f" --rows {shlex.quote(rows)}" if rows else ""
    return f"fedsim run --config {config}{own_flags} --out {best}"
