"""A task with several metrics: the first is the headline, the others are columns beside it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from fedsim import RunConfig, UsageError, load, run
from fedsim.federation.clientdata import ClientData
from fedsim.show.tables import summary_texts
from fedsim.tasks import get_task
from tests.support.markdown import ROOT, blocks


def functions() -> dict[str, Any]:
    """Those of docs/own-task.md."""
    (block,) = [b for b in blocks(ROOT / "docs" / "own-task.md") if "def scored" in b.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    return names


def digits(**changes: Any) -> Any:
    """The digits, scored otherwise."""

    return replace(get_task("digits"), name="several", **changes)


def config(task: Any, **given: Any) -> RunConfig:
    return RunConfig.of(
        task=task, method="raw", temporal=2, iterations=4, evaluate_every=2, **given
    )


def test_the_scores_of_the_page(tmp_path: Path) -> None:
    page = functions()
    task = digits(metric=page["scored"], reported=page["reported"], evaluation_batch=100)
    result = run(config(task, evaluate_clients=0.2), tmp_path)
    data = ClientData.of(result.config).data
    model = task.model(data)
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    with torch.no_grad():
        outputs = model.eval()(data.test_x)
    found = outputs.argmax(1)
    recalls = [float((found[data.test_y == c] == c).float().mean()) for c in range(10)]
    ranks = (outputs > outputs.gather(1, data.test_y[:, None])).sum(1)
    last = result.rounds.iloc[-1]
    assert last["metric"] == pytest.approx(float((found == data.test_y).float().mean()))
    assert last["score_top5"] == pytest.approx(float((ranks < 5).float().mean()))
    assert last["score_balanced_accuracy"] == pytest.approx(sum(recalls) / 10)
    assert "score_accuracy" not in last  # which is the headline
    assert result.rounds["score_top5"].notna().tolist() == [False, True]
    assert result.summary["score_top5"] == last["score_top5"]
    assert 0 <= last["client_metric_worst"] <= last["client_metric_mean"] <= 1
    headings, rows, _ = summary_texts(load(tmp_path).runs, ["metric", "score_top5"])
    assert headings == ["accuracy", "score top5"] and float(rows[0][0][1]) > 0.3


def two(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    right = (outputs.argmax(1) == targets).sum()
    return {"accuracy": right, "wrong": len(targets) - right}


def test_the_headline_is_what_a_single_metric_is() -> None:
    rounds = run(config(digits(metric=two))).rounds
    plain = run(config(digits())).rounds
    assert rounds["metric"].dropna().tolist() == plain["metric"].dropna().tolist()
    total = rounds["metric"] + rounds["score_wrong"]
    assert total.dropna().tolist() == pytest.approx([1.0])
    assert not [name for name in plain.columns if name.startswith("score_")]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reported": lambda means: 3.0}, "reported returned 3.0; where metric returns a mapping"),
        ({"reported": lambda means: {"top 5": 1.0}}, "reported returned {'top 5': 1.0}; where"),
        ({"reported": lambda means: means["f1"]}, "reported: .* fails: KeyError: 'f1'"),
        ({"metric": lambda x, y: {"a": torch.ones(3)}}, "reported: .* fails: "),
        ({"metric": lambda x, y: {"a": torch.ones(())}}, "metric's 'a' is 1 .* it returns the sum"),
        ({"metric": lambda x, y: {}}, "metric"),
    ],
)
def test_mistakes_are_told_before_any_round(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(config(digits(**{"metric": two} | changes)))


def test_a_number_that_no_float_holds_is_infinite() -> None:
    """A perplexity of a loss above 709, as a run that diverges has."""
    task = digits(
        metric=lambda outputs, targets: torch.full((), 1000.0 * len(targets)),
        reported=math.exp,
        metric_name="perplexity",
        higher_is_better=False,
    )
    done = run(config(task), progress=False)
    assert done.summary["metric"] == math.inf and done.summary["status"] == "done"
