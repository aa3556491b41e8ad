"""Which methods clients' memory can be kept as, and with which algorithms."""

import pytest
import torch

from compressors import parse
from fedsim import UsageError, run
from fedsim.federation import client_memory
from fedsim.runs.totals import count_unapplied
from fedsim.settings.strategies import STRATEGIES, algorithm_of
from strategies.algorithms.requirements import exact_client_state
from strategies.channel.server_end import ServerEnd
from tests.support.runs import small

EXACT = {
    "ef21": "ef21(topk(0.1) | float32)",
    "diana": "diana(cnat)",
    "marina": "marina(cnat, 0.2)",
    "scaffold": "sbc(0.1)",
}
"""Algorithms whose server's state follows from the clients', with a method of each."""

GROWING = ("randk(0.1) | float32", "bernoulli(0.3) | float32", "fedscalar(4)")


def test_algorithms_that_need_exact_clients_say_so() -> None:
    said = {name for name in STRATEGIES if exact_client_state in algorithm_of(name).requires}
    assert said == {*EXACT}


@pytest.mark.parametrize("way", GROWING)
def test_what_ef_refuses_for_any_tensor_is_refused(way: str) -> None:
    with pytest.raises(UsageError, match="--memory-as is .*grow without end: use (?!ef)"):
        small(method="sbc(0.1)", memory_as=way)


@pytest.mark.parametrize("stateless", [True, False])
def test_what_ef_refuses_for_the_runs_tensors_is_refused_before_work(stateless: bool) -> None:
    """qsgd(7) has omega below 1 for few entries, and not for those of this model."""
    config = small(method="sbc(0.1)", memory_as="qsgd(7)", stateless=stateless)
    with pytest.raises(UsageError, match=r"--memory-as is 'qsgd\(7\)': .*entries.*grow without"):
        run(config, progress=False)


def test_small_tensors_may_be_kept_by_what_large_ones_may_not() -> None:
    client_memory.check_packing({"uplink/residual/w": torch.ones(4)}, "qsgd(7)")
    with pytest.raises(UsageError, match="100000 entries.*or give cnat"):
        client_memory.check_packing({"uplink/residual/w": torch.ones(100_000)}, "qsgd(7)")
    client_memory.check_packing({"base/w": torch.ones(100_000)}, "qsgd(7)")  # stays as it is


def test_residuals_in_fewer_bits_count_as_they_are_read() -> None:
    """(4, 2) in powers of two, of one client of ten."""
    end = ServerEnd(parse("sbc(0.5)"), parse("sbc(0.5)"), {"w": torch.zeros(2)})
    memory = client_memory.pack_memory({"uplink/residual/w": torch.tensor([4.0, 2.0])}, "cnat")
    held = count_unapplied(end, {0: memory}, 10, "cnat")
    assert held == {"held": 0, "held_norm": pytest.approx(20**0.5 / 10)}
