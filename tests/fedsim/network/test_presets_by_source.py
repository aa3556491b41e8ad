"""Every preset against the numbers of its source, from which its rates and latency are derived.

WebPageTest's connectivity profiles give kbit/s down and up and a round trip in milliseconds, of
which a message's latency is half. LoRaWAN's gross rate at DR5 is metered by its duty cycle; its
receive window opens after a second. ITU-R M.2410 gives user experienced rates and a user plane
latency, one way. DeepReduce's Fig. 11 has links of one rate both ways.
"""

import math
import runpy

import pytest

from fedsim.network import PRESETS, parse
from tests.support.markdown import ROOT


def profile(name: str, down: float, up: float, trip: float) -> tuple[float, float, float, str]:
    """A profile of WebPageTest."""
    return 1000 * up, 1000 * down, trip / 2 / 1000, f"connectivity profile {name};"


DR5 = 5_470.0
"""LoRaWAN EU863-870, bit/s; 1 % of the time may be sent upwards, 10 % downwards."""

SOURCES = {
    "edge": profile("Edge", 240, 200, 840), "3g": profile("3G", 1_600, 768, 300),
    "4g": profile("4G", 9_000, 9_000, 170), "lte": profile("LTE", 12_000, 12_000, 70),
    "wifi": profile("FIOS", 20_000, 5_000, 4),
    "lora": (0.01 * DR5, 0.10 * DR5, 1.0, "5,470 bit/s at DR5"),
    "5g": (50e6, 100e6, 4e-3, "ITU-R M.2410"), "100mbit": (100e6, 100e6, 0, "Fig. 11"),
    "1gbit": (1e9, 1e9, 0, "Fig. 11"), "10gbit": (10e9, 10e9, 0, "Fig. 11"),
}  # fmt: skip
"""Upload, download and latency in bits per second and seconds, and words of the source."""


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_its_source_s_numbers(name: str) -> None:
    """And limits no server, nor says how long a client trains."""
    network, (*numbers, words) = parse(name), SOURCES[name]
    link = (network.up, network.down, network.latency)
    assert {quantity.kind for quantity in link} == {"constant"}
    assert [quantity.first for quantity in link] == pytest.approx(numbers, rel=1e-12)
    assert words in PRESETS[name].source and network.name == name
    assert math.isinf(network.server_up) and math.isinf(network.server_down)
    assert network.measured and network.compute.first == 1 and network.trace is None


def test_the_page_s_table_of_presets_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "make_networks.py"))["page"]()
    written = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert written == page, "run: python docs/make_networks.py"
