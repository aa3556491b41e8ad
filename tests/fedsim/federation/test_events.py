"""Asynchronous runs: what they equal, ratios, and clients that fail or are refused."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from compressors import UpdateError
from fedsim import run
from fedsim.engines import local
from fedsim.ground.errors import RunFailed
from strategies import Asynchronous
from tests.support.asyncruns import asynchronous
from tests.support.runs import clients, make_task, model, rounds, small  # noqa: F401
from tests.support.threes import give_links


def test_the_ratio_goes_by_what_clients_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three iterations, two a message. Updates of two come at 4 (client 0), 6.5 (1) and 8 s (0);
    then of one at 10 s (0), of two at 11 s (2), asked for at 0 s, and of one at 12 s (0).
    """
    give_links(monkeypatch, compute=[2.0, 3.25, 5.5])
    settings = {"strategy": "fedbuff", "clients": 3, "temporal": 2, "method": "sbc(0.1)"}
    summary = run(small(network="compute=1s", iterations=3, **settings), tmp_path).summary
    assert clients(tmp_path)["sim_end_seconds"].tolist() == [4, 6.5, 8, 10, 11, 12]
    made = pd.read_parquet(tmp_path / "rounds.parquet")
    assert made["local_iterations"].tolist() == [2, 1] and summary["iterations"] == 3
    assert made["used_iterations"].tolist() == [2, 4 / 3]
    wanted = 32 * summary["trained_parameters"] * (2 + 4 / 3) / summary["up_wire_bits"]
    assert summary["ratio_wire"] == pytest.approx(wanted, rel=1e-12)


def test_a_controller_that_moves_nothing_ends_where_a_run_without_one_does() -> None:
    """In the last row there are updates of as many iterations as were left when they began."""
    settings = {"strategy": "fedbuff", "temporal": 2, "method": "sbc(0.1)", "iterations": 5}
    settings |= {"network": "4g, compute=lognormal(20ms, 1)"}
    for controller in (None, "fixed"):
        result = run(small(**settings, controller=controller), progress=False)
        assert result.rounds["iteration"].tolist() == [2, 4, 5]
        assert result.summary["iterations"] == 5


@pytest.mark.parametrize("more", [{}, {"downlink": "sbc(0.1)"}], ids=["model", "updates"])
def test_one_client_is_the_synchronous_run(more: dict[str, Any], tmp_path: Path) -> None:
    alone = {"clients": 1, "iterations": 23, "network": "4g, compute=20ms", **more}
    run(small(**alone), tmp_path / "dsgd")
    for strategy in ({"strategy": "fedbuff"}, {"strategy": "fedasync", "server_lr": 1.0}):
        out = tmp_path / strategy["strategy"]
        run(small(**alone, **strategy), out)
        assert model(out) == model(tmp_path / "dsgd")
        pd.testing.assert_frame_equal(
            rounds(out)[list(rounds(tmp_path / "dsgd"))], rounds(tmp_path / "dsgd")
        )


def test_one_worker_is_the_optimizer_at_the_server(tmp_path: Path) -> None:
    alone = {"clients": 1, "temporal": 1, "iterations": 6, "method": "gradient_dropping(0.05)"}
    run(small(strategy="gradients", **alone), tmp_path / "gradients")
    network = {"network": "4g, compute=20ms", "downlink": "raw"}
    run(small(strategy="sharded", **alone, **network), tmp_path / "sharded")
    assert model(tmp_path / "sharded") == model(tmp_path / "gradients")
    assert rounds(tmp_path / "sharded")["up_wire_bits"].sum() == 0  # it holds all parts itself


def test_the_learning_rate_of_parts_goes_by_rows(make_task: Any) -> None:  # noqa: F811
    """A row is two pushes of four workers; from iteration 2 on the rate is 0."""
    task = make_task(lr_steps=((2, 0.0),)).name
    settings = {"clients": 4, "cohort": 2, "temporal": 1, "iterations": 4, "method": "raw"}
    settings |= {"strategy": "sharded", "network": "4g, compute=20ms"}
    models = run(small(task=task, **settings)).rounds["digest_model"].tolist()
    assert len({*models[:2]}) == 2 and models[2:] == 2 * models[1:2]


def test_a_client_that_fails_is_counted_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = local.LocalGrid.__init__
    calls = {"n": 0}

    def init(self: Any, client_app: Any, *given: Any, **named: Any) -> None:
        def sometimes(message: Any, context: Any) -> Any:
            if message.metadata.message_type == "train" and context.node_config["partition-id"]:
                calls["n"] += 1
                if calls["n"] == 3:
                    raise ValueError("out of order")
            return client_app(message, context)

        app(self, sometimes, *given, **named)

    monkeypatch.setattr(local.LocalGrid, "__init__", init)
    with pytest.raises(RunFailed, match=r"3 of 4 updates can be used and 4 are required; .*out of"):
        run(asynchronous("fedbuff", min_replies=4), tmp_path / "strict")
    calls["n"] = 0
    run(asynchronous("fedbuff"), tmp_path / "kept")
    came = clients(tmp_path / "kept")
    assert came["failures"].sum() == 1 and len(came) == 16
    assert rounds(tmp_path / "kept")["failures"].sum() == 1


def test_an_error_of_the_server_s_own_has_its_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrive(*_: Any) -> None:
        raise UpdateError("it is odd")

    monkeypatch.setattr(Asynchronous, "arrive", arrive)
    with pytest.raises(RunFailed, match="round 1, global update: it is odd"):
        run(asynchronous("fedbuff"), tmp_path)


@pytest.mark.parametrize(
    ("method", "most", "lost"),
    [("qsgd(7)", 3.0, True), ("ef(topk(0.5) | float32 | golomb, mask=true)", 0.7, False)],
)
def test_what_is_refused_and_cannot_be_taken_back_is_lost(
    method: str, most: float, lost: bool, tmp_path: Path
) -> None:
    """Of four clients with skewed data one trains far: its updates are above the norm."""
    given = {
        "clients": 4,
        "cohort": 4,
        "partition": "dirichlet(0.1)",
        "iterations": 24,
        "min_replies": 1,
    }
    run(asynchronous("fedbuff", method=method, max_norm=most, **given), tmp_path)
    told = rounds(tmp_path)
    assert told["failures"].sum() > 0
    assert told["lost"].tolist() == (told["failures"] if lost else 0 * told["failures"]).tolist()
