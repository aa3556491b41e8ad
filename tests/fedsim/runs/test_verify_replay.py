"""A run's stored messages make every row and every model once more, whatever the run did."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedsim import run
from fedsim.engines import compat
from fedsim.engines.local import LocalGrid
from fedsim.federation.ledger import DIGEST_UP
from fedsim.runs.replies import Reply, ReplyStore
from fedsim.runs.verify.messages import of_row, row_words
from fedsim.runs.verify.replay import LACKS
from fedsim.runs.verify.verify import verify
from strategies import RoundTraffic
from strategies.channel.replies import answered_round
from tests.fedsim.runs.test_verify_run import HEALTHY, LATE, change, kept, reseal
from tests.support.asyncruns import NETWORK
from tests.support.normeddigits import build
from tests.support.runs import small

pytestmark = pytest.mark.slow

__all__ = ["build"]  # the import makes a task known

CARRIED = {"task": "digits_bn", "downlink": "sbc(0.1)"}
"""BatchNorm's statistics, which travel beside updates and models."""

MISSING = {"cohort": 2, "method": "sbc(0.01)", "temporal": 3, "iterations": 18}
"""Clients that miss rounds, and messages so short that what they missed is sent."""

MOVED = {"method": "topk({p}) | float32 | golomb"}

QUICK: dict[str, dict[str, Any]] = {
    "plain": {"cohort": 3, "weighting": "samples"},
    "relay and catch-up": MISSING | {"downlink": "relay", "catch_up": True},
    "late ones hold": LATE,
    "fedbuff, late ones count": {
        **LATE,
        **CARRIED,
        "strategy": "fedbuff",
        "late": "count",
        "buffers": "local",
        "deadline": "50ms",
        "ask": 6,
    },
    "sharded": {
        "strategy": "sharded",
        "method": "gradient_dropping(0.05)",
        "temporal": 1,
        "iterations": 2,
        "network": NETWORK,
    },
    "a controller": MOVED | {"controller": "plateau(2)"},
    "fedadam": {"strategy": "fedadam"},
}
SLOW: dict[str, dict[str, Any]] = HEALTHY | {
    "downlink": {"downlink": "sbc(0.1)"},
    "relay": {"downlink": "relay"},
    "catch-up": MISSING | {"downlink": "sbc(0.05)", "catch_up": True},
    "late ones are dropped": LATE | {"late": "drop"},
    "whole messages on the clock": LATE | {"network": f"{NETWORK}, framing=on", "late": "count"},
    "dropout": {"network": NETWORK, "dropout": "before=0.1, after=0.3", "min_replies": 1},
    "over-sampling": LATE | {"deadline": None, "ask": 7, "min_replies": 1},
    "availability": {"network": NETWORK, "clients": 8, "cohort": 4, "ask": 5, "late": "count",
                     "availability": "onoff(20s, 5s)"},
    "fedbuff": {"strategy": "fedbuff", "buffer_size": 3, "network": NETWORK},
    "fedasync": {"strategy": "fedasync", "network": NETWORK},
    "fedasync, late ones hold": {**LATE, **CARRIED, "strategy": "fedasync", "deadline": "50ms"},
    "sharded, both ways": {"strategy": "sharded", "method": "gradient_dropping(0.05)",
                           "downlink": "gradient_dropping(0.1)", "temporal": 1, "iterations": 2,
                           "network": NETWORK},
    "a controller and fedbuff": MOVED | {
        "strategy": "fedbuff", "buffer_size": 2, "network": NETWORK, "controller": "delay_first",
    },
    "means of buffers": CARRIED,
    "buffers of each client's own": CARRIED | {"buffers": "local", "evaluate_every": 2},
    "fedavgm": {"strategy": "fedavgm", "downlink": "sbc(0.1)", "cohort": 3},
    "ef21 both ways": {"strategy": "ef21", "method": "ef21(topk(0.05) | float32)",
                       "downlink": "ef21(topk(0.2) | float32)"},
    "measured seconds": {"network": "4g"},
    "refused updates": {"max_norm": 0.8, "method": "raw", "min_replies": 1,
                        "partition": "dirichlet(0.3)"},
    "a run within its bits": {"stop_at_bits": 12000, "evaluate_every": 3, "iterations": 60},
    "batteries": {"network": f"{NETWORK}, energy_up=1uJ/bit, energy_compute=2W, "
                  "battery=uniform(0.1J, 0.4J)", "dropout": "before=0.1, after=0.2",
                  "iterations": 60},
    "batteries and fedbuff": {"network": f"{NETWORK}, energy_up=1uJ/bit, energy_compute=2W, "
                              "battery=uniform(0.1J, 0.4J)", "strategy": "fedbuff",
                              "iterations": 60},
}  # fmt: skip


