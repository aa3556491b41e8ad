"""The columns of ``summary.csv``, a row per run; and those of all tables, by file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedsim.ground.columns import ColumnSpec, column, columns_by_prefix, columns_of
from fedsim.ground.records import (
    ENERGY,
    NETWORK,
    PRIVATE,
    SCORE,
    SEVERAL,
    TREE,
    WITH_EPOCHS,
    WITH_SECONDS,
    ClientRecord,
    ClientScores,
    LayerRecord,
    RoundRecord,
)

WAITING = "not asynchronous, with `--engine local`"

_OF_ROUNDS = {spec.name: spec for spec in columns_of(RoundRecord)}
_TASK = _OF_ROUNDS["metric"].unit


def _made_of_rounds(words: str) -> Callable[[str], Any]:
    """A function that declares the column of a run that has a name of a column of rounds."""

    def declare(name: str) -> Any:
        spec = _OF_ROUNDS[name]
        return column(spec.unit, f"{words}: {spec.meaning}", *spec.when)

    return declare


_of_each = _made_of_rounds("of one client of every round")
_summed = _made_of_rounds("over all clients and rounds")
_of_federation = _made_of_rounds("of the average client of the federation")


@dataclass
class SummaryRecord:
    """The columns that every table of runs has, in their order."""

    task: str = column("text", "the task, as in the settings")
    method: str = column("text", "the method in full")
    temporal: int = column(
        "iterations",
        "n: local iterations per round; with `--local-epochs` E, epochs per round; "
        "with `--local-seconds` 1",
    )
    gradient: float = column("share", "p: the fraction of entries that is sent")
    seed: int = column("number", "seed of the run")
    clients: int = column("clients", "clients of the federation")
    iterations: int = column(
        "iterations",
        "local iterations of each client that is in every round; where clients do "
        "unlike numbers, of the fastest (`pace`) or their mean (`--local-epochs`, "
        "`--local-seconds`)",
    )
    rounds: int = column("rounds", "communication rounds")
    parameters: int = column("entries", "entries of the model")
    trained_parameters: int = column("entries", "entries of the model that are trained")
    metric_name: str = column("text", "accuracy, perplexity, ...")
    higher_is_better: bool = column("true or false", "whether a higher metric is better")
    metric: float = column(_TASK, "score on the test set, of the last evaluation")
    loss: float = column(_TASK, "mean loss on the test set, of the last evaluation")
    up_wire_bits: float = _of_each("up_wire_bits")
    up_content_bits: float = _of_each("up_content_bits")
    up_header_bits: float = _of_each("up_header_bits")
    up_position_bits: float = _of_each("up_position_bits")
    up_value_bits: float = _of_each("up_value_bits")
    up_side_bits: float = _of_each("up_side_bits")
    up_buffer_bits: float = _of_each("up_buffer_bits")
    down_wire_bits: float = _of_each("down_wire_bits")
    down_content_bits: float = _of_each("down_content_bits")
    down_buffer_bits: float = _of_each("down_buffer_bits")
    down_news_bits: float = _of_each("down_news_bits")
    up_message_bits: float = _of_each("up_message_bits")
    down_message_bits: float = _of_each("down_message_bits")
    total_bits: float = _summed("total_bits")
    up_wire_bits_per_client: float = _of_federation("up_wire_bits")
    up_content_bits_per_client: float = _of_federation("up_content_bits")
    down_wire_bits_per_client: float = _of_federation("down_wire_bits")
    ratio_wire: float = column(
        "times", "32 bits per trained entry and iteration behind a used update, over `up_wire_bits`"
    )
    ratio_content: float = column(
        "times",
        "32 bits per trained entry and iteration behind a used update, over `up_content_bits`",
    )
    ratio_both: float = column(
        "times",
        "64 bits per trained entry and iteration behind a used update, over "
        "`up_wire_bits` and `down_wire_bits` together",
    )
    total_sparsity: float = column(
        "share",
        "p / n; with `--local-epochs` or `--local-seconds` n is the mean of what clients did",
    )
    up_sent: float = _of_each("up_sent")
    up_share: float = column(
        "share", "share of an update's entries that travelled, over all uploads"
    )
    failures: int = column("replies", "replies that were asked for and not used, over all rounds")
    failure_reasons: str = column("text", "why replies were not used, each reason with its number")
    failed_up_bits: float = _summed("failed_up_bits")
    returned: int = _summed("returned")
    lost: int = _summed("lost")
    seconds: float = column("seconds", "the run by the clock of the machine", measured=True)
    data_source: str = column("text", "where the data came from")
    engine: str = column("text", "local, ray, flower or deployed")
    downlink: str = column("text", "the method of the downlink")
    status: str = column("text", "done, failed or stopped")
    error: str = column("text", "the first line of the error")


@dataclass(kw_only=True)
class SummaryDetails:
    """Further columns, which come after the others where a run has them."""

    local_epochs: int = column(
        "epochs", "E: epochs per round of each client's samples", WITH_EPOCHS
    )
    local_seconds: float = column(
        "seconds", "simulated time that each client trains per round", WITH_SECONDS
    )
    scored_samples: int = column("samples", "test samples that an evaluation scores")
    clients: ClientScores
    more: dict[str, float] = columns_by_prefix(
        SCORE, _TASK, "each metric but the first, by its name, of the last evaluation", SEVERAL
    )
    up_fate_bits: float = _of_each("up_fate_bits")
    up_report_bits: float = _of_each("up_report_bits")
    up_sampler_bits: float = _of_each("up_sampler_bits")
    down_header_bits: float = _of_each("down_header_bits")
    down_position_bits: float = _of_each("down_position_bits")
    down_value_bits: float = _of_each("down_value_bits")
    down_side_bits: float = _of_each("down_side_bits")
    down_order_bits: float = _of_each("down_order_bits")
    failed_clients: str = column(
        "text",
        "clients whose replies were not used for a reason that the settings do not make",
        "where there are such",
    )
    down_sampler_bits: float = _of_each("down_sampler_bits")
    held: int = column(
        "clients", "at the end: clients whose last update is neither applied nor lost", WAITING
    )
    held_norm: float = column(
        "of the model", "L2 norm of the mean residual over all clients at the end", WAITING
    )
    sim_seconds: float = column("seconds", "simulated time of the run", NETWORK)
    edge_up_bits: float = column("bits", "payloads from all edge servers to the server", TREE)
    edge_down_bits: float = column("bits", "payloads from the server to all edge servers", TREE)
    energy_joules: float = column("joules", "energy of all clients together", ENERGY)
    epsilon: float = column(
        "nats",
        "at the end: differential privacy of a client who was in every round, at the "
        "strategy's `delta`, by the noise and without sampling; if the noise were secret",
        PRIVATE,
    )


TABLES: dict[str, tuple[ColumnSpec, ...]] = {
    "rounds.parquet": columns_of(RoundRecord),
    "clients.parquet": columns_of(ClientRecord),
    "layers.parquet": columns_of(LayerRecord),
    "summary.csv": columns_of(SummaryRecord) + columns_of(SummaryDetails),
}
"""The columns of the tables that runs leave, by file; ``summary.json`` has those of a run."""
