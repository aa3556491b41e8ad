"""One run's folder checked: its files and sums, its messages, its model, and rounds once more."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from compressors.usercode import typed
from fedsim.federation.client_memory import InProcess
from fedsim.federation.digests import of_model
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.ground.files import DamagedFile, check_beside
from fedsim.ground.threads import one_thread
from fedsim.results.load import kind_of, run_folders
from fedsim.results.schema import read_settings
from fedsim.runs.callbacks import Callback
from fedsim.runs.run import server_of
from fedsim.runs.verify import stored, sums
from fedsim.runs.verify.rebuild import rebuilt, why_not
from fedsim.runs.verify.recorded import Recorded
from fedsim.runs.verify.rerun import TOLERANCE, Span, elsewhere, rerun
from fedsim.runs.verify.verdict import Verdict, differ
from fedsim.settings import contents
from fedsim.settings.config import from_toml
from fedsim.tasks.place import origin

NO_DIGESTS = "no digests: written by an earlier version"


def folders(path: Path) -> list[Path]:
    """Every run at or below ``path``: a run, the cells of a sweep, all parts of a search.

    Raises ``UsageError`` where there is none.

    Example:
        >>> import tempfile
        >>> try:
        ...     folders(Path(tempfile.mkdtemp()))
        ... except UsageError as error:
        ...     print(str(error).startswith("no results in"))
        True
    """
    below = run_folders(path)
    parts = [part for part in sorted(path.iterdir()) if kind_of(part) == "sweep"]
    found = [*below, *(run for part in parts for run in run_folders(part))]
    if not found:
        raise UsageError(f"no results in {path}: give a folder that run, sweep or search wrote")
    return found


def verify(folder: Path, span: Span | None = None, own: Collection[str] = ()) -> Verdict:
    """What is to be said of the run in ``folder``; nothing in it is changed.

    Where a table or a message differs, neither the model is rebuilt nor a round run again: both are
    compared with what the tables say.

    Args:
        folder: of one run.
        span: which rounds are run again; None: none.
        own: files of tasks and strategies, as ``FILE.py:NAME``, that may be carried out.
    """
    verdict, recorded = Verdict(folder.name), Recorded(folder)
    if not (folder / "summary.json").exists():
        verdict.remarks.append("not finished: nothing is looked at")
        return verdict
    try:
        if not recorded.done:
            verdict.remarks.append(f"the run has {recorded.summary['status']}")
        if len(recorded.rounds):
            verdict.took("sums", sums.sums(recorded))
            if recorded.done:
                verdict.took("summary", sums.summary(recorded))
            if recorded.has_payloads:
                count = len([*(folder / "payloads").rglob("*.bin")])
                verdict.took(f"{count} messages", stored.messages(recorded))
            if recorded.done and recorded.has_digests:
                verdict.took("model", _model(recorded))
            if not recorded.has_digests:
                verdict.remarks.append(NO_DIGESTS)
            elif not verdict.failures and (recorded.has_payloads or span is not None):
                _again(verdict, recorded, span, own)
        differing: list[str] = []  # the first file that is not what was written, by its digest
        try:
            check_beside(folder / "summary.json", recorded.summary)
        except DamagedFile as error:
            differing.append(f"{error.file.name}: {error.why}")
        verdict.took("files", differing)
    except (UsageError, RunFailed, OSError, ValueError) as error:  # pyarrow's are ValueErrors
        verdict.failures.append(str(error).splitlines()[0])
    except Exception as error:  # of values that no version writes; the other runs are looked at
        why = typed(error).splitlines()[0]
        verdict.failures.append(f"its files hold what fedsim does not write: {why}")
    return verdict


def _model(recorded: Recorded) -> Iterator[str]:
    """Whether the model's file holds the model after the last round."""
    try:
        found = of_model(load_file(recorded.folder / "model.safetensors"))
    except (OSError, SafetensorError) as error:
        yield f"model.safetensors cannot be read: {error}"
        return
    number, wanted = [*recorded.digests.items()][-1]
    if found != wanted:
        yield differ(f"round {number}: the model in model.safetensors", wanted, found)


def _again(
    verdict: Verdict, recorded: Recorded, span: Span | None, own: Collection[str]
) -> None:  # fmt: skip
    """The model from the messages, and rounds once more, where that can be and is asked for.

    That a run cannot be set up here is a remark, and a failure where it is to be run again.
    """
    given = read_settings(recorded.folder)
    said = verdict.remarks if span is None else verdict.failures
    for setting in ("task", "strategy"):
        place = str(given.get(setting, ""))
        if origin(place) and origin(place) not in map(origin, own):
            said.append(
                f"not rebuilt and not run again: its {setting} is {place}, whose file is carried "
                f"out if you say so (--own {place})"
            )
            return
    try:
        config = from_toml(recorded.folder / "config.toml")
        changed = contents.differing(contents.recorded(recorded.folder), config.content)
    except UsageError as error:
        said.append(f"not rebuilt and not run again: {error}")
        return
    if changed:
        said.append(f"not rebuilt and not run again: files have changed ({'; '.join(changed)})")
        return
    if recorded.has_payloads:
        plain = replace(config, machine=replace(config.machine, engine="local", device="cpu"))
        with one_thread():
            server, _ = server_of(plain, InProcess(), Callback())
            if why := why_not(config, server):
                verdict.remarks.append(f"the model is not rebuilt: {why}")
            else:
                what = f"model rebuilt over {len(recorded.rounds)} rounds"
                verdict.took(what, rebuilt(recorded, server))
    if span is None or span.first > len(recorded.rounds):
        verdict.remarks += [f"it has no round {span.first}"] if span else []
        return
    # Another processor may give the same bits, too: that is tried first.
    failures, other = [*rerun(recorded, config, span)], elsewhere(recorded.folder)
    if failures and other:
        failures = [*rerun(recorded, config, span, TOLERANCE)]
        verdict.remarks.append(
            f"digests of the rounds that were run again differ, as they may on another machine "
            f"({other}): losses and bits were compared, within {TOLERANCE:.0%}"
        )
    verdict.took(f"rounds {span.first} to {span.end(recorded)} run again", failures)
