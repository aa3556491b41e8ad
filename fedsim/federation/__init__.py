"""One round: shards, batches, trainer, client, server, evaluation, ledger, the clients' memory."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.federation.client import mask_momentum
    from fedsim.federation.clientdata import ClientData
    from fedsim.federation.draws import Batches, evenly_spread
    from fedsim.federation.trainer import Trainer, build_model

__all__ = ["Batches", "ClientData", "Trainer", "build_model", "mask_momentum", "evenly_spread"]

make_lazy(__name__)
