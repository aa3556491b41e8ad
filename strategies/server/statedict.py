"""A model as a Flower app hands it over: a whole ``state_dict``, of which updates hold a part."""

from collections.abc import Collection
from dataclasses import dataclass

from flwr.app import ArrayRecord
from torch import Tensor

from compressors import Tensors
from strategies.channel.buffers import Buffers
from strategies.channel.payload import as_dtype, check_names, is_float, to_parameters, to_tensors


@dataclass(frozen=True)
class StateDict:
    """The record with which a run began: its arrays' order, dtypes and names.

    Raises ``ValueError`` where ``frozen`` names what the record lacks.

    Example:
        >>> from strategies.channel.payload import to_arrays
        >>> import torch
        >>> net = torch.nn.BatchNorm1d(2)
        >>> whole = ArrayRecord(net.state_dict())
        >>> known = StateDict(whole, Buffers({n: x for n, x in net.named_buffers() if x.dim()}))
        >>> [*known.parameters(whole)], [*known.statistics(whole)]
        (['weight', 'bias'], ['running_mean', 'running_var'])
    """

    first: ArrayRecord
    buffers: Buffers | None  # the strategy's; None: every other array is a parameter
    frozen: Collection[str] = ()  # the names of arrays that nobody trains

    def __post_init__(self) -> None:
        check_names("frozen", self.frozen, self.first)

    def parameters(self, arrays: ArrayRecord) -> dict[str, Tensor]:
        """The arrays of an update, float32. With ``buffers``, a count is a buffer that stays here.

        Raises ``UpdateError``, which names an array that is not of floats, without ``buffers``.
        """
        trained = {n: x for n, x in arrays.items() if n not in self.frozen}
        if self.buffers is None:
            return to_parameters(ArrayRecord(trained))
        trained = {n: x for n, x in trained.items() if n not in self.buffers.values and is_float(x)}
        return to_tensors(ArrayRecord(trained))

    def statistics(self, arrays: ArrayRecord) -> dict[str, Tensor]:
        """Those of the ``buffers`` that ``arrays`` has, float32."""
        values = {} if self.buffers is None else self.buffers.values
        return to_tensors(ArrayRecord({n: x for n, x in arrays.items() if n in values}))

    def to_record(self, weights: Tensors) -> ArrayRecord:
        """The model with these parameters, the server's buffers; counts and frozen as they came."""
        values = dict(weights) | (self.buffers.values if self.buffers else {})
        record = dict(self.first)
        for name, x in values.items():
            record[name] = as_dtype(x, record[name].dtype if name in record else "float32")
        return ArrayRecord(record)
