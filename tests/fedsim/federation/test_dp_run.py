"""Runs with `dp`: what they record, and what they do not go with."""

from typing import Any

import pytest
import torch
from torch import nn

from fedsim import RunConfig, UsageError, run
from fedsim.federation import precheck
from strategies import DP
from tests.support.runs import make_task, small  # noqa: F401

NOISY = {"strategy": "dp(noise=0.5, clip=0.3)", "cohort": 3}
ADAPTIVE = {"strategy": "dp(noise=0.3, clip=0.3, quantile=0.5, count_noise=1.0)"}


def test_epsilon_is_a_column_that_counts_every_round_so_far() -> None:
    result = run(small(**NOISY))
    rule = DP(noise=0.5, clip=0.3)
    assert result.rounds["epsilon"].tolist() == [rule.epsilon(n) for n in (1, 2, 3, 4)]
    assert result.summary["epsilon"] == rule.epsilon(4)
    assert "epsilon" not in run(small()).rounds


def test_messages_of_the_first_round_are_those_of_the_mean() -> None:
    """Neither noise nor the count of short updates travels up; with `raw` no bit changes."""
    frames = [run(small(method="raw", **given)).rounds for given in (ADAPTIVE, {})]
    assert frames[0]["up_message_bits"].tolist() == frames[1]["up_message_bits"].tolist()
    assert frames[0]["digest_payloads"][0] == frames[1]["digest_payloads"][0]
    assert frames[0]["digest_model"][0] != frames[1]["digest_model"][0]


def test_with_over_selection_the_sum_is_divided_by_the_cohort() -> None:
    """Four are asked and the first two are used: without noise and clips it is their mean."""
    settings: dict[str, Any] = {"method": "raw", "iterations": 5, "cohort": 2, "ask": 4}
    settings["network"] = "4g, compute=lognormal(20ms, 1)"
    mean, private = (
        run(small(strategy=s, **settings)) for s in ("dsgd", "dp(noise=1e-9, clip=50)")
    )
    for name, x in mean.model.items():
        torch.testing.assert_close(private.model[name], x, rtol=0.0, atol=1e-6)


def test_models_with_buffers_are_refused(make_task: Any) -> None:  # noqa: F811
    task = make_task(build=lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)))
    with pytest.raises(UsageError, match=r"--strategy is 'dp'.*buffers.*without noise"):
        precheck.check_trainable(RunConfig.of(task=task.name, strategy="dp", temporal=2))
