"""A run's folder before the run: what an earlier run left there, and whether it fits."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.federation.trainer import start_of
from fedsim.ground.errors import UsageError, writable
from fedsim.ground.files import replacing, write_json, write_text
from fedsim.ground.strangers import check_file
from fedsim.results.folders import kind_of
from fedsim.results.schema import OF_TASK, TRAINED, check_left, read_finished
from fedsim.runs import checkpoint, environment, extending
from fedsim.runs.trackers import registry
from fedsim.settings import contents, masks, versions
from fedsim.settings.config import CELLS_FILE, RunConfig, default_of, from_toml
from fedsim.settings.foreign import moves, own_files

_RULE = (
    f"momentum is masked with every method that has ef, as {versions.called(versions.FIRST)} did"
)


class FolderState(NamedTuple):
    """The content of a run's folder.

    ``summary`` is that of a finished run that is not to be extended; ``longer``: the run is
    finished and is to be extended. ``text``: what its ``config.toml`` is to hold. ``remarks``: what
    there is to say of its files, the kind of it and the words.
    """

    before: RunConfig
    summary: dict[str, Any] | None
    longer: bool
    text: str
    remarks: dict[str, str]


def examine(config: RunConfig, out: Path) -> FolderState:
    """The content that an earlier run left in ``out``; nothing is changed.

    Raises ``UsageError`` where that run has other settings, took other files of the user's, is
    damaged, or cannot be extended.
    """
    written = out / "config.toml"
    with own_files(out, [config]):
        before = from_toml(written, trust_code=True) if written.exists() else config
    summary = read_finished(out) if (out / "summary.json").exists() else None
    finished = summary is not None and summary["status"] == "done"
    # A run that ``stop_at_bits`` has ended did not do what was planned. A kill while it was
    # extended leaves the settings of the longer run and the shorter's summary.
    done = finished and summary is not None and _as_planned(summary, before)
    if done and summary is not None:
        check_left(out, summary)  # a run is done where all that it left is there
    longer = done and extending.is_longer(before, config, setting_differences(before, config))
    if longer:
        extending.check_extension(before, config, out)
    else:
        same_settings(before, config, out)
    goes_on = done or checkpoint.last(out) is not None
    start = start_of(config)
    remarks = same_files(config, start, out, goes_on) if written.exists() else {}
    if goes_on:  # it began when it did
        start = contents.recorded_content(out, contents.START)
    settings = replace(before, label=config.label) if done and not longer else config
    text = extending.written_config(settings, config.content, start)
    return FolderState(before, None if longer or not done else summary, longer, text, remarks)


def _as_planned(summary: dict[str, Any], run: RunConfig) -> bool:
    """Whether a finished run was planned to be as long as ``run`` is."""
    trained = summary.get(TRAINED) or summary
    if run.plan.by_client:
        return bool(trained["rounds"] == run.plan.rounds)
    return bool(trained.get("iterations", summary["iterations"]) == run.plan.iterations)


def same_files(
    config: RunConfig, start: dict[str, str], out: Path, goes_on: bool
) -> dict[str, str]:
    """Remarks on the input files of the run in ``out`` and on its start, compared with now.

    ``goes_on``: whether it continues from its end or a checkpoint.

    Raises ``UsageError`` if it continues and the contents of files have changed since.
    """
    recorded, content = contents.recorded_content(out), config.content
    remarks = {}
    if changed := "; ".join(contents.differing(recorded, content)):
        if goes_on:
            raise UsageError(
                f"--out is {out}: it holds results of files that have changed since ({changed}); "
                "choose another folder, or give the files as they were"
            )
        remarks[_AGAIN] = changed
    stored = contents.file_digests(recorded)
    if unknown := [what for what in contents.file_digests(content) if what not in stored]:
        remarks[UNKNOWN] = "; ".join(unknown)
    began = contents.recorded_content(out, contents.START)
    if other := [
        f"{what}: {began[what]} there, {x} here"
        for what, x in start.items()
        if began.get(what, x) != x
    ]:
        remarks[_OTHER_START] = "; ".join(other)
    return remarks


_AGAIN = "files have changed since it was begun, and it begins again"
UNKNOWN = "it has no digests of these files and goes on with them as they are; now they are kept"
_OTHER_START = "it began otherwise than it would now, as torch or the task has changed"


def tell(examined: Iterable[tuple[Path, FolderState]]) -> None:
    """Says what there is to say of folders' files: a line for each kind of it, however many."""
    by_kind: dict[str, list[tuple[Path, str]]] = {}
    for out, one in examined:
        for kind, words in one.remarks.items():
            by_kind.setdefault(kind, []).append((out, words))
    for kind, places in by_kind.items():
        out, words = places[0]
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        logging.getLogger("fedsim").warning("%s%s: %s (%s)", out, more, kind, words)


