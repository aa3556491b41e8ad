"""Networks and devices by name, each with its source."""

from typing import NamedTuple


class Preset(NamedTuple):
    """Settings of a network as text, what they describe, and where their numbers are from."""

    text: str
    title: str
    source: str


_SHAPING = "WebPageTest, connectivity profile {}; latency is half of its round-trip time"
_FIGURE = "Kostopoulou et al. 2021 (DeepReduce), Fig. 11: links of the cluster"

PRESETS: dict[str, Preset] = {
    "lora": Preset(
        "up=54.7bit, down=547bit, latency=1s",
        "LoRaWAN at 868 MHz, spreading factor 7: metered air time",
        "LoRaWAN Regional Parameters, EU863-870: 5,470 bit/s at DR5, times the duty cycle of 1 % "
        "up and 10 % down; latency: its receive delay of 1 s",
    ),
    "edge": Preset("up=200kbit, down=240kbit, latency=420ms", "2.5G", _SHAPING.format("Edge")),
    "3g": Preset("up=768kbit, down=1.6Mbit, latency=150ms", "3G", _SHAPING.format("3G")),
    "4g": Preset("up=9Mbit, down=9Mbit, latency=85ms", "4G", _SHAPING.format("4G")),
    "lte": Preset("up=12Mbit, down=12Mbit, latency=35ms", "LTE", _SHAPING.format("LTE")),
    "5g": Preset(
        "up=50Mbit, down=100Mbit, latency=4ms",
        "5G as a user sees it in a dense city",
        "ITU-R M.2410: user experienced data rates and user plane latency of enhanced mobile "
        "broadband",
    ),
    "wifi": Preset(
        "up=5Mbit, down=20Mbit, latency=2ms",
        "home Wi-Fi, limited by the line behind it",
        _SHAPING.format("FIOS"),
    ),
    "100mbit": Preset("up=100Mbit, down=100Mbit", "a slow cluster", _FIGURE),
    "1gbit": Preset("up=1Gbit, down=1Gbit", "a cluster", _FIGURE),
    "10gbit": Preset("up=10Gbit, down=10Gbit", "a fast cluster", _FIGURE),
}
"""Upload and download rate of every client, in bits per second, and the delay of one message."""

DEVICE_PROFILES: dict[str, Preset] = {
    "phones": Preset(
        "compute=lognormal(1GFLOP/s, 0.52), energy_compute=lognormal(1.1W, 0.16)",
        "slow, middle and fast phones, CPU",
        "Yang et al. 2021 (FLASH): seconds of a training batch, weights of the classes; "
        "Yousefpour et al. 2023 (Green Federated Learning), section 4.1: power by Android's power "
        "profiles",
    ),
    "boards": Preset(
        "compute=lognormal(19GFLOP/s, 0.49), energy_compute=lognormal(8.2W, 0.3)",
        "Raspberry Pi 4 and 5, CPU",
        "Geerling, github.com/geerlingguy/top500-benchmark: HPL in float64, power at the plug",
    ),
    "servers": Preset(
        "compute=lognormal(48TFLOP/s, 0.18)",
        "one GPU each (A100, A6000, V100 or 3090 Ti), Transformers in float16",
        "Li, github.com/mli/transformers-benchmarks: forward and backward passes; it has no power",
    ),
}
"""Every client's operations per second while it trains, and its power: lognormal fits of lists."""
