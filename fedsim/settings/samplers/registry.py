"""The samplers by the names that users type."""

from fedsim.settings.named import Listed

SAMPLERS: dict[str, Listed] = {
    "uniform": Listed(
        "samplers.simple:Uniform",
        "every client with the same probability", "McMahan et al. 2017 (FedAvg)",
        "uniform",
    ),
    "weighted": Listed(
        "samplers.simple:Weighted", "one client after the other, with probability by its samples",
        "Efraimidis & Spirakis 2006, algorithm A; Li et al. 2020, scheme I", "weighted(samples)",
    ),
    "power_of_choice": Listed(
        "samplers.losses:PowerOfChoice",
        "of candidates, which are drawn by samples, those with high losses",
        "Cho et al. 2020 (power of choice)", "power_of_choice(10)",
    ),
    "oort": Listed(
        "samplers.oort:Oort",
        "clients with large losses and short times, and some that were never used",
        "Lai et al. 2021 (Oort), Algorithm 1", "oort",
    ),
    "link": Listed(
        "samplers.simple:ByLink",
        "the clients with the fastest links", "this project", "link(fastest)",
    ),
}  # fmt: skip
