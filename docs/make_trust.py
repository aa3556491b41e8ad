"""What lying clients do to robust rules, dense and compressed, and what noise does to bits.

``PYTHONPATH=. python docs/make_trust.py`` trains 200 runs on digits and writes ``docs/robust.csv``,
measures ``docs/noise.csv``, and puts both tables into ``docs/trust.md``. ``--page`` writes the page
alone. A test reads the page again, and the rule below with it.

The rule, written before the runs: a row *holds* where its mean accuracy over five seeds is at most
5 points below that of the mean with the same method and no liar; else it *falls*. Added
afterwards: five seeds decide it where the 95 % interval of the fall, paired, lies on one side.
"""

import csv
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from compressors import compress, parse
from fedsim import TASKS, RunConfig, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.results.intervals import mean
from fedsim.tasks.base import Data, Task
from strategies import Algorithm, Client, ClientUpdate

ROBUST, NOISE = (Path(__file__).with_name(name) for name in ("robust.csv", "noise.csv"))
PAGE = Path(__file__).with_name("trust.md")
CLIENTS, LIARS, SEEDS, POINTS = 10, 3, 5, 5.0
METHODS = ("raw", "sbc(0.05)")
ATTACKS = {"nobody": 1.0, "sign-flip": -1.0, "scale": 10.0, "label-flip": 1.0}
"""By what the liars multiply their updates."""


@dataclass(frozen=True)
class Liar(Client):
    """Clients 0 to ``LIARS`` - 1 multiply what they have trained."""

    factor: float

    def make_update(self, delivery, state, job, result):
        """See ``Client.make_update``."""
        factor = self.factor if job.client < LIARS else 1.0
        return ClientUpdate({name: factor * x for name, x in result.update.items()})


@dataclass(frozen=True)
class Mean(Algorithm):
    """The mean of what clients sent."""

    factor: float = 1.0

    @property
    def client(self) -> Client:
        """The client's half, with the liars in it."""
        return Liar(self.factor)

    def combined(self, sent: Tensor) -> Tensor:
        """One update of all, (clients, entries)."""
        return sent.mean(0)

    def step(self, uplinks, state, model, info):
        """See ``Algorithm.step``."""
        updates = [up.update for up in uplinks.values()]
        rows = [torch.cat([update[n].flatten() for n in model]) for update in updates]
        whole = self.combined(torch.stack(rows))
        parts = whole.split([x.numel() for x in model.values()])
        return {n: part.view_as(model[n]) for n, part in zip(model, parts, strict=True)}, state


class Median(Mean):
    """The median, entry by entry (Yin et al. 2018, Definition 1)."""

    def combined(self, sent: Tensor) -> Tensor:
        """See ``Mean``."""
        return sent.quantile(0.5, dim=0)


class Trimmed(Mean):
    """The mean without each entry's ``LIARS`` largest and smallest (Yin et al., Definition 2)."""

    def combined(self, sent: Tensor) -> Tensor:
        """See ``Mean``."""
        return sent.sort(dim=0).values[LIARS:-LIARS].mean(0)


class Krum(Mean):
    """The update that is nearest to its n - f - 2 nearest (Blanchard et al. 2017, Section 4)."""

    def combined(self, sent: Tensor) -> Tensor:
        """See ``Mean``."""
        far = torch.cdist(sent[None].double(), sent[None].double())[0].square()
        near = far.sort(dim=1).values[:, 1 : len(sent) - LIARS - 1]  # without itself
        return sent[near.sum(1).argmin()]


class Clipped(Mean):
    """The mean of updates that are cut to the median of their norms."""

    def combined(self, sent: Tensor) -> Tensor:
        """See ``Mean``."""
        norms = sent.norm(dim=1)
        return (sent * (norms.median() / norms.clamp(min=1e-12)).clamp(max=1.0)[:, None]).mean(0)


RULES = {
    "mean": Mean,
    "median": Median,
    "trimmed mean": Trimmed,
    "Krum": Krum,
    "norm clipping": Clipped,
}


def flipped(folder: Path | None, download: bool) -> Data:
    """Digits of which the liars' stretch has the labels 9 - y."""
    data = TASKS["digits"].load(folder, download)
    y = data.train_y.clone()
    own = ClientData.of(config("raw", "nobody", Mean(), 0)).shards[:LIARS]
    for shard in own:
        y[shard] = 9 - y[shard]
    return replace(data, train_y=y)


