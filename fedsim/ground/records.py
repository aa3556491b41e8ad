"""The records of a run: a row per round, per client of a round, and per tensor of a scored round.

Each record is a dataclass with a field for every column that its table can have; a part of it is
what one maker computes. The types of the parquet files, docs/columns.md, ``fedsim list columns``
and the report's tooltips are made of these declarations.
"""

from dataclasses import dataclass

from fedsim.ground.columns import column, columns_by_prefix, columns_of, names_of, optional_column

NETWORK = "with `--network`"
CONTROLLER = "with `--controller`"
WITH_EPOCHS = "with `--local-epochs`"
WITH_SECONDS = "with `--local-seconds`"
SAMPLER = "with a `--sampler` other than uniform"
REPORTING = "with a `--sampler` that needs losses"
WITH_LATE = "with `--late count`"
ASYNCHRONOUS = "asynchronous"
OVERDUE = "asynchronous with `--deadline`"
EVALUATED = "with `--evaluate-clients`"
SEVERAL = "a task with several metrics"
SECURE = "with `--strategy secagg`"
PRIVATE = "with `--strategy dp`"
ENERGY = "with energy in `--network`"
TREE = "with `topology=tree(...)` in `--network`"

DROPPED = {"before": "dropped out before training", "after": "dropped out after training"}
"""Values of `failure_reasons` of a client's row: by when the client has dropped out."""

SCORE = "score_"
"""What columns of results begin with that a task's further scores have, before their names."""

_TASK, _DIGEST = "of the task", "32 hex digits"

_WIRE = "whole payloads, and the side payloads that count as wire"
_CONTENT = "positions, values and side information"
_HEADER = "what tells the receiver how to read the payload"
_POSITIONS = "which entries travel"
_VALUES = "the values of the entries that travel"
_SIDE = "scales, norms, code books and other side information"
_BUFFERS = "buffers of the model, such as BatchNorm's statistics; part of wire"
_ORDERS = "the n and p that the server orders; part of wire"
_REPORTS = "what clients report to the controller or the sampler; part of wire"
_SAMPLER = (
    "what the sampler asked clients for outside of their training messages; part of wire, and of "
    "no client's row"
)
_KEYS = "keys and shares of secure aggregation; part of wire"
_NEWS = (
    "the server's notice whether the client's last update was applied; part of messages, not of "
    "wire"
)
_FATE = (
    "the client's answer whether its last update was applied: about 8 bits after an update that "
    "was not; part of messages, not of wire"
)
_MESSAGES = "whole messages: payloads, side payloads and Flower's framing"
_SENT = "entries of the model that travelled"
_FAILED_BITS = "uploads that arrived and were not used"
_LOST = "updates that were not applied, of methods without a residual"
_RETURNED = (
    "updates that were not applied and went back into a residual, as their clients tell with the "
    "next reply that is used"
)
_EDGES = "payloads {}; part of `total_bits`, and of no other column"
_JOULES = "energy of downloads, local iterations and uploads"
_STALENESS = "steps of the model since the client was sent its own"
_OF_ROUND = "in `rounds.parquet` the mean over the clients whose update was used"
_OWN_LAYERS = "; with layers of clients' own the mean over their models"
_USED = (
    "mean number of local iterations of the clients whose update was used; 0 in a round without one"
)


@dataclass(kw_only=True)
class FailedReplies:
    """Replies of a round that were not used, and updates of earlier ones that were not applied."""

    failures: int = column(
        "replies",
        "replies that were asked for and not used in this round; with `--late count` "
        "the round in which a late one arrives uses it",
    )
    failure_reasons: str = column(
        "text",
        "why replies were not used, each reason with its number; with `--late count` also "
        "why a late update could not be applied",
    )
    failed_up_bits: int = column("bits", _FAILED_BITS)
    absent: int = column("clients", "asked clients that had no node: nothing was sent to them")
    returned: int = column("updates", _RETURNED)
    lost: int = column("updates", _LOST)


