"""Edge servers: each sends the server the mean of its clients' updates, compressed once more."""

from collections.abc import Iterable

from torch import Tensor

from compressors import Compressor, State, compress, decompress, derive
from compressors.whole.memory import nest, unnest
from strategies.channel.traffic import EdgeHop, Uplink, Uplinks, mean, shares


class EdgeServers:
    """Edge servers between the clients and the server.

        s_g = sum_k s_k
        u_g = C_g(sum_k s_k u_k / s_g)
        d = sum_g s_g u_g / sum_g s_g

    Here u_k is the decoded update of client k and s_k its weight (1, or its number of samples); the
    sums over k are over the clients of group g whose update is used. C_g is what the server decodes
    of edge server g, with what its method remembers. The server's model moves by d. An edge server
    without a used update sends nothing.

    Group g of G has the clients k of N with floor(k G / N) = g.

    Args:
        groups: G.
        clients: N.
        method: how edge servers encode.
        weighting: of clients: ``uniform`` or ``samples``.
        seed: for methods with random choices.

    Attributes:
        memory: by edge server, what its method remembers, such as a residual.

    Source: Liu et al. 2020 (Client-edge-cloud hierarchical federated learning), Algorithm 1, where
    kappa_2 = 1: the server averages after every average of the edge servers.

    Example:
        >>> import torch
        >>> from compressors import Raw
        >>> edges = EdgeServers(2, 4, Raw(), "uniform", seed=0)
        >>> [edges.group_of(client) for client in range(4)]
        [0, 0, 1, 1]
    """

    def __init__(
        self, groups: int, clients: int, method: Compressor, weighting: str, seed: int
    ) -> None:
        self.groups, self.clients, self.method = groups, clients, method
        self.weighting, self.seed = weighting, seed
        self.memory: dict[int, State] = {}

    def group_of(self, client: int) -> int:
        """The number of a client's edge server."""
        return client * self.groups // self.clients

    def begin(self, clients: Iterable[int]) -> EdgeHop:
        """The traffic of a round's hop between edge servers and server, of the cohort."""
        return EdgeHop({client: self.group_of(client) for client in clients})

    def step(self, uplinks: Uplinks, hop: EdgeHop, round_number: int) -> dict[str, Tensor]:
        """The update of the server's model by the used updates.

        ``hop`` gets the edge servers' messages; the round's number decides the seeds of random
        methods. Raises ``UpdateError`` where a mean cannot be encoded.
        """
        of_group = dict[int, dict[int, Uplink]]()
        for client, up in uplinks.items():
            of_group.setdefault(self.group_of(client), {})[client] = up
        updates, weights = list[dict[str, Tensor]](), list[float]()
        for group, ups in sorted(of_group.items()):
            of_clients = shares(ups, self.weighting)
            update = mean([up.update for up in ups.values()], of_clients)
            seed = derive(self.seed, "edge", group, round_number)
            packet, after = compress(self.method, update, self.memory.get(group), seed)
            self.memory[group], hop.payloads[group] = after, packet.payload
            updates.append(decompress(self.method, packet.payload, update))
            weights.append(sum(of_clients))
        return mean(updates, weights)

    def state(self) -> State:
        """What the edge servers remember, as ``restore`` takes it."""
        tensors: State = {}
        for group, memory in self.memory.items():
            tensors |= nest(f"{group}", memory)
        return tensors

    def restore(self, tensors: State) -> None:
        """Goes on from what ``state`` returned."""
        groups = {int(name.partition("/")[0]) for name in tensors}
        self.memory = {group: unnest(f"{group}", tensors) for group in sorted(groups)}