def config(method: str, attack: str, rule: Mean, seed: int) -> RunConfig:
    """20 rounds of 3 iterations on ten clients, each with the next tenth of the samples."""
    task: str | Task = "digits"
    if attack == "label-flip":
        task = replace(TASKS["digits"], name="digits_flipped", load=flipped)
    return RunConfig.of(
        task=task,
        method=method,
        strategy=rule,
        seed=seed,
        clients=CLIENTS,
        temporal=3,
        iterations=60,
        partition="contiguous",
        evaluate_every=20,
    )


def robust() -> list[dict[str, str]]:
    """A row per method, rule and attack: accuracies in percent, by seed."""
    rows = []
    for method in METHODS:
        for name, kind in RULES.items():
            for attack, factor in ATTACKS.items():
                runs = [
                    run(config(method, attack, kind(factor), seed), progress=False)
                    for seed in range(SEEDS)
                ]
                scores = " ".join(f"{100 * done.summary['metric']:.2f}" for done in runs)
                row = {"method": method, "rule": name, "attack": attack, "accuracy": scores}
                rows.append(row)
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


NOISY = (
    "per_tensor(topk(0.01) | float32 | golomb)",
    "sbc(0.01)",
    "per_tensor(threshold(0.01) | float32 | golomb)",
    "qsgd(15) | huffman",
    "cnat",
    "raw",
)
SIGMAS = (0.0, 0.01, 0.1, 1.0)


def noise() -> list[dict[str, str]]:
    """A row per method: bits of one client's update of digits, by the noise in it.

    The update is cut to norm 1, and noise of standard deviation sigma added to each entry.
    """
    trainer = Trainer(RunConfig(), ClientData.of(RunConfig()))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    update = trainer.train(0, weights, {}, 0, 10, {}, 0).update
    norm = torch.cat([x.flatten() for x in update.values()]).norm()
    rows = []
    for method in NOISY:
        row = {"method": method}
        for sigma in SIGMAS:
            draws, noisy = torch.Generator().manual_seed(1), {}
            for n, x in update.items():
                noisy[n] = x / norm + sigma * torch.randn(x.shape, generator=draws)
            row[f"{sigma:g}"] = str(8 * len(compress(parse(method), noisy)[0].payload))
        rows.append(row)
    return rows


def marked(scores: list[float], base: list[float]) -> str:
    """A cell of the robust table: the mean accuracy, then the interval of its fall in points.

    Bold where the mean falls, italic where seeds do not decide.
    """
    average = f"{sum(scores) / len(scores):.1f}"
    fall = mean([b - s for b, s in zip(base, scores, strict=True)])
    if scores == base:
        return average
    undecided = abs(fall.value - POINTS) <= fall.half
    mark = "*" if undecided else "**" if fall.value > POINTS else ""
    low, high = (round(fall.value + side * fall.half, 1) + 0.0 for side in (-1, 1))
    return f"{mark}{average} ({low:.1f} to {high:.1f}){mark}"


def tables(robust: list[dict[str, str]], noise: list[dict[str, str]]) -> dict[str, str]:
    """Both tables in Markdown."""
    scores = {
        (r["method"], r["rule"], r["attack"]): [*map(float, r["accuracy"].split())] for r in robust
    }
    lines = [f"| method | rule | {' | '.join(ATTACKS)} |", "| --- " * (2 + len(ATTACKS)) + "|"]
    for method in METHODS:
        base = scores[method, "mean", "nobody"]
        for rule in RULES:
            cells = [marked(scores[method, rule, attack], base) for attack in ATTACKS]
            lines.append(f"| `{method}` | {rule} | {' | '.join(cells)} |")
    head = " | ".join(f"sigma {sigma:g}" for sigma in SIGMAS)
    bits = [f"| method | {head} |", "| --- " * (1 + len(SIGMAS)) + "|"]
    for row in noise:
        name = row["method"].replace("|", "\\|")
        cells = [f"{int(bits_):,}" for key, bits_ in row.items() if key != "method"]
        bits.append(f"| `{name}` | {' | '.join(cells)} |")
    return {"robust": "\n".join(lines), "noise": "\n".join(bits)}


def page() -> str:
    """``trust.md`` with the tables of the CSV files."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(read(ROBUST), read(NOISE)).items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = between.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return text


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Mapping[str, str]]) -> None:
    """Writes the rows of a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    if "--page" not in sys.argv:
        write(NOISE, noise())
        write(ROBUST, robust())
    PAGE.write_text(page(), encoding="utf-8")