def prepare(config: RunConfig, out: Path, examined: FolderState) -> dict[str, Any] | None:
    """Makes the folder ready; returns the summary if the run is done already.

    ``examined``: the result of ``examine``.
    """
    with writable("--out", out):
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / ".writable"):
            pass
        (out / ".writable").unlink()
    before, summary, longer, text, remarks = examined
    if longer:
        extending.extend(before, out, text)
    if summary is not None:
        # No number of the run depends on its label, nor on where its files lie.
        if before.label != config.label or UNKNOWN in remarks or moves(out, [config]):
            write_text(out / "config.toml", text)
        tidy(out)  # a kill may have come between the summary and this
        registry.export(config.keep.track, out, summary)
        return summary
    write_text(out / "config.toml", text)
    write_json(out / "environment.json", environment.describe_environment())
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
    changes = setting_differences(before, now)
    if not changes:
        return
    differ = [f"{n} {_text_of(n, a)} there, {_text_of(n, b)} here" for n, (a, b) in changes.items()]
    cure = "choose another folder"
    if versions.STACK in changes and versions.former_stack(before.machine.stack):
        cure = f"{versions.STACKED}, which goes on with it: {cure}"
    elif before.training.momentum_masking == versions.FORMER and versions.MASKING in changes:
        cure = f"{_RULE}: give --momentum-masking {versions.FORMER}, or {cure}"
    raise UsageError(
        f"--out is {out}: it holds results of other settings ({'; '.join(differ)}); {cure}"
    )


def as_there(runs: Sequence[RunConfig], out: Path) -> list[RunConfig]:
    """The runs with the rules of the results in ``out``; logs a warning if these differ from now.

    A folder of 0.1.0 goes on with that version's masking if ``momentum_masking`` is left at its
    default. The runs of a search in such a folder do so, too (a grid: ``sweep.in_folder``).
    """
    if not is_masked_as_before(out):
        return list(runs)
    now = [masks.as_before(run) for run in runs]
    if any(run.plan.masks != before.plan.masks for run, before in zip(runs, now, strict=True)):
        sentences = [goes_on(out), masks.much_forgotten(now, [run.plan for run in now])]
        logging.getLogger("fedsim").warning("; ".join(filter(None, sentences)))
    return now


def goes_on(out: Path) -> str:
    """Words for results that go on by the masking of an earlier version."""
    return f"{out} goes on as it was made: {_RULE}"


def is_masked_as_before(out: Path) -> bool:
    """Whether the settings in a results folder have the masking of 0.1.0, by a word of its own."""
    names = ("config.toml", "sweep.toml", CELLS_FILE)
    files = [file for name in names if (file := out / name).exists()]
    for file in files or sorted(out.glob("cells/*/config.toml"))[:1]:
        with suppress(UsageError, ValueError):  # what cannot be read is refused where it is used
            check_file(file)
            words = versions.masking_words(versions.read_versioned(file))
            if versions.FORMER in words and "auto" not in words:  # a file of today may have both
                return True
    return False


def setting_differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """The settings that differ and on which a run's numbers depend, with both values."""
    then, new = before.chosen(), now.chosen()
    pairs = {k: (then.get(k, default_of(k)), new.get(k, default_of(k))) for k in then | new}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}


def _text_of(name: str, value: Any) -> str:
    if value is not None:
        return repr(value)
    return "the task's" if name in OF_TASK else "the default"
