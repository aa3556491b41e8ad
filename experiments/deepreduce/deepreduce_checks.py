"""What a Bloom filter's policy keeps of the true positions, without any training.

    python experiments/deepreduce/deepreduce_checks.py

Prints, as CSV, the mean over ten filters, each of 4,000 random positions among 400,000.
"""

import numpy as np
import pandas as pd

from compressors import BitWriter, Bloom

ENTRIES, SENT, FILTERS = 400_000, 4_000, 10
RATES, POLICIES = (0.001, 0.01, 0.1), ("p1", "p2")


def kept_percent(policy: str, eps: float, filters: int = FILTERS) -> float:
    """The true positions among those that are rebuilt, in per cent."""
    shares = []
    for seed in range(filters):
        generator = np.random.default_rng(seed)
        true = np.sort(generator.choice(ENTRIES, SENT, replace=False)).astype(np.int64)
        rebuilt = Bloom(eps, policy).write_positions(true, ENTRIES, BitWriter(), seed)
        shares.append(np.isin(true, rebuilt).mean())
    return 100 * float(np.mean(shares))


if __name__ == "__main__":
    rows = [
        {"policy": policy, "eps": eps, "kept_percent": kept_percent(policy, eps)}
        for policy in POLICIES
        for eps in RATES
    ]
    print(pd.DataFrame(rows).to_csv(index=False, float_format="%.4g"), end="")
