"""One run's folder checked: its files and sums, its messages, its model, and rounds once more."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load

from compressors.usercode import typed
from fedsim.federation.client_memory import InProcess
from fedsim.federation.ledger import digest_of_model
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.ground.files import DamagedFile, check_beside
from fedsim.ground.strangers import check_links
from fedsim.ground.threads import one_thread
from fedsim.results.load import kind_of, run_folders
from fedsim.results.schema import read_settings
from fedsim.runs.callbacks import Callback
from fedsim.runs.run import server_of
from fedsim.runs.verify import messages, replay
from fedsim.runs.verify.permissions import Permissions
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.rerun import Span, elsewhere, of_this_version, rerun_differences, run_again
from fedsim.runs.verify.score import (
    has_own_models,
    optimizer_differences,
    score_differences,
    scoring_trainer,
    settings_differences,
)
from fedsim.runs.verify.storedgrid import Replies
from fedsim.runs.verify.tables import LAST_DIGITS, TOLERANCE, Shares
from fedsim.runs.verify.verdict import Verdict, digest_difference
from fedsim.settings.config import RunConfig

NOT_COMPARED = "environment.json, labels and measured times, which nothing tells"
"""What no check of a folder can compare with anything."""


def folders(path: Path) -> list[Path]:
    """Every run at or below ``path``: a run, the cells of a sweep, all parts of a search.

    Raises ``UsageError`` where there is none.
    """
    below = run_folders(path)
    parts = [part for part in sorted(path.iterdir()) if kind_of(part) == "sweep"]
    runs = [*below, *(run for part in parts for run in run_folders(part))]
    if not runs:
        raise UsageError(f"no results in {path}: give a folder that run, sweep or search wrote")
    return runs


def verify(
    folder: Path,
    span: Span | None = None,
    code: Collection[str] = (),
    data: str | None = None,
    files: Collection[str] = (),
) -> Verdict:
    """The verdict on the run in ``folder``; nothing in it is changed.

    If a table or a message differs, nothing is replayed or run again, because both would be
    compared with the tables. Nothing is downloaded, and only files in the folder and those that
    the arguments name are opened.

    Args:
        folder: of one run.
        span: which rounds are run again; None: none.
        code: files of tasks, strategies and samplers, as ``FILE.py:NAME``, that may be carried out.
        data: the folder of data sets; None: no data set is read but those that come with fedsim.
        files: weights, networks and traces that the run may name.
    """
    verdict, recorded = Verdict(folder.name), RecordedRun(folder)
    if not os.path.lexists(folder / "summary.json"):
        verdict.remarks.append("not finished: nothing is looked at")
        return verdict
    try:
        check_links(folder)
        read_settings(folder)  # refuses a file that is not a table of settings
        if not recorded.done:
            verdict.remarks.append(f"the run has {recorded.summary['status']}")
        if len(recorded.rounds):
            verdict.add("sums", messages.sum_differences(recorded))
            if recorded.done:
                verdict.add("summary", messages.summary_differences(recorded))
            if recorded.has_payloads:
                count = len([*(folder / "payloads").rglob("*.bin")])
                verdict.add(f"{count} messages", messages.message_differences(recorded))
            if recorded.done:
                verdict.add("model", _model(recorded))
            _by_settings(verdict, recorded, span, Permissions(code, data, files))
        differing: list[str] = []  # the first file that is not what was written, by its digest
        try:
            check_beside(folder / "summary.json", recorded.summary)
        except DamagedFile as error:
            differing.append(f"{error.file.name}: {error.problem}")
        verdict.add("files", differing)
    except (UsageError, RunFailed, OSError, ValueError) as error:  # pyarrow's are ValueErrors
        verdict.failures.append(str(error).splitlines()[0])
    except Exception as error:  # of values that no version writes; the other runs are looked at
        reason = typed(error).splitlines()[0]
        verdict.failures.append(f"its files hold what fedsim does not write: {reason}")
    return verdict


def _model(recorded: RecordedRun) -> Iterator[str]:
    """Whether the model's file holds the model after the last round."""
    try:
        digest = digest_of_model(load(recorded.read("model.safetensors")))
    except (UsageError, SafetensorError) as error:
        yield f"model.safetensors cannot be read: {error}"
        return
    number, expected = [*recorded.digests.items()][-1]
    if digest != expected:
        yield digest_difference(f"round {number}: the model in model.safetensors", expected, digest)


