"""A run's folder before the run: what an earlier run left there, and whether it fits."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.ground.errors import UsageError, unwritten
from fedsim.ground.files import replacing, write_json, write_text
from fedsim.results.folders import kind_of
from fedsim.results.schema import OF_TASK, TRAINED, check_left, read_finished
from fedsim.runs import checkpoint, environment, extending
from fedsim.runs.trackers import chosen
from fedsim.settings.config import RunConfig, default_of, from_toml
from fedsim.settings.foreign import check_tasks


class Found(NamedTuple):
    """What a folder holds of a run.

    ``summary`` is that of a finished run that is not to be extended; ``longer``: the run is
    finished and is to be extended.
    """

    before: RunConfig
    summary: dict[str, Any] | None
    longer: bool


def examine(config: RunConfig, out: Path) -> Found:
    """What an earlier run left in ``out``; nothing is changed.

    Raises ``UsageError`` where that run has other settings, is damaged, or cannot be extended.
    """
    check_tasks(out, [config])
    written = out / "config.toml"
    before = from_toml(written) if written.exists() else config
    summary = read_finished(out) if (out / "summary.json").exists() else None
    finished = summary is not None and summary["status"] == "done"
    # What was planned is not what was done where ``stop_at_bits`` has ended it. A kill while it was
    # extended leaves the settings of the longer run and the shorter's summary.
    planned = summary and (summary.get(TRAINED) or summary).get("iterations", summary["iterations"])
    done = finished and planned == before.plan.iterations
    if done and summary is not None:
        check_left(out, summary)  # a run is done where all that it left is there
    if done and extending.is_longer(before, config, differences(before, config)):
        extending.check(before, config, out)
        return Found(before, None, True)
    same_settings(before, config, out)
    return Found(before, summary if done else None, False)


def prepare(config: RunConfig, out: Path, examined: Found) -> dict[str, Any] | None:
    """Makes the folder ready; returns the summary if the run is done already.

    ``examined``: what ``examine`` says of it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / ".writable"):
            pass
        (out / ".writable").unlink()
    except OSError as error:
        raise unwritten("--out", out, error) from error
    before, summary, longer = examined
    if longer:
        extending.extend(before, config, out)
    if summary is not None:
        if before.label != config.label:  # no number of the run depends on the label
            write_text(out / "config.toml", replace(before, label=config.label).to_toml())
        tidy(out)  # a kill may have come between the summary and this
        chosen.export(config.keep.track, out, summary)
        return summary
    write_text(out / "config.toml", config.to_toml())
    write_json(out / "environment.json", environment.describe())
    return None


def tidy(out: Path) -> None:
    """Removes what a finished run does not need: the error of an earlier try, the checkpoint."""
    (out / "error.txt").unlink(missing_ok=True)
    checkpoint.remove(out)


def check_kind(out: Path) -> None:
    """Refuses a folder that holds a sweep."""
    if kind_of(out) == "sweep":
        raise UsageError(
            f"--out is {out}: it holds a sweep (cells/), beside which a run would not be seen; "
            "choose another folder"
        )


def same_settings(before: RunConfig, now: RunConfig, out: Path) -> None:
    """Raises ``UsageError`` naming the settings in which a results folder differs."""
    differ = [
        f"{name} {_said(name, a)} there, {_said(name, b)} here"
        for name, (a, b) in differences(before, now).items()
    ]
    if differ:
        raise UsageError(
            f"--out is {out}: it holds results of other settings ({'; '.join(differ)}); "
            "choose another folder"
        )


def differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """The settings that differ and on which a run's numbers depend, with both values."""
    then, wanted = before.identity(), now.identity()
    pairs = {k: (then.get(k, default_of(k)), wanted.get(k, default_of(k))) for k in then | wanted}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}


def _said(name: str, value: Any) -> str:
    if value is not None:
        return repr(value)
    return "the task's" if name in OF_TASK else "the default"
