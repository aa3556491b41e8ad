"""Algorithms: what a server makes of a round, and what its clients do besides training.

One file holds one algorithm: the server's rule, the client's half, what the algorithm goes with
and its source. Those that at most one experiment uses are in ``strategies.contrib``. Everything
else (cohorts, payloads, acknowledgements, clocks, checkpoints) is the same for all of them, and
names none.
"""

ALGORITHMS: dict[str, str] = {
    "dsgd": "algorithms.dsgd:DSGD",
    "fedper": "algorithms.fedper:FedPer",
    "fedrep": "algorithms.fedrep:FedRep",
    "fedbabu": "algorithms.fedbabu:FedBABU",
    "majority": "contrib.majority:Majority",
    "innetwork": "contrib.innetwork:InNetwork",
    "ef21": "algorithms.ef21:EF21",
    "diana": "contrib.diana:DIANA",
    "marina": "contrib.marina:MARINA",
    "permk": "contrib.permk:PermK",
    "fetchsgd": "contrib.fetchsgd:FetchSGD",
    "secagg": "algorithms.secagg:SecAgg",
    "nesterov": "algorithms.nesterov:Nesterov",
    "diloco": "algorithms.diloco:DiLoCo",
    "median": "algorithms.robust:Median",
    "trimmed_mean": "algorithms.robust:TrimmedMean",
    "krum": "algorithms.robust:Krum",
    "dp": "algorithms.dp:DP",
    "fedavg": "algorithms.flowers:FedAvg",
    "fedavgm": "algorithms.flowers:FedAvgM",
    "fedadagrad": "algorithms.flowers:FedAdagrad",
    "fedadam": "algorithms.flowers:FedAdam",
    "fedyogi": "algorithms.flowers:FedYogi",
    "scaffold": "algorithms.scaffold:Scaffold",
    "gradients": "algorithms.gradients:Gradients",
    "fedbuff": "algorithms.fedbuff:FedBuff",
    "fedasync": "algorithms.fedasync:FedAsync",
    "sharded": "algorithms.sharded:Sharded",
}
"""Every algorithm by the name that users type, as ``module:Class`` below ``strategies``.

In the order of the help.
"""

# What a reader of results has to know of them without torch. A test compares it with the classes.
CODED = ("majority", "innetwork", "ef21", "diana", "marina", "permk", "fetchsgd", "secagg")
"""Those that take only methods which send codes that they add up: never ``raw``."""

OWN_DOWNLINK = ("majority", "diloco", "sharded")
"""Those whose downlink is not ``raw`` by default."""

AVERAGES = ("dsgd", "fedper", "fedrep", "fedbabu", "permk")
"""Those whose model moves by a mean that clients can make themselves."""
