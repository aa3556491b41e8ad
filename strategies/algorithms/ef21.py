"""EF21: clients send how their updates differ from what they said, and the server adds up."""

from dataclasses import dataclass

from compressors import State, Tensors
from compressors.base import empty_like
from compressors.whole import feedback
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import exact_client_state, fixed_codes, no_lost_updates


@dataclass(frozen=True)
class EF21(Algorithm):
    """Adds up what clients send with ``ef21``; the model moves by the sum over all clients' number.

        d_k = C(u_k - g_k),  g_k' = g_k + d_k    (client k, method ef21)
        G' = G + sum_k d_k                       (server)
        w' = w + G' / N

    Here u_k is the update of client k, C the method inside of ``ef21``, and N the number of all
    clients; g_k and G begin as zero, so that G is the sum of all g_k.

    A client's part of the sum stays where it is in rounds without the client, and is zero before
    its first one. A reply that is not used does not enter the sum; its client takes it back. So
    ``late`` is ``hold`` or ``count``: a client never takes back what was dropped, and its sum and
    the server's would differ from then on. With ``ef21`` on the downlink the sum travels down by
    differences too (``channel.directions``).

    Source: Richtárik, Sokolov & Fatkhullin 2021 (EF21), Algorithm 2, on updates in the place of
    gradients; partial participation as in Fatkhullin et al. 2021 (EF21 with bells and whistles);
    with differences both ways its EF21-BC.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(EF21(), parse("ef21(topk(0.1) | float32)"), clients=4).late.__name__
        'hold'
    """

    adds_codes = True
    needs_method = feedback.EF21.server
    method_example = "ef21(topk(0.01) | float32)"
    requires = (no_lost_updates, exact_client_state, fixed_codes)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        total = state or empty_like(model)
        for uplink in uplinks.values():
            total = {name: x + uplink.update[name] for name, x in total.items()}
        return {name: x / info.clients for name, x in total.items()}, total