@dataclass
class ClientScores:
    """Statistics of the metric of single clients, each on its own test samples."""

    client_metric_mean: float = column(
        _TASK, "mean over clients of the metric on each client's own test samples", EVALUATED
    )
    client_metric_worst: float = column(
        _TASK, "mean of that metric over the worst tenth of the clients, one at least", EVALUATED
    )
    client_metric_spread: float = column(
        _TASK, "standard deviation of that metric over the clients", EVALUATED
    )


CLIENT_SCORES = names_of(ClientScores)
"""The columns of results that ``evaluate_clients`` adds."""


@dataclass
class Score:
    """The task's metric, as it is reported, and mean loss on the held-out samples.

    ``more``: the task's other scores, by the names of their columns.
    """

    metric: float = column(
        _TASK, f"score on the test set{_OWN_LAYERS}; empty in a round without evaluation"
    )
    loss: float = column(
        _TASK, f"mean loss on the test set{_OWN_LAYERS}; empty in a round without evaluation"
    )
    clients: ClientScores | None = None
    more: dict[str, float] = columns_by_prefix(
        SCORE,
        _TASK,
        "each metric but the first, by its name; empty in a round without evaluation",
        SEVERAL,
    )


@dataclass(kw_only=True)
class RoundBits:
    """The bits of a round, both ways: sums over the cohort."""

    up_wire_bits: int = column("bits", _WIRE)
    up_content_bits: int = column("bits", _CONTENT)
    up_header_bits: int = column("bits", _HEADER)
    up_position_bits: int = column("bits", _POSITIONS)
    up_value_bits: int = column("bits", _VALUES)
    up_side_bits: int = column("bits", _SIDE)
    down_wire_bits: int = column("bits", _WIRE)
    down_content_bits: int = column("bits", _CONTENT)
    down_header_bits: int = column("bits", _HEADER)
    down_position_bits: int = column("bits", _POSITIONS)
    down_value_bits: int = column("bits", _VALUES)
    down_side_bits: int = column("bits", _SIDE)
    up_buffer_bits: int = column("bits", _BUFFERS)
    up_fate_bits: int = column("bits", _FATE)
    up_report_bits: int | None = optional_column("bits", _REPORTS, CONTROLLER, REPORTING)
    up_key_bits: int | None = optional_column("bits", _KEYS, SECURE)
    up_sampler_bits: int | None = optional_column("bits", _SAMPLER, SAMPLER)
    down_buffer_bits: int = column("bits", _BUFFERS)
    down_news_bits: int = column("bits", _NEWS)
    down_order_bits: int | None = optional_column("bits", _ORDERS, CONTROLLER)
    down_key_bits: int | None = optional_column("bits", _KEYS, SECURE)
    down_sampler_bits: int | None = optional_column("bits", _SAMPLER, SAMPLER)
    up_message_bits: int = column("bits", _MESSAGES)
    down_message_bits: int = column("bits", _MESSAGES)
    total_bits: int = column(
        "bits", "all that travelled both ways, the initial model and failures included"
    )
    up_sent: int = column("entries", _SENT)
    edge_up_bits: int | None = optional_column(
        "bits", _EDGES.format("from all edge servers to the server"), TREE
    )
    edge_down_bits: int | None = optional_column(
        "bits", _EDGES.format("from the server to all edge servers"), TREE
    )


@dataclass(kw_only=True)
class CodingSeconds:
    """The measured seconds of a round's parts, by the clocks of the machines."""

    train_seconds: float = column(
        "seconds", "local training, summed over the clients", measured=True
    )
    encode_seconds: float = column(
        "seconds", "updates to bytes, summed over the clients", measured=True
    )
    decode_seconds: float = column("seconds", "bytes to updates, at the server", measured=True)
    downlink_seconds: float = column(
        "seconds", "the downlink: encoding at the server and decoding at the clients", measured=True
    )
    receive_seconds: float = column(
        "seconds", "decoding at the clients, a part of the downlink", measured=True
    )


@dataclass
class SimulatedTime:
    """The simulated time that a round takes, and when it ends."""

    sim_seconds: float = column("seconds", "simulated time of the round", NETWORK)
    sim_end_seconds: float = column("seconds", "simulated time at the end of the round", NETWORK)


