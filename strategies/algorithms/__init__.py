"""Algorithms: what a server makes of a round, and what its clients do besides training.

One file holds one algorithm: the server's rule, the client's half, what the algorithm goes with
and its source. Everything else (cohorts, payloads, acknowledgements, clocks, checkpoints) is the
same for all of them, and names none.
"""

ALGORITHMS: dict[str, str] = {
    "dsgd": "dsgd:DSGD",
    "fedper": "fedper:FedPer",
    "fedrep": "fedrep:FedRep",
    "fedbabu": "fedbabu:FedBABU",
    "majority": "majority:Majority",
    "innetwork": "innetwork:InNetwork",
    "ef21": "ef21:EF21",
    "diana": "diana:DIANA",
    "marina": "marina:MARINA",
    "permk": "permk:PermK",
    "fetchsgd": "fetchsgd:FetchSGD",
    "secagg": "secagg:SecAgg",
    "nesterov": "nesterov:Nesterov",
    "diloco": "diloco:DiLoCo",
    "median": "robust:Median",
    "trimmed_mean": "robust:TrimmedMean",
    "krum": "robust:Krum",
    "dp": "dp:DP",
    "fedavg": "flowers:FedAvg",
    "fedavgm": "flowers:FedAvgM",
    "fedadagrad": "flowers:FedAdagrad",
    "fedadam": "flowers:FedAdam",
    "fedyogi": "flowers:FedYogi",
    "scaffold": "scaffold:Scaffold",
    "gradients": "gradients:Gradients",
    "fedbuff": "fedbuff:FedBuff",
    "fedasync": "fedasync:FedAsync",
    "sharded": "sharded:Sharded",
}
"""Every algorithm by the name that users type, as ``file:Class``, in the order of the help."""

# What a reader of results has to know of them without torch. A test compares it with the classes.
CODED = ("majority", "innetwork", "ef21", "diana", "marina", "permk", "fetchsgd", "secagg")
"""Those that take only methods which send codes that they add up: never ``raw``."""

OWN_DOWNLINK = ("majority", "diloco", "sharded")
"""Those whose downlink is not ``raw`` by default."""

AVERAGES = ("dsgd", "fedper", "fedrep", "fedbabu", "permk")
"""Those whose model moves by a mean that clients can make themselves."""
