"""DIANA trains the digits; the stored messages, with shifts, make the final weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compressors import parse
from fedsim import UsageError, run
from strategies import DIANA, EF21, DelayedDSGD, build
from tests.support import replaying
from tests.support.runs import small

METHOD = {"method": "diana(randk(0.25) | cnat, 0.125)", "strategy": "diana"}


@pytest.mark.parametrize("some", [{}, {"clients": 5, "cohort": 2}], ids=["all", "cohort"])
def test_it_learns_and_its_messages_add_up(tmp_path: Path, some: dict[str, int]) -> None:
    config = small(**METHOD, **some, keep_payloads=True)
    summary = run(config, tmp_path).summary
    weights = replaying.initial(config)
    own = {c: {n: torch.zeros_like(x) for n, x in weights.items()} for c in range(5)}
    for ups in replaying.uplinks(tmp_path, config):
        n = config.plan.clients
        for name, x in weights.items():
            shift = sum(own[c][name] for c in range(n)) / n  # the server's is the mean of theirs
            weights[name] = x + shift + sum(up[name] for up in ups.values()) / len(ups)
            for client, up in ups.items():
                own[client][name] = own[client][name] + 0.125 * up[name]
    final = load_file(tmp_path / "model.safetensors")
    assert all(torch.allclose(x, final[n], atol=1e-5) for n, x in weights.items())
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance


def test_it_goes_on_from_what_was_kept() -> None:
    """The shift is in ``state``, under names of its own."""
    one, other = (build(DIANA(), parse(METHOD["method"]), clients=2) for _ in range(2))
    for strategy in (one, other):
        strategy.open({"w": torch.zeros(3)})
    one.memory = {"w": torch.tensor([1.0, 2.0, 3.0])}
    other.restore(*one.state())
    assert torch.equal(other.memory["w"], one.memory["w"])


def test_each_method_of_differences_has_its_own_strategy() -> None:
    for strategy in ("dsgd", "fedadam"):
        with pytest.raises(UsageError, match="messages of diana are read by --strategy diana"):
            small(method=METHOD["method"], strategy=strategy)
    with pytest.raises(UsageError, match="--method is .*give 'ef21"):
        small(method=METHOD["method"], strategy="ef21")
    with pytest.raises(UsageError, match="--method is .*give 'diana"):
        small(method="ef21(cnat)", strategy="diana")
    for down in (METHOD["method"], "ef21(cnat)"):
        with pytest.raises(UsageError, match=r"ef21\(\.\.\.\) alone is a downlink"):
            small(**METHOD, downlink=down)
    with pytest.raises(ValueError, match="messages of diana are read by strategy diana alone"):
        DelayedDSGD(parse(METHOD["method"]), clients=2)
    with pytest.raises(ValueError, match="messages of diana are read by strategy diana alone"):
        build(EF21(), parse(METHOD["method"]), clients=2)
    with pytest.raises(ValueError, match="messages of ef21 are read by strategy ef21 alone"):
        build(DIANA(), parse(METHOD["method"]), parse("ef21(cnat)"), clients=2)
    with pytest.raises(ValueError, match="uplink is .*give 'ef21"):
        build(EF21(), parse("raw"), clients=2)
    with pytest.raises(ValueError, match="uplink is .*give 'diana"):
        build(DIANA(), parse("raw"), clients=2)
