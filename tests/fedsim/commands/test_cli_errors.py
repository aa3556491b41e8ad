"""Bad input: exit code 2, a line or two that name setting, value and what is allowed, no trace."""

import os
import re
import sys
from pathlib import Path

import pytest

from fedsim.commands import cli, theory
from tests.support.commands import SMALL, Typed, files, no_page, refused
from tests.support.runs import run_module

pytestmark = pytest.mark.usefixtures(no_page.__name__)


BOTH: dict[str, tuple[str, list[str]]] = {
    "--task nope": ("--task", ["'nope'", "digits, mnist_lenet5"]),
    "--method nope": ("--method", ["'nope'", "sbc, gradient_dropping"]),
    "--method sbc(": ("--method", ["'sbc('", "')' is missing"]),
    "--method sbc,topk(0.1)": ("--method", ["'sbc,topk(0.1)'", "--vary 'method=sbc,topk(0.1)'"]),
    "--method sbc;cnat": ("--method", ["'sbc;cnat'", "--vary method=sbc,cnat"]),
    "--method sbc --gradient 0": ("--gradient", ["0", "(0, 1]"]),
    "--method sbc --gradient much": ("--gradient", ["'much'"]),
    "--method raw --gradient 0.1": ("--gradient", ["0.1", "'raw'", "{p}"]),
    "--device tpu": ("--device", ["'tpu'", "cpu, cuda, mps"]),
    "--strategy nope": ("--strategy", ["'nope'", "dsgd, fedper"]),
    "--partition nope": ("--partition", ["'nope'", "iid, contiguous, whole, natural, feature"]),
    "--partition dirichlet(-1)": ("--partition", ["dirichlet(-1)", "above 0"]),
    "--temporal 0": ("--temporal", ["0", "above 0"]),
    "--temporal 1.5": ("--temporal", ["'1.5'"]),
    "--temporal 21": ("--temporal", ["21", "--iterations is 20"]),
    "--clients 100000": ("--clients", ["100000", "from 1 to 1437"]),
    "--clients x": ("--clients", ["'x'"]),
    "--catch-up": ("--catch-up", ["--downlink is 'raw'", "sbc(0.05)"]),
    "--network none.toml": ("--network", ["none.toml: there is no such file"]),
    "--nope": ("--nope", ["unrecognized", "--help"]),
    "--epochs 3": ("--epochs", ["unrecognized", "--local-epochs"]),
    "--learning_rate=0.1": ("--learning-rate", ["unrecognized", "--lr"]),
    "--gradints 1": ("--gradints", ["unrecognized", "did you mean --gradient?"]),
    "--out file/below": ("--out", ["file/below", "cannot be written"]),
    "--out file": ("--out", ["file", "cannot be written"]),
    "--config none.toml": ("none.toml", ["no such file"]),
    "--config bad.toml": ("bad.toml", ["TOML"]),
    "--config unknown.toml": ("unknown.toml", ["'tusk'", "did you mean task?", "task, method"]),
    "--config type.toml": ("type.toml", ["clients", "'four'", "int"]),
    "--config bytes.toml": ("bytes.toml", ["TOML"]),
    "--config .": (".", ["TOML"]),
}
SWEEP = {
    "--temporal 1 10": ("--temporal", ["unrecognized", "did you mean --temporal 1,10?"]),
    "--gradient 1, 0.1": ("--gradient", ["did you mean --gradient 1,0.1?"]),
    "--temporal ,": ("--temporal", ["','", "whole numbers"]),
    "--temporal=": ("--temporal", ["''", "whole numbers"]),
    "--temporal 5,x": ("--temporal", ["'5,x'", "whole numbers", " 1,10,100"]),
    "--temporal 5,30": ("--temporal", ["30", "--iterations is 20"]),
    "--gradient=": ("--gradient", ["''", "numbers separated by commas"]),
    "--gradient 0.1,2": ("--gradient", ["2", "(0, 1]"]),
    "--gradient 0.1,,1": ("--gradient", ["'0.1,,1'"]),
    "--seeds 0": ("--seeds", ["0", "above 0"]),
    "--seeds x": ("--seeds", ["'x'"]),
    "--jobs 0": ("--jobs", ["0", "above 0"]),
    "--jobs -1": ("--jobs", ["-1", "above 0"]),
    "--jobs x": ("--jobs", ["'x'"]),
    "--config grid.toml": ("grid.toml", ["temporal", "'x'", "number or a list"]),
    "--seeds 2,2": ("--seeds", ["[2, 2]", "each seed once"]),
    "--seed 3": ("--seed", ["did you mean --seeds?"]),
    "--ray-address nope": ("--ray-address", ["'nope'", "no Ray cluster"]),
}
RUN = {"--seed -1": ("--seed", ["-1", "from 0 to 2^63 - 1"]), "--seed x": ("--seed", ["'x'"])}
DEPLOY = {
    "--deadline 3s": ("--deadline", ["`fedsim run` takes --deadline, and this command does not"]),
    "--strategy fedbuff": ("--strategy", ["'fedbuff'", "links of a deployment are real"]),
    "--timeuot 3": ("--timeuot", ["did you mean --timeout?"]),
}
SEARCH = {
    "--controller noise": ("--controller", ["`fedsim run` takes --controller"]),
    "--strategy ef21": ("--strategy", ["'ef21'", "takes methods of its own"]),
}
OF_A_LIST = ("--method", "--gradient", "--temporal", "--out", "--config", "--nope")
"""Flags that a sweep reads in its own way; all others are those of a run."""

