"""Certificates of a deployment, in real handshakes."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from fedsim import UsageError
from fedsim.engines.deploy.certificates import Certificates, write


def handshake(made: Certificates, trusted: Path, name: str) -> str:
    """A client that trusts ``trusted`` calls a server with the certificate ``name``; the reply."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(made.certificate, made.key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            plain, _ = server.accept()
            with contextlib.suppress(OSError), inside.wrap_socket(plain, server_side=True) as line:
                line.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            context = ssl.create_default_context(cafile=trusted)
            plain = socket.create_connection(server.getsockname())
            with plain, context.wrap_socket(plain, server_hostname=name) as line:
                return line.recv(5).decode()
        finally:
            thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_client_that_has_the_authority_trusts_the_superlink(tmp_path: Path, name: str) -> None:
    made = write(tmp_path)
    assert handshake(made, made.authority, name) == "hello"


def test_another_authority_and_another_host_are_refused(tmp_path: Path) -> None:
    made, other = write(tmp_path / "a"), write(tmp_path / "b")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer|signature"):
        handshake(made, other.authority, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="(?i)hostname|IP address"):
        handshake(made, made.authority, "example.org")


def test_hosts_of_several_machines(tmp_path: Path) -> None:
    made = write(tmp_path, ["link.example.org", "127.0.0.1"])
    assert handshake(made, made.authority, "link.example.org") == "hello"
    with pytest.raises(UsageError, match="one host at least"):
        write(tmp_path, [])
    for host in ("", "bücher.example"):
        with pytest.raises(UsageError, match=rf"for the host '{host}'; give a name of ASCII"):
            write(tmp_path / "none", [host])
    assert not (tmp_path / "none").exists()


def test_a_host_may_have_a_longer_name_than_a_subject_may(tmp_path: Path) -> None:
    host = f"ip-10-0-0-1.{'a' * 60}.compute.internal"
    made = write(tmp_path, [host])
    assert handshake(made, made.authority, host) == "hello"


def test_only_the_owner_reads_the_key(tmp_path: Path) -> None:
    assert write(tmp_path).key.stat().st_mode & 0o077 == 0
    assert write(tmp_path).key.stat().st_mode & 0o077 == 0  # over an older one too
