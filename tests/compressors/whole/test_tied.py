"""Names that may be one tensor: what is equal travels once, and nothing else changes."""

import pytest
import torch
from torch import Tensor

from compressors import PayloadError, Raw, compress, decompress, parse
from compressors.whole.tied import Tied, pairs_of
from tests.support.generators import same_bits, whole_numbers

METHODS = (
    "raw",
    "terngrad",
    "sbc(0.2)",
    "flat(topk(0.2) | float32)",
    "powersgd(1)",
    "dgc(0.2)",
    "ef(flat(randk(0.2, false) | float32))",
    "by_name('a', sbc(0.2), '*', sbc(0.3))",
    "by_name('a', raw, '*', sbc(0.3))",
)


def update(seed: int, equal: bool) -> dict[str, Tensor]:
    a = whole_numbers(60, seed).view(12, 5)
    c = a.clone() if equal else whole_numbers(60, seed + 50).view(12, 5)
    return {"a": a, "b": whole_numbers(7, seed + 99), "c": c, "residual/a": a + 1}


@pytest.mark.parametrize("method", METHODS)
def test_what_is_sent_arrives(method: str) -> None:
    """Equal, then not, then equal again, when a residual of each is not that of the other."""
    compressor = Tied(parse(method), ((0, 2),))
    state = None
    for seed, equal in enumerate((True, True, False, True)):
        given = update(seed, equal)
        packet, state = compress(compressor, given, state, seed)
        got = decompress(compressor, packet.payload, given)
        assert list(got) == list(given)
        assert same_bits(got, {name: one.decoded for name, one in packet.sent.items()})
        assert sum(packet.spans.values()) == 8 * len(packet.payload)
        once = seed < 2 and "'a', raw" not in method  # else the second has a memory of its own
        if once:
            assert torch.equal(got["a"], got["c"])
        more = len(packet.payload) - len(compress(parse(method), given, None, seed)[0].payload)
        assert more < 0 if once and method != "dgc(0.2)" else more <= 20


def test_residuals_add_up_under_both_names() -> None:
    compressor = Tied(parse("ef(topk(0.2) | float32)"), ((0, 2),))
    state, wanted, got = None, dict[str, Tensor](), dict[str, Tensor]()
    for seed, equal in enumerate((True, False, True, True)):
        given = update(seed, equal)
        packet, state = compress(compressor, given, state, seed)
        for total, part in ((wanted, given), (got, decompress(compressor, packet.payload, given))):
            total |= {n: x + total[n] if n in total else x for n, x in part.items()}
    assert all(torch.equal(got[n] + state[f"residual/{n}"], x) for n, x in wanted.items())


def test_a_cut_message_is_refused() -> None:
    compressor = Tied(Raw(), ((0, 2),))
    payload = compress(compressor, update(0, True))[0].payload
    for cut in range(len(payload)):
        with pytest.raises(PayloadError):
            decompress(compressor, payload[:cut], update(0, True))
    with pytest.raises(PayloadError):
        decompress(Raw(), payload, update(0, True))


def test_pairs_are_of_equal_tensors_that_say_something() -> None:
    x = whole_numbers(6, 1)
    given = {"a": x, "turned": x.view(2, 3), "b": x.clone(), "c": x.clone(), "less": x[:5]}
    assert pairs_of(given) == ((0, 2), (0, 3))
    assert pairs_of({"a": torch.ones(3), "b": torch.ones(3), "s": x[0], "t": x[0]}) == ()
