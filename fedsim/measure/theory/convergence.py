"""Distributed SGD with compression in both directions: Theorem 9 of Horváth et al. 2022.

``omega_worker`` and ``omega_master`` are the omegas of C_W and C_M, ``clients`` is n,
``sigma2`` and ``zeta2`` are the variances of the gradients within and between clients, ``l`` is
the smoothness constant, ``gap`` is f(x_0) - f(x*), ``epsilon`` the target of E||grad f||^2.
"""

from dataclasses import dataclass

from compressors.bounds import check_omega, compose_omegas


@dataclass(frozen=True)
class Slowdown:
    """alpha and beta of equation 4: how compression slows SGD down."""

    alpha: float
    beta: float


def plateau(
    omega_worker: float, omega_master: float, clients: int, sigma2: float, zeta2: float = 0.0
) -> Slowdown:
    """alpha and beta (equation 4).

    Example:
        >>> plateau(0.0, 0.0, clients=4, sigma2=1.0)
        Slowdown(alpha=0.25, beta=1.0)
    """
    check_omega("omega_worker", omega_worker)
    check_omega("omega_master", omega_master)
    if clients < 1:
        raise ValueError(f"clients is {clients}: there is at least 1")
    master = omega_master + 1
    alpha = master * ((omega_worker + 1) * sigma2 + omega_worker * zeta2) / clients
    return Slowdown(alpha, master * (1 + omega_worker / clients))


def gradient_bound(
    eta: float,
    iterations: int,
    gap: float,
    l: float,  # noqa: E741
    at: Slowdown,
) -> float:
    """The bound on E||grad f(x_a)||^2 after ``iterations`` steps of size ``eta`` (equation 5).

    Raises ``ValueError`` unless 0 < eta < 2 / (beta l).

    Example:
        >>> gradient_bound(0.5, 100, gap=1.0, l=1.0, at=Slowdown(alpha=0.0, beta=1.0))
        0.02666666666666667
    """
    if not 0 < eta < 2 / (at.beta * l):
        raise ValueError(f"eta is {eta}: it lies above 0 and below 2 / (beta l)")
    room = 2 - at.beta * l * eta
    return 2 * gap / (eta * room * iterations) + at.alpha * l * eta / room


def step_size(epsilon: float, l: float, at: Slowdown) -> float:  # noqa: E741
    """eta = epsilon / (l (alpha + epsilon beta)): Theorem 9's step for the target ``epsilon``.

    Example:
        >>> step_size(0.1, l=1.0, at=Slowdown(alpha=0.0, beta=1.0))
        1.0
    """
    return epsilon / (l * (at.alpha + epsilon * at.beta))


def iterations(epsilon: float, gap: float, l: float, at: Slowdown) -> float:  # noqa: E741
    """T = 2 l gap (alpha + epsilon beta) / epsilon^2: after so many steps epsilon is reached.

    Example:
        >>> iterations(0.5, gap=1.0, l=1.0, at=Slowdown(alpha=0.25, beta=1.0))
        6.0
    """
    return 2 * l * gap * (at.alpha + epsilon * at.beta) / epsilon**2


def slowdown_range(omega_worker: float, omega_master: float) -> tuple[float, float]:
    """Between which factors compression multiplies the iterations (zeta = 0; section 4.2).

    The lower end for many clients, the upper for few or for a small epsilon.

    Example:
        >>> slowdown_range(0.125, 0.0)
        (1.0, 1.125)
    """
    return 1 + omega_master, 1 + compose_omegas(omega_worker, omega_master)
