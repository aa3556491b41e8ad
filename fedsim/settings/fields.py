"""Every setting of a run: its type, its default and its sentence, as flags and help show them."""

from dataclasses import Field, dataclass, field
from typing import TYPE_CHECKING, Any

from fedsim.settings.strategies import STRATEGIES
from fedsim.tasks.tasklist import PARTITIONS

# Settings are read without torch, so that `--help` answers at once; a run imports torch.
if TYPE_CHECKING:
    from fedsim.tasks import Task
    from strategies import Algorithm

ENGINES = ("local", "flower")
WEIGHTINGS = ("uniform", "samples", "nova")
MASKING = ("auto", "on", "off")
BUFFERS = ("mean", "local")
LATE = ("hold", "drop", "count")
PRECISIONS = ("float32", "bfloat16")
GRADIENT = 0.01


def setting(default: Any, help: str, *, result: bool = True, later: bool = False) -> Any:
    """A field and the sentence that help shows for the field.

    ``result``: whether the numbers of a run depend on the setting; ``later``: the setting is
    younger than some results, so that its default is not part of a run's name.
    """
    return field(default=default, metadata={"help": help, "result": result, "later": later})


@dataclass(frozen=True)
class Settings:
    """What a user asks of a run; None stands for the default that the sentence names.

    ``RunConfig`` holds the same settings, checked.
    """

    task: "str | Task" = setting(
        "digits", "what is learned: a name from `fedsim list tasks`, FILE.py:NAME for a task of "
        "your own, or in Python a Task"
    )
    method: str = setting("sbc", "how updates are compressed; {p} stands for --gradient")
    temporal: int = setting(10, "local iterations per communication round (1: every step)")
    gradient: float | None = setting(
        None,
        "fraction of entries sent, in (0, 1]; 1: dense; default: 0.01 where the method takes one",
    )
    clients: int | None = setting(None, "number of clients; default: the task's")
    cohort: int | None = setting(None, "clients that take part in a round; default: all")
    iterations: int | None = setting(None, "local iterations in all; default: the task's")
    stop_at_bits: float | str | None = setting(
        None, "end after the round in which a client's upstream bits (wire) reach so many, such as "
        "2Mbit; default: never", later=True,
    )  # fmt: skip
    batch_size: int | None = setting(None, "samples per client and iteration; default: the task's")
    lr: float | None = setting(None, "learning rate of the clients; default: the task's")
    proximal: float | None = setting(
        None, "FedProx: pulls clients towards the model that they were sent, mu / 2 times the "
        "squared distance; default: no pull", later=True,
    )  # fmt: skip
    momentum: float | None = setting(None, "momentum of the clients' SGD; default: the task's")
    seed: int = setting(0, "everything random follows from it")
    partition: str | None = setting(None, PARTITIONS + "; default: the task's")
    strategy: "str | Algorithm" = setting(
        "dsgd", "one of " + ", ".join(STRATEGIES) + "; with settings in parentheses, such as "
        "'fedbuff(10, staleness=polynomial(0.5))'; FILE.py:NAME for one of your own"
    )  # fmt: skip
    server_lr: float | None = setting(None, "learning rate of a server optimizer (fedadam, ...)")
    staleness: str | None = setting(
        None, "weight of an update by how old the model is that it was made from, with fedbuff and "
        "fedasync: constant, polynomial(a), hinge(a, b); default: polynomial(0.5)", later=True,
    )  # fmt: skip
    buffer_size: int | None = setting(
        None, "updates per step of fedbuff; default: 10, or the cohort where that is smaller",
        later=True,
    )  # fmt: skip
    weighting: str = setting(
        "uniform", "mean over clients: uniform, by samples, or nova (by samples, where clients do "
        "unlike numbers of local iterations)",
    )  # fmt: skip
    downlink: str | None = setting(
        None, "how the global update is compressed, or relay (clients are sent the others' "
        "messages and make the mean themselves); default: raw, for a majority one bit per entry",
    )  # fmt: skip
    momentum_masking: str = setting(
        "auto", "zero momentum where entries were sent: auto (methods with residuals), on, off"
    )
    buffers: str = setting(
        "mean", "BatchNorm's statistics: mean (sent both ways every round) or local (kept by "
        "clients, sent up where the server evaluates)", later=True,
    )  # fmt: skip
    precision: str = setting(
        "float32", "of forward and backward passes: float32, or bfloat16 (autocast)", later=True
    )
    evaluate_every: int | None = setting(
        None, "rounds between evaluations; default: so that a run has 20"
    )
    test_samples: int | None = setting(
        None, "held-out samples that are scored, evenly spread; default: all", later=True
    )
    validation: float | None = setting(
        None, "fraction of the training samples that is kept out of training and scored in place "
        "of the held-out samples; default: none", later=True,
    )  # fmt: skip
    network: str | None = setting(
        None, "simulate how long rounds take on this network: a preset of `fedsim list networks`, "
        "settings such as 'up=5Mbit, latency=50ms, compute=20ms', or a TOML file; with framing=on "
        "whole messages take time, and not payloads alone; default: none",
        later=True,
    )  # fmt: skip
    controller: str | None = setting(
        None, "what chooses n and p of every round and client, from --temporal and --gradient on: "
        "one of `fedsim list controllers`, such as 'plateau(10)'; default: nothing, they stay",
        later=True,
    )  # fmt: skip
    availability: str | float | None = setting(
        None, "clients that can be asked: a fraction, onoff(10min, 5min) (mean times there and "
        "away), or a CSV file (seconds, available); default: all", later=True,
    )  # fmt: skip
    dropout: str | float | None = setting(
        None, "probability that a client that is asked does not train, or 'before=0.05, "
        "after=0.05' of its training; default: 0", later=True,
    )  # fmt: skip
    ask: int | None = setting(
        None, "clients that are asked, of which the first --cohort in simulated time count; "
        "default: the cohort", later=True,
    )  # fmt: skip
    deadline: str | float | None = setting(
        None, "simulated time after which a round is over, such as 30s; default: none", later=True
    )
    late: str = setting(
        "hold", "an update that comes when its round is over: hold (its client sends it with the "
        "next), drop (it is lost, and counted) or count (in the round in which it comes)",
        later=True,
    )  # fmt: skip
    catch_up: bool = setting(
        False, "a client that missed rounds is sent the updates that it missed, where they are "
        "shorter than the model", later=True,
    )  # fmt: skip
    min_replies: int | None = setting(
        None, "usable replies without which a run ends; default: the cohort, and none where "
        "clients may be absent, drop out or be late",
    )  # fmt: skip
    max_norm: float | None = setting(
        None, "L2 norm above which a client's update, decoded, is not used and counts as failed; "
        "default: none", later=True,
    )  # fmt: skip
    device: str = setting("cpu", "where clients train: cpu, cuda, cuda:1, ...")
    stack: str = setting(
        "1", "clients of a round that a worker trains at once (torch.func): a number, or auto "
        "(as many as gain, docs/gpu.md)", later=True,
    )  # fmt: skip
    engine: str = setting("local", "local (in process) or flower (on Ray)", result=False)
    workers: int = setting(1, "clients at the same time, one torch thread each", result=False)
    gpus_per_client: float | None = setting(
        None, "GPUs per client of engine flower; default with cuda: one for all workers",
        result=False,
    )  # fmt: skip
    gpus_per_run: float | None = setting(
        None, "GPUs per cell of a sweep with --jobs; default with cuda: one for all jobs",
        result=False,
    )  # fmt: skip
    timeout: float = setting(600.0, "seconds to wait for the replies of a round", result=False)
    data: str | None = setting(None, "folder with data sets; default: $FEDSIM_DATA", result=False)
    download: bool = setting(False, "let torchvision download a missing data set", result=False)
    label: str | None = setting(
        None, "what tables and figures call the method; default: as --method has it", result=False
    )
    keep_payloads: bool = setting(False, "store every message of the run", result=False)
    keep_checkpoint: bool = setting(
        False, "keep the memory at the end whatever its size: the run can be extended", result=False
    )
    tensorboard: bool = setting(False, "write scalars for TensorBoard as it goes", result=False)
    checkpoint_every: int | None = setting(
        None, "rounds between checkpoints; default: every 20 seconds", result=False
    )


def type_of(f: Field[Any]) -> str:
    """A field's type as written, such as ``int | None``."""
    return f.type.__name__ if isinstance(f.type, type) else str(f.type)


def flag(name: str) -> str:
    """A setting's name on the command line.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return "--" + name.replace("_", "-")
