"""Every preset and device against the numbers of its source, from which its own are derived.

WebPageTest's connectivity profiles give kbit/s down and up and a round trip in milliseconds, of
which a message's latency is half. LoRaWAN's gross rate at DR5 is metered by its duty cycle; its
receive window opens after a second. ITU-R M.2410 gives user experienced rates and a user plane
latency, one way. DeepReduce's Fig. 11 has links of one rate both ways.

A device's median is the geometric mean of its source's figures, and its sigma is the standard
deviation of their logarithms.
"""

import math

import numpy as np
import pytest

from fedsim.ground.errors import UsageError
from fedsim.network import DEVICE_PROFILES, PRESETS, parse


def profile(name: str, down: float, up: float, trip: float) -> tuple[float, float, float, str]:
    """A profile of WebPageTest."""
    return 1000 * up, 1000 * down, trip / 2 / 1000, f"connectivity profile {name};"


DR5 = 5_470.0
"""LoRaWAN EU863-870, bit/s; 1 % of the time may be sent upwards, 10 % downwards."""

SOURCES = {
    "edge": profile("Edge", 240, 200, 840),
    "3g": profile("3G", 1_600, 768, 300),
    "4g": profile("4G", 9_000, 9_000, 170),
    "lte": profile("LTE", 12_000, 12_000, 70),
    "wifi": profile("FIOS", 20_000, 5_000, 4),
    "lora": (0.01 * DR5, 0.10 * DR5, 1.0, "5,470 bit/s at DR5"),
    "5g": (50e6, 100e6, 4e-3, "ITU-R M.2410"),
    "100mbit": (100e6, 100e6, 0, "Fig. 11"),
    "1gbit": (1e9, 1e9, 0, "Fig. 11"),
    "10gbit": (10e9, 10e9, 0, "Fig. 11"),
}
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


CONV1, CONV2, DENSE = 28**2 * 25 * 32, 14**2 * 25 * 32 * 64, 7**2 * 64 * 2048 + 2048 * 62
FEMNIST_FLOPS = 2 * 10 * (3 * (CONV1 + CONV2 + DENSE) - CONV1)
"""Of ten samples: forward, gradients of weights, and of inputs except the first layer's."""

WEIGHTS = np.array([18_820, 16_428, 159])  # Nexus S, Redmi Note 7 Pro and Pixel 4
MILLIAMPERES = np.array([259.0, 3 + 354, 8.4 + 2.6 + 223.89])
GPUS = np.array([[136, 53, 56, 47], [70, 38, 41, 36], [67, 37, 40, 34], [62, 39, 41, 36]])
LISTS: dict[str, tuple[np.ndarray, np.ndarray | None, np.ndarray]] = {
    "phones": (FEMNIST_FLOPS / np.array([1.642, 0.588, 0.179]), 3.8e-3 * MILLIAMPERES, WEIGHTS),
    "boards": (
        1e9 * np.array([11.433, 11.077, 11.889, 31.477, 30.249, 29.812]),
        np.array([5.2, 6.4, 7.2, 10, 11, 11.5]),
        np.ones(6),
    ),
    "servers": (1e12 * np.exp(np.log(GPUS).mean(1)), None, np.ones(4)),
}
"""Operations per second, watts, and weights in the lists of the sources."""


@pytest.mark.parametrize("name", DEVICE_PROFILES)
def test_a_device_is_a_lognormal_fit_of_its_source_s_list(name: str) -> None:
    """Its text is what a user could type; clients that are drawn have its median."""
    rates, watts, weights = LISTS[name]
    network = parse(f"device={name}, flops=1TFLOP")
    assert network.by_flops and not network.energy_by_flops and not network.limited
    for varying, figures in ((network.compute, rates), (network.energy_compute, watts)):
        if figures is None:
            assert not network.spends
            continue
        logs = np.log(figures)
        mean = np.average(logs, weights=weights)
        sigma = math.sqrt(np.average((logs - mean) ** 2, weights=weights))
        assert varying.kind == "lognormal"
        assert varying.first == pytest.approx(math.exp(mean), rel=0.04)
        assert varying.second == pytest.approx(sigma, rel=0.02)
    seconds = network.links(4001, 0, math.nan).compute
    assert np.median(1e12 / seconds) == pytest.approx(network.compute.first, rel=0.05)
    drawn = np.median(network.energy(4001, 0).iteration / seconds)
    assert drawn == pytest.approx(network.energy_compute.first, rel=0.05)


def test_typed_settings_replace_those_of_a_device() -> None:
    typed = parse("4g, compute=2GFLOP/s, device=phones")
    assert typed.compute.first == 2e9 and typed.compute.kind == "constant"
    assert typed.up.first == 9e6 and typed.energy_compute == parse("device=phones").energy_compute


def test_an_unknown_device_names_those_that_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        parse("4g, device=phone")
    assert all(word in str(refused.value) for word in ("device", "'phone'", *DEVICE_PROFILES))