AGAIN = {text: named for text, named in BOTH.items() if text.split()[0] in OF_A_LIST}
CASES = [
    *((("deploy",), *case) for case in DEPLOY.items()),
    *((("search",), *case) for case in SEARCH.items()),
    *((("run", "--iterations", "20"), *case) for case in (BOTH | RUN).items()),
    *((("sweep", *SMALL), *case) for case in (AGAIN | SWEEP).items()),
]


@pytest.fixture
def around(typed: Typed) -> Path:
    """Files of the user's, good and bad."""
    folder = Path.cwd()
    for name, text in {
        "file": "x",
        "bad.toml": "task =",
        "unknown.toml": "tusk = 'digits'",
        "type.toml": "clients = 'four'",
        "grid.toml": "temporal = 'x'",
    }.items():
        (folder / name).write_text(text)
    (folder / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    return folder


@pytest.mark.parametrize(
    ("command", "text", "named"), CASES, ids=[f"{c[0][0]} {c[1]}" for c in CASES]
)
def test_refused_before_anything_is_written(
    command: tuple[str, ...], text: str, named: tuple[str, list[str]], around: Path, typed: Typed
) -> None:
    before = files(around)
    said = typed(*command, *text.split(" "))
    refused(said, named[0], *named[1])
    left = {name for name in files(around) if name not in before}
    # a cluster is asked last, when the folder is known to be good
    assert not left or "--ray-address" in text


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize("folder", [None, "nowhere"])
def test_missing_data_is_two_lines_that_say_where_it_belongs(
    command: str, folder: str | None, around: Path, typed: Typed
) -> None:
    before = files(around)
    given = ["--data", folder] if folder else []
    said = typed(command, "--task", "mnist_lenet5", *given)
    refused(said, "MNIST", "train-images-idx3-ubyte", "MNIST/raw", "--data", "$FEDSIM_DATA")
    assert len(said.err.splitlines()) == 2
    assert files(around) == before and not (around / "fedsim-results").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(typed: Typed) -> None:
    Path("locked").mkdir(mode=0o500)
    refused(typed("run", "--out", "locked/x"), "--out", "locked/x", "Permission denied")


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_an_unknown_flag_leads_to_the_help_of_its_command(command: str, typed: Typed) -> None:
    said = typed(command, "--jsn")
    assert said.code == 2 and said.err.splitlines() == [
        f"fedsim {command}: unrecognized arguments: --jsn; did you mean --json?",
        f"see `fedsim {command} --help`",
    ]


OTHERS = {
    "report none": ["none", "no such folder"],
    "report .": ["no finished run", "summary.json"],
    "list nope": ["'nope'", "tasks, methods, coders, strategies, networks, devices, controllers"],
    "experiment nope": ["'nope'", "sbc-table2"],
    "experiment sbc-table2 --only nope": ["--only", "'nope'", "mnist_lenet5"],
    "experiment sbc-table2 --scale nope": ["--scale", "'nope'", "smoke, short"],
    "experiment sbc-table2 --jobs 0 --scale smoke": ["--jobs", "0", "above 0"],
    "experiment sbc-table2 --only mnist_lenet5 --scale smoke": ["MNIST", "--data"],
    "nope": ["'nope'", "sweep, run"],
    "": ["COMMAND"],
}


@pytest.mark.parametrize(("text", "parts"), OTHERS.items(), ids=OTHERS)
def test_other_commands(text: str, parts: list[str], typed: Typed) -> None:
    refused(typed(*text.split()), *parts)
    assert not files(Path.cwd())


def test_a_renamed_folder_is_named(typed: Typed) -> None:
    for name in ("mine-july", "other"):
        Path(name).mkdir()
    Path("mine-july/summary.json").write_text("{}")
    said = typed("report", "mine")
    refused(said, "mine: there is no such folder", "results are in mine-july")
    assert "other" not in said.err


def test_a_figure_takes_the_flags_of_all_commands() -> None:
    flags = cli.parser().parse_args(["show", "curves", "results", "--rows", "mine.py", "--debug"])
    assert (flags.rows, flags.debug) == ("mine.py", True)
    assert (
        cli.parser().parse_args(["--rows", "mine.py", "show", "curves", "results"]).rows
        == "mine.py"
    )


@pytest.mark.parametrize("place", [("--debug", "run"), ("run", "--debug")])
def test_debug_shows_the_trace(place: tuple[str, str], typed: Typed) -> None:
    said = typed(*place, "--temporal", "0")
    assert said.code == 2 and "Traceback" in said.err
    assert said.err.splitlines()[-1] == "fedsim: --temporal is 0: give a number above 0"


def test_a_run_that_fails_is_code_1(typed: Typed) -> None:
    said = typed("run", "--iterations", "20", "--lr", "1e30", "--out", "out")
    assert said.code == 1 and "Traceback" not in said.err and said.out == ""
    assert "NaN or infinity" in said.err.splitlines()[-1]
    assert "Traceback" in Path("out/error.txt").read_text()


def test_what_nobody_thought_of_is_code_1_and_one_line(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(run_module, "run", broken)
    said = typed("run", "--iterations", "20")
    place = rf"\({Path(__file__).name}, line \d+\)"  # of the innermost file that is not fedsim's
    assert said.code == 1
    assert re.fullmatch(rf"fedsim: ZeroDivisionError: oh {place} \(--debug.*\)\n", said.err)
    with pytest.raises(ZeroDivisionError):
        typed("--debug", "run", "--iterations", "20")
    monkeypatch.setattr(run_module, "run", lambda *a, **b: (_ for _ in ()).throw(KeyboardInterrupt))
    said = typed("run", "--iterations", "20")
    assert said.code == 130 and "the same command goes on" in said.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run --config none.toml", "--config is none.toml: there is no such file"),
        ("run --partition dirichlet", "'dirichlet' (did you mean dirichlet(ALPHA)?); known"),
        ("run --partition dirichlt(0.3)", "'dirichlt(0.3)' (did you mean dirichlet(ALPHA)?)"),
        ("run --partition dirichlet(0,3)", "dirichlet(0.3); did you mean 0.3, with a decimal"),
        ("run --method sbc(0,01)", "did you mean 0.01, with a decimal point?"),
        ("run --downlink sbc(0,05)", "did you mean 0.05, with a decimal point?"),
        ("run --network up=0,5Mbit", "did you mean 0.5, with a decimal point?"),
        ("run --network up=5", "--network: up is '5': give a number above 0 with a unit"),
        ("run --gradient 0,01", "'0,01' is not a number; did you mean 0.01"),
        ("sweep --gradient 0,01", "--gradient is '0,01': it takes numbers"),
        ("run --method cnat|topk(0.1)", "write 'topk(0.1) | cnat'"),
        ("run --strategy fedavgg", "unknown strategy 'fedavgg' (did you mean fedavg?)"),
        ("run --strategy fedadam(server_lrr=1)", "'server_lrr' (did you mean server_lr?); known"),
        ("run --strategy fedadam(server_lr=x)", "server_lr is 'x'; it takes a number"),
        ("run --strategy fedadam(server_lr=0,1)", "did you mean 0.1, with a decimal point?"),
        ("run --strategy dsgd(uniform,2)", "2 settings without a name, and takes weighting"),
        ("run --network none.toml", "--network is none.toml: there is no such file"),
        ("run --gradient 1%", "'1%' is not a number; write 0.01"),
        ("run --gradient 1.2.3%", "'1.2.3%' is not a number"),
        ("sweep --gradient 1%", "'1%' is not a number; write 0.01"),
        ("sweep --gradient 1,0.1,5%", "'5%' is not a number; write 0.05"),
        ("search --time 10", "--time is '10': it needs a unit: s, min or h, such as 10min"),
        ("run --stop-at-bits 0bit", "such as 2e6, 500kbit, 2Mbit or 1Gbit\n"),  # 0bit is not meant
        ("list", "give one of tasks, methods, coders, strategies, networks, devices, controllers"),
    ],
)
def test_the_answer_says_what_to_write(text: str, told: str, typed: Typed) -> None:
    refused(typed(*text.split()), told)


def test_a_gpu_that_is_not_there(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.empty", _no_driver)
    refused(typed("run", "--device", "cuda"), "torch finds no GPU on this machine; write --device")


def _no_driver(*_: object, **__: object) -> None:
    raise RuntimeError("Found no driver")


@pytest.mark.parametrize(("reader_is_there", "code"), [(False, 0), (True, 1)])
def test_a_broken_pipe_is_well_where_it_is_the_output_alone(
    reader_is_there: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of `| head`; a pipe to a process of fedsim's own that is gone is an error."""

    def broken(flags: object) -> int:
        raise BrokenPipeError("Broken pipe")

    monkeypatch.setattr(theory, "command_theory", broken)
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as stdout:
        if not reader_is_there:
            os.close(reads)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert cli.main(["theory"]) == code
    if reader_is_there:
        os.close(reads)
    assert ("fedsim: BrokenPipeError" in capsys.readouterr().err) == reader_is_there