USED_ALONE = {
    "plain": "rows are not compared with the replay: ",
    "late ones hold": "not replayed: ",
    "fedbuff, late ones count": "not replayed: ",
    "a controller": "not replayed: ",
    "sharded": "not replayed: ",
    "whole messages on the clock": "not replayed: ",
}
"""How the remark on such a run begins, if its folder has no replies."""


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_kept_run_is_replayed_and_a_flipped_byte_is_named(name: str, tmp_path: Path) -> None:
    folder = kept(tmp_path / "run", **(QUICK | SLOW)[name])
    rounds = len(pd.read_parquet(folder / "rounds.parquet"))
    verdict = verify(folder)
    assert verdict.failures == [] == verdict.remarks
    assert f"{rounds} rounds replayed" in verdict.looked
    intact = shutil.copytree(folder, tmp_path / "intact")
    for bare in (folder / "replies").rglob("*.bin"):  # of an update that is not used
        flip(bare)
        (said,) = [said for said in verify(folder).failures if "replies/" in said]
        number, client = bare.parent.name, bare.stem[:10]
        assert said.startswith(f"replies/{number}/{client}.json is damaged: ")
        flip(bare)
        break
    clients = pd.read_parquet(folder / "clients.parquet")
    row = clients[clients[DIGEST_UP] != ""].iloc[-1].to_dict()
    flip(of_row(folder, row, "up").files[-1])
    assert verify(folder).failures[0].startswith(f"{row_words(row)}: payload differs: ")
    if name in USED_ALONE:
        used_payloads_alone(intact, USED_ALONE[name])


def flip(file: Path) -> None:
    """Changes the last bit of a file."""
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))


def test_a_changed_row_that_no_sum_knows_is_found(tmp_path: Path) -> None:
    folder = kept(tmp_path / "run")
    harmed = [(table, name) for table in ("clients", "rounds") for name in SUMLESS[table]]
    for table, column in harmed:
        file = folder / f"{table}.parquet"
        before = file.read_bytes()

        def harm(frame: pd.DataFrame, column: str = column) -> pd.DataFrame:
            frame.loc[frame["round"] == 2, column] += 1
            return frame

        change(folder, table, harm)
        (said,) = verify(folder).failures
        where = "round 2, client 0" if table == "clients" else "round 2"
        assert said.startswith(f"{where}: {column} is ") and said.endswith(" in the replay")
        file.write_bytes(before)


SUMLESS = {"clients": ("samples", "train_loss"), "rounds": ("metric", "train_loss")}
"""Columns of which no sum is recorded elsewhere."""


def used_payloads_alone(folder: Path, how: str) -> None:
    """What is not checked in a folder of an earlier version, which has no replies, is named.

    ``how``: the beginning of the remark.
    """
    shutil.rmtree(folder / "replies")
    reseal(folder)
    verdict = verify(folder)
    assert verdict.failures == []
    (said,) = verdict.remarks
    assert said.startswith(f"{how}{LACKS}")
    assert ("4 rounds replayed" in verdict.looked) == how.startswith("rows ")


