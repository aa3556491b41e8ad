"""Certificates for one deployment: an authority of its own, and the SuperLink's certificate."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsim.ground.errors import UsageError

_DAYS = 30
_LONGEST_NAME = 64  # of a subject, by X.509
_CURVE = ec.SECP384R1()  # as Flower's page on SuperNode authentication has it
LOCAL = ("localhost", "127.0.0.1", "::1")


class Certificates(NamedTuple):
    """PEM files: the authority's certificate, the SuperLink's, and the SuperLink's key."""

    authority: Path
    certificate: Path
    key: Path


def in_folder(folder: Path) -> Certificates:
    """The files that ``write`` makes in ``folder``."""
    return Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")


def write(folder: Path, hosts: Sequence[str] = LOCAL) -> Certificates:
    """Makes an authority and a certificate signed by it, in PEM files in ``folder``.

    The authority's key is thrown away, so that nothing else can be signed with it. The SuperLink's
    key can be read by its owner alone. Both certificates end after 30 days.

    Args:
        folder: made if need be.
        hosts: the names and IP addresses under which the SuperLink is reached.

    Raises ``UsageError`` where no host is given, or one that no certificate can name.
    """
    if not hosts:
        raise UsageError("a certificate is for one host at least")
    for host in hosts:
        if not host or not host.isascii():
            raise UsageError(
                f"a certificate is for the host {host!r}; give a name of ASCII letters (of an "
                "international one its xn-- form), or an IP address"
            )
    folder.mkdir(parents=True, exist_ok=True)
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = _name("fedsim deployment")
    root = _builder(root_name, root_name, root_key.public_key(), authority=True)
    signs = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = root.add_extension(signs, critical=True)
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    subject = _name(hosts[0][:_LONGEST_NAME])  # whole among the names above
    server = _builder(subject, root_name, key.public_key(), authority=False)
    for extension in (
        x509.SubjectAlternativeName(names),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()),
    ):
        server = server.add_extension(extension, critical=False)
    made = in_folder(folder)
    made.authority.write_bytes(_pem(root.sign(root_key, hashes.SHA256())))
    made.certificate.write_bytes(_pem(server.sign(root_key, hashes.SHA256())))
    _write_private(made.key, key, serialization.PrivateFormat.PKCS8)
    return made


class NodeKey(NamedTuple):
    """The files of a SuperNode's key, as ``ssh-keygen`` makes them; the private one stays there."""

    private: Path
    public: Path


def write_node_key(path: Path) -> NodeKey:
    """Makes a key at ``path``, readable by its owner alone, and its public half in the same folder.
    """
    made, key = NodeKey(path, path.with_name(f"{path.name}.pub")), ec.generate_private_key(_CURVE)
    _write_private(made.private, key, serialization.PrivateFormat.OpenSSH)
    shown = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    made.public.write_bytes(key.public_key().public_bytes(*shown) + b"\n")
    return made


def _write_private(
    path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.chmod(0o600)
    data = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.write_bytes(data)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, authority: bool
) -> x509.CertificateBuilder:
    """What both certificates have."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of machines differ
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
