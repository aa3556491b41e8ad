"""Samplers by themselves: their texts, and draws that are worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsim import Clients, RunConfig, UsageError
from fedsim.settings.samplers import SAMPLERS, DrawInfo, Participation, SamplerMemory
from fedsim.settings.samplers.oort import Oort
from fedsim.settings.samplers.parsing import sampler_of, sampler_text

OWN = """
from dataclasses import dataclass
from fedsim.settings.samplers import Sampler


@dataclass(frozen=True)
class Turns(Sampler):
    first: int = 0
    needs = ("samples",)

    def draw(self, info, memory):
        return [c for c in range(self.first, self.first + info.count)]
"""


def info(count: int, candidates: list[int], clients: int = 10, **more: object) -> DrawInfo:
    return DrawInfo(1, 1, count, np.array(candidates), clients, **{"seed": 3} | more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_text_is_read_and_written_back(name: str) -> None:
    made = sampler_of(SAMPLERS[name].example)
    assert sampler_text(made) == SAMPLERS[name].example
    assert sampler_of(sampler_text(made)) == made and type(made) is SAMPLERS[name].cls
    config = RunConfig(clients=Clients(4, sampler="uniform"))
    assert config.digest == RunConfig(clients=Clients(4)).digest


def test_by_samples_the_smallest_keys_are_drawn() -> None:
    """Keys E_i / n_i of the lots E: the client with 8 samples is before those with 1 and 2."""
    lots = np.random.default_rng([3, 0]).exponential(size=10)
    candidates, samples = [1, 4, 6, 9], np.array([1, 8, 2, 0])
    keys = {c: lots[c] / n for c, n in zip(candidates[:3], samples[:3], strict=True)}
    order = [*sorted(keys, key=lambda c: keys[c]), 9]  # who has no samples comes last
    for count in (1, 2, 3):
        drawn = sampler_of("weighted(samples)").draw(info(count, candidates, samples=samples), {})
        assert drawn == order[:count]


def test_how_often_clients_are_drawn_by_samples() -> None:
    """Of 1, 1 and 2 samples two clients: the third with 1/2 + 2 (1/4)(2/3) = 5/6.

    In proportion it would be 2 (2/4) = 1: drawing without replacement evens out.
    """
    sampler, samples = sampler_of("weighted(samples)"), np.array([1, 1, 2])
    found = np.zeros(3)
    for seed in range(3000):
        drawn = sampler.draw(info(2, [0, 1, 2], 3, samples=samples, seed=seed), {})
        found[list(drawn)] += 1
    deviation = (5 / 36 / 3000) ** 0.5
    assert abs(found[2] / 3000 - 5 / 6) < 4 * deviation
    assert abs(found[0] / 3000 - 7 / 12) < 0.04


def test_links_by_seconds_and_lots() -> None:
    """The fastest first; of three with equal times each is drawn in some round."""
    sampler, seconds = sampler_of("link(fastest)"), np.array([2.0, 1.0, 2.0, 2.0])
    drawn = [
        sampler.draw(info(2, [2, 3, 5, 7], transfer_seconds=seconds, seed=s), {}) for s in range(40)
    ]
    assert {clients[0] for clients in drawn} == {3}
    assert {clients[1] for clients in drawn} == {2, 5, 7}


def test_one_of_a_user_s_own_stands_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN, encoding="utf-8")
    config = RunConfig(clients=Clients(4, cohort=2, sampler=f"{file}:Turns(first=1)"))
    assert config.plan.draws.draw(info(2, [0, 1, 2, 3]), {}) == [1, 2]
    assert config.plan.sampler == f"{file}:Turns(first=1)"
    assert config.chosen()["sampler"] == "Turns(first=1)"
    assert [*config.content["sampler"]] == ["Turns(first=1)"]
    moved = tmp_path / "other.py"
    file.rename(moved)
    again = RunConfig(clients=Clients(4, cohort=2, sampler=f"{moved}:Turns(first=1)"))
    assert again.digest == config.digest
    moved.write_text(OWN.replace("info.count", "1 + 1"), encoding="utf-8")
    changed = RunConfig(clients=Clients(4, cohort=2, sampler=f"{moved}:Turns(first=1)"))
    assert changed.digest != config.digest
    with pytest.raises(UsageError, match="'second'") as error:
        Clients(4, sampler=f"{moved}:Turns(second=1)")
    assert "--sampler" in str(error.value)
    moved.write_text(OWN.replace('("samples",)', '("age",)'), encoding="utf-8")
    with pytest.raises(UsageError, match="age"):
        Clients(4, sampler=f"{moved}:Turns")


def used(loss: float, samples: int = 1, seconds: float = 1.0, round: int = 1) -> Participation:
    return Participation(round, samples, loss, seconds)


def test_power_of_choice_takes_high_losses_of_its_candidates() -> None:
    """Of candidates who were never used none has a loss: they are first, in the drawn order."""
    sampler, samples = sampler_of("power_of_choice(3, stale=true)"), np.array([1, 1, 4, 2])
    told = info(2, [1, 4, 6, 9], samples=samples)
    order = sampler_of("weighted(samples)").draw(replace(told, count=4), {})
    assert sampler.draw(told, {}) == order[:2]
    losses = dict(zip(order, (0.5, 0.1, 0.7, 0.9), strict=True))
    memory = sampler.learn({c: used(loss) for c, loss in losses.items()}, {})
    assert sampler.draw(told, memory) == [order[2], order[0]]  # 0.9 is of no candidate
    memory = sampler.learn({order[2]: used(0.2)}, memory)
    assert sampler.draw(told, memory) == [order[0], order[2]]


def test_power_of_choice_asks_its_candidates() -> None:
    """The same candidates; of their losses 0.1, 0.9 and 0.5 the last two."""
    sampler, samples = sampler_of("power_of_choice(3)"), np.array([1, 1, 4, 2])
    told = info(2, [1, 4, 6, 9], samples=samples)
    among = sampler_of("weighted(samples)").draw(replace(told, count=3), {})
    assert sampler.asks(told, {}) == among and sampler_of("weighted(samples)").asks(told, {}) == ()
    losses = dict(zip(among, (0.1, 0.9, 0.5), strict=True))
    assert sampler.draw(replace(told, local_losses=losses), {}) == [among[1], among[2]]
    assert sampler.needs == ("samples", "local_loss") and sampler.loss_batches == 0
    assert sampler_of("power_of_choice(3, batches=2)").loss_batches == 2


def test_utilities_by_hand() -> None:
    """Losses 2, 1 and 4 of 10, 30 and 5 samples in 1, 4 and 8 s: T is the median, 4 s.

    Round 10: 20/30 + sqrt(0.1 ln 10 / 1); 1 + sqrt(0.1 ln 10 / 2); (20/30 + ...) (4/8)^2.
    """
    sampler = Oort(share=0.5)
    memory = sampler.learn({0: used(2.0, 10, 1.0, 1)}, {})
    memory = sampler.learn({1: used(1.0, 30, 4.0, 2), 2: used(4.0, 5, 8.0, 2)}, memory)
    stale = [math.sqrt(0.1 * math.log(10) / last) for last in (1, 2, 2)]
    by_hand = [2 / 3 + stale[0], 1 + stale[1], (2 / 3 + stale[2]) / 4]
    assert sampler.utilities(np.arange(3), 10, memory).tolist() == pytest.approx(by_hand)
    without = Oort(alpha=0).utilities(np.arange(3), 10, memory)
    assert without.tolist() == pytest.approx([*by_hand[:2], 4 * by_hand[2]])
    assert Oort(alpha=0).needs == ("samples", "train_loss")


def test_oort_exploits_and_explores() -> None:
    """Without exploration the best two of three; with epsilon 1 those who were never used."""
    memory = Oort().learn({c: used(loss) for c, loss in {1: 8.0, 3: 1.0, 5: 8.0}.items()}, {})
    told = info(2, [1, 3, 5, 7, 9])
    greedy = Oort(explore=0.0, least=0.0)
    assert sorted(greedy.draw(told, memory)) == [1, 5]
    curious = Oort(explore=1.0, least=1.0)
    assert sorted(curious.draw(told, memory)) == [7, 9]
    assert sorted(curious.draw(info(4, [1, 3, 5, 7, 9]), memory))[-2:] == [7, 9]
    assert len(set(greedy.draw(info(4, [1, 3, 5, 7, 9]), memory))) == 4  # one is explored
    half = [
        len({7, 9} & {*Oort(explore=0.5, decay=1.0).draw(info(1, [1, 7, 9], seed=s), memory)})
        for s in range(400)
    ]
    assert 160 < sum(half) < 240  # of one client epsilon is a probability
    late = [
        len(
            {7, 9}
            & {
                *Oort(explore=0.5, decay=0.5, least=0.0).draw(
                    replace(info(1, [1, 7, 9], seed=s), round=3), memory
                )
            }
        )
        for s in range(400)
    ]
    assert 25 < sum(late) < 80  # an eighth


def test_the_pacer_lets_slower_clients_in() -> None:
    """Utilities of two rounds sum to 8 and then to 6: the share of fast clients is raised once."""
    sampler, memory, shares = Oort(window=2, share=0.3, step=0.2), SamplerMemory(), []
    for loss in (5.0, 3.0, 4.0, 2.0, 4.0, 5.0):
        memory = sampler.learn({0: used(loss)}, memory)
        shares.append(memory["share"])
    assert shares == [0.3, 0.3, 0.3, 0.5, 0.5, 0.5]