@dataclass
class TimeParts:
    """The parts of a client's simulated time; of a round, means over used clients."""

    sim_download_seconds: float = column(
        "seconds", f"simulated time of the download; {_OF_ROUND}", NETWORK
    )
    sim_compute_seconds: float = column(
        "seconds", f"simulated time of local training; {_OF_ROUND}", NETWORK
    )
    sim_upload_seconds: float = column(
        "seconds", f"simulated time of the upload; {_OF_ROUND}", NETWORK
    )
    sim_waiting_seconds: float = column(
        "seconds", f"simulated time until the round ends; {_OF_ROUND}", NETWORK
    )


@dataclass(kw_only=True)
class ArrivalCounts:
    """The columns of a server that does not wait, whose row has as many updates as a round."""

    staleness: float = column("steps", f"{_STALENESS}, the mean", ASYNCHRONOUS)
    version: int = column("steps", "steps of the model so far", ASYNCHRONOUS)
    staleness_max: float = column("steps", f"{_STALENESS}, the greatest", ASYNCHRONOUS)
    buffered: int = column(
        "updates", "updates that have arrived and have not moved the model", ASYNCHRONOUS
    )
    overdue: int | None = optional_column(
        "updates", "updates that arrived after the deadline", OVERDUE
    )
    used_iterations: float = column("iterations", _USED, ASYNCHRONOUS)
    in_flight: int = column("clients", "clients that have a message, train or send", ASYNCHRONOUS)


@dataclass
class RoundTiming:
    """The columns of a row on the simulated clock, which a run without a network lacks."""

    late: int | None = optional_column(
        "updates", "updates from earlier rounds that this round applied", WITH_LATE
    )
    time: SimulatedTime | None = None
    parts: TimeParts | None = None
    arrivals: ArrivalCounts | None = None


@dataclass(kw_only=True)
class RoundOrders:
    """The orders of a round's clients, where these differ between clients."""

    sent_fraction: float | None = optional_column(
        "share", "p, the share of entries that the server ordered, the mean", CONTROLLER
    )
    used_iterations: float = column("iterations", _USED, CONTROLLER, WITH_EPOCHS, WITH_SECONDS)


@dataclass
class PrivacyLoss:
    """The greatest privacy loss of a client to an observer of the models."""

    epsilon: float = column(
        "nats",
        "differential privacy of a client who was in every round so far, at the strategy's "
        "`delta`, by the noise and without sampling; if the noise were secret",
        PRIVATE,
    )


PRIVACY = names_of(PrivacyLoss)
"""The columns of results that a strategy with differential privacy adds."""


@dataclass(kw_only=True)
class RoundRecord:
    """A row of ``rounds.parquet``."""

    round: int = column("number", "the round, from 1")
    iteration: int = column(
        "iterations",
        "local iterations of the run when the round ends; with `--local-epochs` or "
        "`--local-seconds` the sum of `used_iterations`, to the nearest whole number",
    )
    local_iterations: int = column(
        "iterations",
        "n: local iterations of each client in this round; with a controller or "
        "`--local-epochs` or `--local-seconds` the most that a client is to do; else asynchronous: "
        "what `iteration` grows by",
    )
    clients: int = column("clients", "clients whose update was applied or kept for the model")
    failed: FailedReplies
    score: Score
    train_loss: float = column(
        _TASK, "mean training loss over the clients and their local iterations"
    )
    bits: RoundBits
    coding: CodingSeconds
    evaluate_seconds: float = column("seconds", "evaluation at the server", measured=True)
    seconds: float = column("seconds", "the whole round by the clock of the machine", measured=True)
    timing: RoundTiming
    orders: RoundOrders | None = None
    privacy: PrivacyLoss | None = None
    energy_joules: float | None = optional_column(
        "joules", f"{_JOULES}, of all requests that the round booked", ENERGY
    )
    digest_payloads: str = column(_DIGEST, "blake2b over the digests of the round's payloads")
    digest_model: str = column(_DIGEST, "blake2b of the model after the round")


