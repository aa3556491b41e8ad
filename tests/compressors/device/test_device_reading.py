"""Messages that are read on a GPU: what is refused there, and that the host waits once."""

import pytest
import torch

from compressors import PayloadError, compress, decompress, parse
from tests.support.gpu import needs_triton, received, waits

pytestmark = needs_triton
UPDATE = {"a": torch.tensor([1.0, -2.0, 3.0, 0.5]), "b": torch.tensor([4.0, 5.0])}


def refused(text: str, payload: bytes) -> str:
    """What the kernels say of a payload: the host says the same."""
    with pytest.raises(PayloadError) as here:
        decompress(parse(text), payload, UPDATE)
    with pytest.raises(PayloadError) as there:
        received(text, payload, UPDATE)
    assert str(here.value) == str(there.value)
    return str(there.value)


@pytest.mark.parametrize("text", ["float32", "sbc(0.5)", "topk(0.5) | qsgd(5) | golomb"])
def test_what_is_cut_or_too_long(text: str) -> None:
    payload = compress(parse(text), UPDATE)[0].payload
    assert "ends early" in refused(text, payload[:-1]) or text == "sbc(0.5)"
    assert "trailing data" in refused(text, payload + b"\0")


def test_a_symbol_beyond_the_alphabet() -> None:
    payload = compress(parse("terngrad(none)"), UPDATE)[0].payload
    assert "symbol 3" in refused("terngrad(none)", payload[:7] + b"\xff" + payload[8:])


def test_infinity_is_refused() -> None:
    payload = compress(parse("cnat"), UPDATE)[0].payload
    assert "decodes to NaN or infinity" in refused("cnat", payload[:3] + b"\xff" * 5 + payload[8:])


def test_the_host_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = waits(monkeypatch, "compressors.device.read")
    many = {f"t{i}": torch.arange(float(i + 2)) for i in range(5)}
    payload = compress(parse("sbc(0.5)"), many)[0].payload
    received("sbc(0.5)", payload, many)
    assert len(waited) == 1