def _by_settings(
    verdict: Verdict, recorded: RecordedRun, span: Span | None, allowed: Permissions
) -> None:
    """What needs the run's settings: these themselves, its score, its messages, its rounds.

    That a run cannot be set up here is a remark, and a failure where it is to be run again.
    """
    again = recorded.has_payloads or span is not None
    try:
        config = allowed.config(recorded.folder)
    except UsageError as error:
        if again:
            notes = verdict.remarks if span is None else verdict.failures
            notes.append(f"not replayed and not run again: {error}")
        verdict.unchecked += [f"settings and score: {error}", ROUNDS_TABLE]
        return
    verdict.add("settings", settings_differences(recorded, config))
    unfinished = "" if recorded.done else "the run has not ended"
    if obstacle := allowed.why_not_scored(config) or unfinished:
        verdict.unchecked.append(f"the score of the model: {obstacle}")
    elif not verdict.failures:
        with one_thread():
            trainer = scoring_trainer(config)
        verdict.failures += optimizer_differences(recorded, config, trainer)
        if has_own_models(config, trainer):
            verdict.unchecked.append("the score: it is of the clients' own models")
        else:
            verdict.add("score", score_differences(recorded, config, trainer))
    ends = "the memory at the end (final)" if (recorded.folder / "final").is_dir() else ""
    if verdict.failures or not again:
        verdict.unchecked += filter(None, (ROUNDS_TABLE, ends))
        return
    if recorded.has_payloads:
        _replayed(verdict, recorded, config)
    if span is None or span.first > len(recorded.rounds):
        verdict.unchecked += filter(None, (ROUNDS_TABLE, ends))
        verdict.remarks += [f"it has no round {span.first}"] if span else []
        return
    _run_again(verdict, recorded, config, span)
    if span.end(recorded) < len(recorded.rounds) or span.first > 1:
        verdict.unchecked += filter(None, ("the training of the other rounds", ends))


ROUNDS_TABLE = "that training gives these models (--rerun)"
"""What no look at a folder can tell."""


def _replayed(verdict: Verdict, recorded: RecordedRun, config: RunConfig) -> None:
    plain = replace(config, machine=replace(config.machine, engine="local", device="cpu"))
    with one_thread():
        replies = Replies(recorded, config)
        if obstacle := replay.replay_obstacle(replies):
            verdict.remarks.append(f"not replayed: {obstacle}")
            return
        server, records = server_of(plain, InProcess(), Callback())
        what = f"{len(recorded.rounds)} rounds replayed"
        verdict.add(what, replay.replay_differences(replies, server, records))
        verdict.remarks += replay.left_out(replies, server.own_models)


def _run_again(verdict: Verdict, recorded: RecordedRun, config: RunConfig, span: Span) -> None:
    again, other = run_again(recorded, config, span), elsewhere(recorded.folder)
    coding = replay.clocked_coding(config)
    failures = [*rerun_differences(recorded, again, Shares(coding=coding))]
    # Another processor may give the same bits, too. Then it gives other last digits at most.
    earlier = not of_this_version(recorded.folder)
    if failures and (other or earlier) and not again.bits_differ(recorded):
        digits = Shares(coding=coding, numbers=LAST_DIGITS)
        failures = [*rerun_differences(recorded, again, digits)]
        cause = other or "another version of fedsim there"
        verdict.remarks.append(f"numbers were compared within {LAST_DIGITS:g} of them ({cause})")
    elif failures and other:
        near = Shares(coding=coding, numbers=TOLERANCE, bits=False)
        failures = [*rerun_differences(recorded, again, near)]
        verdict.remarks.append(
            f"digests of the rounds that were run again differ, as they may on another machine "
            f"({other}): numbers were compared, within {TOLERANCE:.0%}"
        )
    if coding:
        verdict.remarks.append(replay.CODING)
    if again.begun:
        verdict.remarks.append(f"they went on from the folder's checkpoint of round {again.begun}")
    verdict.remarks = [*dict.fromkeys(verdict.remarks)]
    verdict.add(f"rounds {span.first} to {span.end(recorded)} run again", failures)