@dataclass(kw_only=True, slots=True)
class ClientBooks:
    """The columns of the ledger for a client in a round."""

    round: int = column(
        "number", "the round in which the client was asked, or its late upload arrived"
    )
    client: int = column("number", "the client, from 0")
    samples: int = column(
        "samples",
        "samples of the client that its weight in the mean goes by; 0 without a used update",
    )
    up_wire_bits: int = column("bits", _WIRE)
    up_content_bits: int = column("bits", _CONTENT)
    down_wire_bits: int = column("bits", _WIRE)
    up_buffer_bits: int = column("bits", _BUFFERS)
    up_fate_bits: int = column("bits", _FATE)
    up_report_bits: int | None = optional_column("bits", _REPORTS, CONTROLLER, REPORTING)
    up_key_bits: int | None = optional_column("bits", _KEYS, SECURE)
    down_buffer_bits: int = column("bits", _BUFFERS)
    down_news_bits: int = column("bits", _NEWS)
    down_order_bits: int | None = optional_column("bits", _ORDERS, CONTROLLER)
    down_key_bits: int | None = optional_column("bits", _KEYS, SECURE)
    up_message_bits: int = column("bits", _MESSAGES)
    down_message_bits: int = column("bits", _MESSAGES)
    up_sent: int = column("entries", _SENT)
    train_loss: float = column(_TASK, "mean training loss over the client's local iterations")
    failures: int = column("replies", "1 where the client's reply was not used")
    failure_reasons: str = column("text", "why the client's reply was not used")
    failed_up_bits: int = column("bits", _FAILED_BITS)
    returned: int = column("updates", _RETURNED)
    lost: int = column("updates", _LOST)
    digest_down: str = column(
        _DIGEST,
        "blake2b of what was sent to the client, payload and buffers; empty where nothing "
        "travelled",
    )
    digest_up: str = column(
        _DIGEST,
        "blake2b of what the client sent, payload and buffers; empty where nothing "
        "arrived or it was not used",
    )


@dataclass(kw_only=True, slots=True)
class ClientTiming:
    """The columns of a client's update on the simulated clock."""

    late: int | None = optional_column(
        "updates", "1 where its update was of an earlier round", WITH_LATE
    )
    message: int | None = optional_column(
        "number", "the number of this message to this client", ASYNCHRONOUS
    )
    staleness: float | None = optional_column("steps", _STALENESS, ASYNCHRONOUS)
    parts: TimeParts | None = None
    sim_end_seconds: float | None = optional_column(
        "seconds", "simulated time when its update arrived", ASYNCHRONOUS
    )
    overdue: int | None = optional_column(
        "updates", "1 where its update arrived after the deadline", OVERDUE
    )


@dataclass(slots=True)
class ClientOrders:
    """The orders of one client, where these differ between clients."""

    local_iterations: int = column(
        "iterations",
        "n of this client; 0 where it was neither asked in this round nor its update used",
        CONTROLLER,
        WITH_EPOCHS,
        WITH_SECONDS,
    )
    sent_fraction: float | None = optional_column("share", "p of this client", CONTROLLER)


@dataclass(slots=True)
class ClientRecord:
    """A row of ``clients.parquet``."""

    books: ClientBooks
    timing: ClientTiming
    orders: ClientOrders | None = None
    energy_joules: float | None = optional_column(
        "joules", f"{_JOULES}; 0 where the client was not asked in this round", ENERGY
    )


@dataclass
class LayerRecord:
    """A row of ``layers.parquet``: a tensor in a round that was evaluated when it ended."""

    round: int = column("number", "the round")
    tensor: str = column("text", "the name of the tensor in the model")
    entries: int = column("entries", "its size")
    sent: float = column("entries", "how many entries travelled, the mean over the cohort")


MEASURED = frozenset(
    spec.name
    for record in (RoundRecord, ClientRecord, LayerRecord)
    for spec in columns_of(record)
    if spec.measured
)
"""The columns that hold times of a machine's clock. All others follow from a run's settings."""
