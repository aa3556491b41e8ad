"""Flower's own strategies around the compressed channel, as algorithms."""

from dataclasses import dataclass, fields
from typing import ClassVar

from flwr.serverapp import strategy
from flwr.serverapp.strategy import Strategy

from strategies.algorithms.base import Algorithm


@dataclass(frozen=True)
class Flowers(Algorithm):
    """One of Flower's: ``Compressed`` hands it the clients' models, decoded.

    A subclass names Flower's class as it is called itself, and by ``named`` how Flower calls the
    subclass's settings. Clients are weighted by their samples.
    """

    by_samples = True
    named: ClassVar[dict[str, str]] = {}

    def inner(self, least: int) -> Strategy:
        """Flower's strategy, which needs as many as ``least`` clients in a round."""
        settings = {self.named[f.name]: getattr(self, f.name) for f in fields(self)}
        inner_strategy: Strategy = vars(strategy)[type(self).__name__](
            fraction_evaluate=0.0, min_train_nodes=least, min_available_nodes=least, **settings
        )
        return inner_strategy


@dataclass(frozen=True)
class FedAvg(Flowers):
    """The mean of the clients' models, weighted by samples.

        w' = sum_k n_k (w + u_k) / sum_k n_k

    Here u_k is the decoded update of client k, n_k its number of samples; the sums are over the
    clients of the round.

    Source: McMahan et al. 2017 (FedAvg), Algorithm 1.
    """


@dataclass(frozen=True)
class FedAvgM(Flowers):
    """FedAvg with momentum at the server: 0.9 as in the paper; Flower's default is none.

        v' = momentum v + d
        w' = w + server_lr v'

    Here d is the clients' mean update, weighted by samples; v begins as zero.

    Source: Hsu et al. 2019 (FedAvgM), section 4.3.
    """

    named = {
        "server_lr": "server_learning_rate",
        "momentum": "server_momentum",
    }
    server_lr: float = 1.0
    momentum: float = 0.9


@dataclass(frozen=True)
class FedAdagrad(Flowers):
    """Adagrad at the server, as Flower has it, of the clients' mean change d_t.

        v_t = v_{t-1} + d_t^2
        w_t = w_{t-1} + server_lr d_t / (sqrt(v_t) + 0.001)

    Here d_t is the mean of the clients' updates in round t = 1, 2, ..., weighted by samples, and
    v_0 = 0. The paper's v_0 is at least 0.001^2, and its mean is uniform.

    Source: Reddi et al. 2021 (Adaptive federated optimization), Algorithm 1.
    """

    named = {"server_lr": "eta"}
    server_lr: float = 0.1


@dataclass(frozen=True)
class FedAdam(FedAdagrad):
    """Adam at the server, with a bias correction that Flower adds, of the clients' mean change d_t.

        m_t = 0.9 m_{t-1} + 0.1 d_t
        v_t = 0.99 v_{t-1} + 0.01 d_t^2
        eta_t = server_lr sqrt(1 - 0.99^(t+1)) / (1 - 0.9^(t+1))
        w_t = w_{t-1} + eta_t m_t / (sqrt(v_t) + 0.001)

    Here t = 1, 2, ... is the round, d_t as in ``FedAdagrad``, and m_0 = v_0 = 0. The correction is
    Adam's (Kingma & Ba 2014) of the next step; the paper has none, and its v_0 is at least 0.001^2.

    Source: Reddi et al. 2021 (Adaptive federated optimization), Algorithm 2.
    """

    server_lr: float = 0.1


@dataclass(frozen=True)
class FedYogi(FedAdagrad):
    """Yogi at the server, as Flower has it, of the clients' mean change d_t.

        m_t = 0.9 m_{t-1} + 0.1 d_t
        v_t = v_{t-1} - 0.01 d_t^2 sign(v_{t-1} - d_t^2)
        w_t = w_{t-1} + server_lr m_t / (sqrt(v_t) + 0.001)

    Here t, d_t, m_0 and v_0 are as in ``FedAdam``; the paper's v_0 is at least 0.001^2.

    Source: Reddi et al. 2021 (Adaptive federated optimization), Algorithm 2.
    """

    server_lr: float = 0.01