@pytest.mark.parametrize("comes", [True, False])
def test_a_reply_after_the_timeout_is_late_in_the_replay_too(
    comes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of client 1 in round 2 is not there when the round ends."""
    held, real = list[Message](), LocalGrid.send_and_receive

    def slow(grid: LocalGrid, messages: Any, *, timeout: float | None = None) -> Iterator[Message]:
        for reply in real(grid, messages, timeout=timeout):
            if (reply.metadata.src_node_id, answered_round(reply)) == (2, 2):
                held.append(reply)
            else:
                yield reply

    def pull(grid: LocalGrid, message_ids: Any) -> list[Message]:
        pull.looks += 1  # type: ignore[attr-defined]
        return [held.pop()] if comes and held and pull.looks == 3 else []  # type: ignore[attr-defined]

    pull.looks = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(LocalGrid, "send_and_receive", slow)
    monkeypatch.setattr(LocalGrid, "pull_messages", pull)
    run(small(keep_payloads=True, min_replies=1, downlink="sbc(0.1)"), tmp_path, progress=False)
    monkeypatch.undo()
    frame = pd.read_parquet(tmp_path / "rounds.parquet")
    assert frame["failures"].tolist() == ([0, 1, 1, 0] if comes else [0, 1, 1, 1])
    verdict = verify(tmp_path)
    assert verdict.failures == [] == verdict.remarks


def test_a_client_without_a_node_is_absent_in_the_replay_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list[Any]()
    unknown = property(lambda grid: None, lambda grid, value: None)
    monkeypatch.setattr(LocalGrid, "numbered", unknown, raising=False)
    monkeypatch.setattr(
        LocalGrid, "get_node_ids", lambda grid: [1, *([] if len(rows) in (1, 2) else [2]), 3, 4]
    )
    config = small(keep_payloads=True, min_replies=1, downlink="sbc(0.1)")
    run(config, tmp_path, callbacks=[rows.append], progress=False)
    monkeypatch.undo()
    assert pd.read_parquet(tmp_path / "rounds.parquet")["absent"].tolist() == [0, 1, 1, 0]
    verdict = verify(tmp_path)
    assert verdict.failures == [] == verdict.remarks


METRICS_ALONE = RecordDict({"metrics": MetricRecord({"num-examples": 3})})
SAID = ConfigRecord({"payload": b"ab", "round": 3, "buffers": b"c", "fate": b"\x05"})


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({"fedsim": SAID, "metrics": MetricRecord({"loss": 0.5, "sent": [1, 2]})}),
        RecordDict({"fedsim": ConfigRecord({"wants": "model"})}),
        RecordDict({"fedsim/0": SAID, "metrics/0": MetricRecord({"loss": 0.5}), "fedsim/1": SAID}),
        METRICS_ALONE,
        RecordDict(),
        RecordDict({"fedsim": SAID, "metrics": MetricRecord({"loss": float("nan")})}),
        RecordDict({"fedsim": MetricRecord({"payload": 3})}),
        RecordDict({"fedsim": SAID, "metrics": ConfigRecord({"num-examples": "many"})}),
        RecordDict({"fedsim": SAID, "more": ArrayRecord([np.ones(3)])}),
        RecordDict({"fedsim": ArrayRecord([np.ones(3)]), "fedsim.payload": SAID}),
        Error(2, "it raised"),
        Error(3),
    ],
)
def test_whatever_a_client_says_is_kept_as_it_came(
    content: RecordDict | Error, tmp_path: Path
) -> None:
    kept_replies = ReplyStore(tmp_path)
    (tmp_path / "payloads").mkdir()
    kept_replies.add(7, 3, Reply(content, (4, 1)))
    kept_replies.keep(RoundTraffic(3))
    (found,) = kept_replies.of(7, 3)
    assert found.pulled_at == (4, 1)
    if isinstance(content, Error) or isinstance(found.content, Error):
        assert vars(found.content) == vars(content)
        return
    same = compat.to_bytes(found.content) == compat.to_bytes(content)  # NaN, too
    assert same or found.content == content  # in another order
