"""Every preset against the numbers of its source, from which its rates and latency are derived.

WebPageTest's connectivity profiles give kbit/s down and up and a round trip, of which a message's
latency is half. LoRaWAN's gross rate at DR5 is metered by its duty cycle; its receive window opens
after a second. ITU-R M.2410 gives user experienced rates and a user plane latency, one way.
DeepReduce's Fig. 11 has links of one rate both ways.
"""

import math
from typing import NamedTuple

import pytest

from fedsim.network import PRESETS, parse


class WebPageTest(NamedTuple):
    """A connectivity profile: kbit/s, and the round trip in milliseconds."""

    name: str
    down: float
    up: float
    traffic: float


PROFILES = {
    "edge": WebPageTest("Edge", 240, 200, 840),
    "3g": WebPageTest("3G", 1_600, 768, 300),
    "4g": WebPageTest("4G", 9_000, 9_000, 170),
    "lte": WebPageTest("LTE", 12_000, 12_000, 70),
    "wifi": WebPageTest("FIOS", 20_000, 5_000, 4),
}
DR5, DUTY_UP, DUTY_DOWN, WINDOW = 5_470.0, 0.01, 0.10, 1.0
"""LoRaWAN EU863-870: bit/s, the shares of the time that may be sent, seconds."""

DENSE_URBAN = {"down": 100e6, "up": 50e6, "latency": 4e-3}
"""ITU-R M.2410, enhanced mobile broadband."""

FIGURE_11 = {"100mbit": 100e6, "1gbit": 1e9, "10gbit": 10e9}


def numbers(name: str) -> tuple[float, float, float]:
    """Upload, download and latency of a preset: bits per second, and seconds."""
    network = parse(name)
    for quantity in (network.up, network.down, network.latency):
        assert quantity.kind == "constant"
    return network.up.first, network.down.first, network.latency.first


@pytest.mark.parametrize("name", PROFILES)
def test_webpagetest_s_profiles(name: str) -> None:
    profile = PROFILES[name]
    wanted = (1000 * profile.up, 1000 * profile.down, profile.traffic / 2 / 1000)
    assert numbers(name) == pytest.approx(wanted, rel=1e-12)
    source = PRESETS[name].source
    assert "WebPageTest" in source and source.split("profile ")[1].startswith(profile.name + ";")
    assert "half of its round-trip time" in source


def test_lorawan_is_its_rate_times_its_duty_cycle() -> None:
    """54.7 bit/s up and 547 down."""
    assert numbers("lora") == pytest.approx((DR5 * DUTY_UP, DR5 * DUTY_DOWN, WINDOW), rel=1e-12)
    assert "5,470 bit/s at DR5" in PRESETS["lora"].source


def test_5g_is_itu_s_user_experience() -> None:
    wanted = (DENSE_URBAN["up"], DENSE_URBAN["down"], DENSE_URBAN["latency"])
    assert numbers("5g") == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", FIGURE_11)
def test_clusters_are_the_links_of_deepreduce(name: str) -> None:
    assert numbers(name) == (FIGURE_11[name], FIGURE_11[name], 0)
    assert "Fig. 11" in PRESETS[name].source


def test_no_preset_is_without_a_source_here() -> None:
    """And none limits the server, or says how long a client trains."""
    assert {*PRESETS} == {*PROFILES, "lora", "5g", *FIGURE_11}
    for name in PRESETS:
        network = parse(name)
        assert math.isinf(network.server_up) and math.isinf(network.server_down)
        assert network.measured and network.compute.first == 1 and network.trace is None
