"""Training that has not moved the model when a run ends: residuals and pending messages."""

from collections.abc import Mapping

import torch

from compressors import State
from compressors.whole.feedback import holds
from fedsim.federation.client_memory import unpack_memory
from fedsim.federation.orders import norm, residual_of
from fedsim.settings.groups import EXACT
from strategies.channel.acknowledge import LOST_KEPT, PAYLOAD_KEPT, ROUND_KEPT
from strategies.channel.server_end import ServerEnd


def count_unapplied(
    end: ServerEnd, memories: Mapping[int, State], clients: int, memory_as: str = EXACT
) -> dict[str, float]:
    """The columns of a run's summary.

    ``held``: clients whose last update is neither applied nor counted as lost: its upload is under
    way, or the client takes it back with the next message. ``held_norm``: the L2 norm of the mean
    residual over all clients, 0 for methods without; a pending update is not in it.

    Args:
        end: the server's, which knows what was applied.
        memories: of the clients that have trained.
        clients: of the federation.
        memory_as: how clients keep their memory (``--memory-as``).

    Example:
        >>> from compressors import sbc
        >>> end = ServerEnd(sbc(0.5), sbc(0.5), {"w": torch.zeros(2)})
        >>> memory = {"uplink/residual/w": torch.tensor([3.0, 4.0])}
        >>> count_unapplied(end, {0: memory}, 10)
        {'held': 0, 'held_norm': 0.5}
    """
    total: State = {}
    waiting, takes_back = 0, holds(end.uplink, end.weights)
    for client, memory in memories.items():
        for name, x in residual_of(end.uplink, unpack_memory(memory, memory_as)).items():
            total[name] = total.get(name, torch.zeros(())) + x.double()
        if ROUND_KEPT in memory and int(memory[ROUND_KEPT]) != end.applied.get(client):
            lost = end.lost.get(client, 0) > int(memory.get(LOST_KEPT, 0))
            waiting += (takes_back and PAYLOAD_KEPT in memory) or not lost
    return {"held": waiting, "held_norm": norm(total) / clients}
