"""Ports of a deployment."""

import socket

import pytest

from fedsim import UsageError
from fedsim.engines.deploy import ports


def test_a_port_that_something_has_is_refused_and_named() -> None:
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, 0))
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port is {number}: another process listens there"):
            ports.check(number, "--port")
    ports.check(number, "--port")


def test_free_ports_can_be_used_at_once() -> None:
    found = ports.free(20)
    assert len(set(found)) == 20
    for number in found:
        ports.check(number, "--port")
