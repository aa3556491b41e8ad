"""The sum of many messages, added where their values belong, in the order of the clients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import PayloadError, add_up, compress, decompress, parse
from tests.support.gpu import DEVICE, equal_bits, needs_triton, taken, waits

SHARES = [0.5, 0.3, 0.7]
TEXTS = ["topk(0.4) | cnat(8) | golomb", "by_name('b', raw, '*', topk(0.5) | qsgd(3, 4) | golomb)"]


def updates(seed: int) -> list[dict[str, Tensor]]:
    rng = np.random.default_rng(seed)
    shapes = {"w": (6, 5), "none": (0,), "b": (4,)}
    return [{n: torch.from_numpy(rng.normal(size=s).astype(np.float32)) for n, s in shapes.items()}
            for _ in SHARES]  # fmt: skip


def in_order(text: str, payloads: list[bytes], like: dict[str, Tensor]) -> dict[str, Tensor]:
    """One product and one sum per entry and message, each rounded by itself."""
    found = {name: np.zeros(x.shape, np.float32) for name, x in like.items()}
    for payload, share in zip(payloads, SHARES, strict=True):
        for name, x in decompress(parse(text), payload, like).items():
            found[name] += np.float32(share) * x.numpy()
    return {name: torch.from_numpy(x) for name, x in found.items()}


@needs_triton
@pytest.mark.parametrize("text", TEXTS)
def test_the_sum_is_that_of_one_after_the_other(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, waited = updates(3), waits(monkeypatch, "compressors.device.read")
    payloads = [compress(parse(text), one, seed=i)[0].payload for i, one in enumerate(many)]
    there = {name: x.to(DEVICE) for name, x in many[0].items()}
    with taken():
        found = add_up(parse(text), payloads, there, SHARES)
        again = add_up(parse(text), payloads, there, SHARES)
    assert len(waited) == 2  # once a sum, whatever the number of messages
    for name, x in in_order(text, payloads, many[0]).items():
        assert equal_bits(found[name], x) and equal_bits(again[name], x), name
    on_host = add_up(parse(text), payloads, many[0], SHARES)
    for name, x in found.items():
        torch.testing.assert_close(x.cpu(), on_host[name], rtol=1e-6, atol=1e-7)


@needs_triton
def test_what_is_wrong_with_one_message_ends_the_sum() -> None:
    one = updates(4)[0]
    good = compress(parse("cnat"), one)[0].payload
    with taken():
        there = {name: x.to(DEVICE) for name, x in one.items()}
        for wrong, said in ((good[:-1], "ends early"), (good + b"\0", "trailing data"),
                            (good[:3] + b"\xff" * 9 + good[12:], "NaN or infinity")):  # fmt: skip
            with pytest.raises(PayloadError, match=said):
                add_up(parse("cnat"), [good, wrong], there, [1.0, 1.0])


def test_no_message_and_too_few_shares() -> None:
    one = {"w": torch.ones(2)}
    assert add_up(parse("raw"), [], one, [])["w"].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="shorter"):
        add_up(parse("raw"), [compress(parse("raw"), one)[0].payload], one, [])
