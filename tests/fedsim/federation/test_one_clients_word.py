"""One client of a run that says what is not so: it is named, and the run is the others'."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from compressors import Raw, compress, decompress
from fedsim import RunFailed, run
from fedsim.federation import client as client_module
from fedsim.federation.trainer import trainer_of
from strategies.channel.payload import KEY, METRICS, SENT
from tests.support.runs import clients as client_rows
from tests.support.runs import layers, rounds, small

LIAR = 2
Odd = Callable[[RecordDict], None]


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Odd], None]]:
    """Sets what becomes of the liar's replies."""
    serve = client_module.serve

    def set_to(odd: Odd) -> None:
        def changed(request: Any, settings: Any, client: int, *given: Any) -> Any:
            content, after = yield from serve(request, settings, client, *given)
            if client == LIAR:
                odd(content)
            return content, after

        monkeypatch.setattr(client_module, "serve", changed)

    yield set_to


def says(**numbers: Any) -> Odd:
    def change(content: RecordDict) -> None:
        told = {name.replace("_", "-"): value for name, value in numbers.items()}
        content[METRICS] = MetricRecord({**content[METRICS], **told})

    return change


def times(factor: float) -> Odd:
    """Multiplies the update of a client that sends it raw."""
    template = {n: p.detach() for n, p in trainer_of(small(method="raw")).parameters.items()}

    def change(content: RecordDict) -> None:
        beside = content[KEY]
        update = decompress(Raw(), beside["payload"], template)
        payload = compress(Raw(), {n: x * factor for n, x in update.items()})[0].payload
        content[KEY] = ConfigRecord({**beside, "payload": payload})

    return change


def test_counts_are_those_of_the_messages(lying: Any, tmp_path: Path) -> None:
    run(small(), tmp_path / "honest")
    lying(says(sent=2**62, **{SENT: [2**62] * len(trainer_of(small()).parameters)}))
    run(small(), tmp_path / "lying")
    for frame in (rounds, client_rows):
        counts = [frame(tmp_path / name)["up_sent"].tolist() for name in ("honest", "lying")]
        assert counts[0] == counts[1]
    assert layers(tmp_path / "honest").equals(layers(tmp_path / "lying"))


@pytest.mark.parametrize("number", [-1077, 10**18, float("nan")])
def test_a_number_of_samples_that_cannot_be_is_not_believed(
    number: float, lying: Any, tmp_path: Path
) -> None:
    lying(says(num_examples=number))
    summary = run(small(method="raw", weighting="samples"), tmp_path).summary
    assert summary["failures"] == 4 and summary["metric"] > 0.5
    assert summary["failure_reasons"].startswith("num-examples is ")


def test_who_sent_the_largest_update_is_named(lying: Any, tmp_path: Path) -> None:
    lying(times(1e20))
    named = (
        r"round 2: 0 of 4 clients replied .*client 0: .*; the largest update of round 1 is client "
        r"2's, of norm \d\.\d+e\+19 \(the others' at most 0\.\d+\); --max-norm refuses updates"
    )
    with pytest.raises(RunFailed, match=named):
        run(small(method="raw"), tmp_path / "far")
    lying(times(1e38))
    named = r"'\d\.weight' is not finite any more: .*; the largest update of round 1 is client 2's"
    with pytest.raises(RunFailed, match=named):
        run(small(method="raw", strategy="nesterov", server_lr=1e3), tmp_path / "infinite")
    named = r"global update: tensor '\d\.weight'.*; the largest update of round 1 is client 2's"
    with pytest.raises(RunFailed, match=named):
        run(
            small(method="raw", strategy="nesterov", server_lr=1e3, downlink="sbc(0.05)"),
            tmp_path / "down",
        )


def test_a_norm_is_allowed(lying: Any, tmp_path: Path) -> None:
    lying(times(1e20))
    summary = run(small(method="raw", max_norm=5.0), tmp_path).summary
    assert summary["failures"] == 4 and summary["metric"] > 0.5
    told = client_rows(tmp_path)["failure_reasons"].iloc[LIAR]
    assert told.startswith("the update has norm ") and told.endswith(": at most 5 is allowed")


def test_seconds_that_cannot_be_move_no_clock(lying: Any, tmp_path: Path) -> None:
    lying(says(train_seconds=float("inf")))
    network = "up=5Mbit, down=20Mbit, compute=measured"
    summary = run(small(network=network), tmp_path).summary
    assert summary["failures"] == 4 and summary["sim_seconds"] < 60
