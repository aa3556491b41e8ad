"""The flags as people type them: a change of the settings' declarations leaves them as they are."""

import re

import pytest

from fedsim.commands.cli import COMMANDS
from fedsim.commands.flags import MAIN
from fedsim.settings.fields import GROUPS, SETTINGS
from fedsim.settings.strategies import FLAGS
from tests.support.commands import Typed, lacking

RUN = (
    "ask", "availability", "batch-size", "budget-of", "buffer-size", "buffers", "catch-up",
    "checkpoint-every",
    "clients", "cohort", "config", "controller", "data", "deadline", "device", "downlink",
    "download", "dropout", "engine", "evaluate-clients", "evaluate-every", "gpus-per-client",
    "gpus-per-run", "gradient", "iterations", "json", "keep-checkpoint", "keep-payloads", "label",
    "late", "local-epochs", "local-seconds", "lr", "max-norm", "memory", "memory-as", "method",
    "min-replies",
    "momentum", "momentum-masking", "network", "out", "own", "partition", "precision",
    "proximal", "ray-address", "rounds", "sampler", "seed", "server-lr", "stack", "staleness",
    "stateless", "stop-at-bits", "stop-at-joules",
    "strategy", "task", "temporal", "test-samples", "timeout", "track", "validation", "weighting",
    "weights", "workers",
)  # fmt: skip
GONE = {
    "run": {"columns"},
    "sweep": {"seed"},
    "search": {"method", "temporal", "local-epochs", "local-seconds", "gradient", "rounds",
               "controller",
               "stop-at-bits", "stop-at-joules", "evaluate-every", "label", "engine", "workers",
               "gpus-per-client", "config", "own"},
    "deploy": {"engine", "workers", "download", "keep-checkpoint", "checkpoint-every",
               "track", "label", "stack", "memory", "memory-as", "network", "availability",
               "dropout", "ask", "deadline", "staleness", "buffer-size", "ray-address", "sampler",
               "stop-at-joules", "local-seconds"},
}  # fmt: skip
MORE = {
    "run": {"columns", "dry-run", "open"},
    "sweep": {
        "seeds",
        "vary",
        "no-baseline",
        "jobs",
        "only",
        "columns",
        "per-seed",
        "dry-run",
        "open",
    },
    "search": {"budget", "target", "time", "trials", "methods", "seeds", "jobs", "open"},
    "deploy": {"port"},
}


@pytest.mark.parametrize("command", GONE)
def test_every_flag_is_there(command: str, typed: Typed) -> None:
    long = "--help" if command == "deploy" else "--help-all"
    flags = set(re.findall(r"^  --([a-z-]+)", typed(command, long).out, flags=re.MULTILINE))
    assert flags - {"help-all"} == ({*RUN} - GONE[command]) | MORE[command]


@pytest.mark.parametrize("command", ["run", "sweep", "search"])
def test_help_is_a_page_of_the_main_flags(command: str, typed: Typed) -> None:
    page = typed(command, "--help").out
    flags = re.findall(r"^  (?:-h, )?--([a-z-]+)", page, flags=re.MULTILINE)
    assert {flag.replace("-", "_") for flag in flags} <= {*MAIN}
    assert 15 <= len(flags) <= 30 and {"help-all", "out", "task"} <= {*flags}


def test_each_command_and_flag_has_a_sentence_of_help(typed: Typed) -> None:
    commands = re.findall(r"^    (\w+)  ", typed("--help").out, flags=re.MULTILINE)
    assert {*commands} == {*COMMANDS}
    for name in commands:
        assert lacking(typed(name, "--help").out) == [], name


def test_every_setting_has_one_place_and_one_sentence() -> None:
    """A field of a group is a flag, a key of a table and a column of results by one name."""
    places = {(one.group, one.attr) for one in SETTINGS.values()}
    assert len(places) == len(SETTINGS) and not {*SETTINGS} & {*FLAGS}
    assert {group for group, _ in places} == {"", *GROUPS}
    sentences = [one.help for one in [*SETTINGS.values(), *FLAGS.values()]]
    assert len({*sentences}) == len(sentences) and all(sentences)
    assert {*SETTINGS, *FLAGS} <= {flag.replace("-", "_") for flag in RUN}
