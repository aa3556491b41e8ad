"""DIANA: clients send how their updates differ from a shift that learns what updates are."""

from dataclasses import dataclass

from compressors import State, Tensors
from compressors.base import empty_like
from compressors.contrib.diana import Diana
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import exact_client_state, fixed_codes, no_lost_updates
from strategies.channel.traffic import average


@dataclass(frozen=True)
class DIANA(Algorithm):
    """The model moves by h + mean(d), with d what clients sent by ``diana`` and h their mean shift.

        d_k = Q(u_k - h_k),  h_k' = h_k + alpha d_k    (client k, method diana)
        w' = w + h + sum_k d_k / m                     (server)
        h' = h + alpha sum_k d_k / N

    Here u_k is the update of client k, Q the unbiased method inside of ``diana``, alpha its
    setting, m the number of clients whose updates are used, and N that of all clients; h_k and h
    begin as zero, so that h is the mean of all h_k. The shifts of clients that are not of a round's
    cohort stay where they are; the mean of d_k is over those that are, so that the step is
    unbiased. A reply that is not used moves nothing; its client takes it back.

    Source: Mishchenko et al. 2019 (DIANA), Algorithm 1, lines 9 to 12, momentum 0 and no
    regularizer, on updates in the place of gradients.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(DIANA(), parse("diana(qsgd(7))"), clients=4).clients
        4
    """

    adds_codes = True
    needs_method = Diana.server
    method_example = "diana(qsgd(7))"
    requires = (no_lost_updates, exact_client_state, fixed_codes)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        assert isinstance(info.uplink, Diana)
        shift = state or empty_like(model)
        mean, share = average(uplinks, "uniform"), len(uplinks) / info.clients
        alpha = info.uplink.steps(mean)
        after = {n: shift[n] + alpha[n] * share * x for n, x in mean.items()}
        return {name: shift[name] + x for name, x in mean.items()}, after
