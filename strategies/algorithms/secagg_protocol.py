"""The messages of secure aggregation as bytes, and what their senders and receivers make of them.

Four exchanges make a round (Bonawitz et al. 2017, Figure 4). Sizes are those of ``n`` clients:

0. a client advertises two public keys (64 bytes up), and is sent everybody's: ``PublicKeys``
   (4 + 68 n bytes down);
1. it shares its secrets, encrypted for each of the others (88 (n - 1) bytes up), and is sent what
   the others have for it (88 (n - 1) bytes down, with the model);
2. it sends its masked integers;
3. it is sent the survivors, a bit for each client (ceil(n / 8) bytes down), and answers with a
   share for each client: of the seed of a survivor's own mask, or of the private key of one that
   dropped out (32 n bytes up).

Keys are agreed by X25519 and SHA-256, shares are encrypted by AES-256-GCM and masks drawn by
AES-256 in counter mode, all of the package ``cryptography``. Simulated is the source of the
secrets: they follow from the run's seed, so that a run can be made again. Secrets are shared over
the field of p = 2**255 - 19 elements (Shamir 1979).
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor
from struct import pack, unpack_from
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

PRIME = 2**255 - 19  # of the field in which secrets are shared
SHARE_BYTES = 32  # of a share, and of a secret
KEY_BYTES = 32
SEALED_BYTES = 8 + 2 * SHARE_BYTES + 16
"""Of an encrypted pair of shares: sender, receiver, both shares, and the tag."""


class Secrets(NamedTuple):
    """A client's secrets of a round, numbers below ``PRIME``."""

    cipher: int  # c^SK, the private key for the encryption of shares
    mask: int  # s^SK, the private key of the pairwise masks
    seed: int  # b, the seed of the client's own mask
    coefficients: int  # the seed of the polynomials of its shares

    @property
    def public_keys(self) -> bytes:
        """c^PK and s^PK, the client's first message."""
        return _public(self.cipher) + _public(self.mask)


def secrets_of(seed: int, client: int, round_number: int) -> Secrets:
    """The secrets of a client in a round; ``seed``: of the run."""
    texts = (f"secagg/{seed}/{round_number}/{client}/{name}" for name in Secrets._fields)
    digests = (hashlib.sha512(text.encode()).digest() for text in texts)
    return Secrets(*(int.from_bytes(digest, "little") % PRIME for digest in digests))


def threshold_of(fraction: float, clients: int) -> int:
    """t, the least number of survivors among so many clients: above the fraction, two at least.

    Example:
        >>> [threshold_of(0.5, n) for n in (1, 2, 3, 4, 10)], threshold_of(0.29, 100)
        ([2, 2, 2, 3, 6], 30)
    """
    return max(2, floor(Fraction(str(fraction)) * clients) + 1)


@dataclass(frozen=True)
class PublicKeys:
    """The clients of a round in their order, and both public keys of each.

    Example:
        >>> keys = PublicKeys({client: secrets_of(0, client, 1).public_keys for client in (2, 5)})
        >>> keys.clients, len(keys.to_bytes()), PublicKeys.read(keys.to_bytes()) == keys
        ([2, 5], 140, True)
    """

    by_client: Mapping[int, bytes]

    @property
    def clients(self) -> list[int]:
        """Their numbers."""
        return [*self.by_client]

    def to_bytes(self) -> bytes:
        """The number of clients, then the number and the keys of each."""
        entries = (pack("<I", client) + both for client, both in self.by_client.items())
        return pack("<I", len(self.by_client)) + b"".join(entries)

    @classmethod
    def read(cls, data: bytes) -> "PublicKeys":
        """From bytes that begin with them."""
        (count,) = unpack_from("<I", data)
        entries = (unpack_from(f"<I{2 * KEY_BYTES}s", data, 4 + 68 * i) for i in range(count))
        return cls(dict(entries))

    def cipher_key(self, client: int) -> bytes:
        """c^PK of a client."""
        return self.by_client[client][:KEY_BYTES]

    def mask_key(self, client: int) -> bytes:
        """s^PK of a client."""
        return self.by_client[client][KEY_BYTES:]


def sealed_shares(
    secrets: Secrets, client: int, keys: PublicKeys, threshold: int
) -> dict[int, bytes]:
    """The shares of a client's secrets, encrypted for each of the others."""
    sealed, polynomials = {}, _polynomials(secrets, threshold)
    for x, peer in enumerate(keys.clients, 1):
        if peer != client:
            pieces = [share_at(x, coefficients) for coefficients in polynomials]
            plain = pack("<II", client, peer) + b"".join(map(_bytes, pieces))
            cipher = AESGCM(agree(secrets.cipher, keys.cipher_key(peer)))
            sealed[peer] = cipher.encrypt(_nonce(client, peer), plain, None)
    return sealed


def answer(
    secrets: Secrets, client: int, request: bytes, survivors: Collection[int], threshold: int
) -> bytes:
    """A surviving client's last message: a share for each client of the round.

    ``request`` has the public keys and the shares that the others encrypted for it, in their order;
    ``survivors`` are, by the server's word, the clients whose masked integers came.

    Raises ``ValueError`` for fewer survivors than the threshold t; a share that was changed raises
    ``InvalidTag``.
    """
    if len(survivors) < threshold:
        raise ValueError(f"{len(survivors)} survivors: {threshold} at least")
    keys, chosen = PublicKeys.read(request), []
    place = len(keys.to_bytes())
    for x, peer in enumerate(keys.clients, 1):
        if peer == client:
            pieces = [_bytes(share_at(x, f)) for f in _polynomials(secrets, threshold)]
        else:
            cipher = AESGCM(agree(secrets.cipher, keys.cipher_key(peer)))
            sealed, place = request[place : place + SEALED_BYTES], place + SEALED_BYTES
            plain = cipher.decrypt(_nonce(peer, client), sealed, None)
            if unpack_from("<II", plain) != (peer, client):
                raise ValueError(f"client {client} was sent another client's shares")
            pieces = [plain[8 : 8 + SHARE_BYTES], plain[8 + SHARE_BYTES :]]
        chosen.append(pieces[peer in survivors])  # of the key, or of the seed: never both
    return b"".join(chosen)


def client_mask(secrets: Secrets, client: int, keys: PublicKeys, entries: int) -> np.ndarray:
    """What a client adds to its integers, modulo 2**32: its own mask, and those of its pairs.

        m_u = PRG(b_u) + sum_{v < u} PRG(s_uv) - sum_{v > u} PRG(s_uv)

    Source: Bonawitz et al. 2017, section 4.
    """
    mask = stream(_bytes(secrets.seed), entries)
    for peer in keys.clients:
        if peer != client:
            mask += pair_mask(secrets.mask, client, peer, keys, entries)
    return mask


def pair_mask(secret: int, client: int, peer: int, keys: PublicKeys, entries: int) -> np.ndarray:
    """What a client adds for one of its pairs; ``secret``: s^SK of either one's."""
    drawn = stream(agree(secret, keys.mask_key(peer)), entries)
    return drawn if client > peer else np.negative(drawn)


def without_masks(
    total: np.ndarray, keys: PublicKeys, answers: Mapping[int, bytes], threshold: int
) -> np.ndarray:
    """The sum of the survivors' integers, modulo 2**32, from the sum of their masked ones.

    ``answers`` are the last messages of the survivors, of which the threshold t is used. Raises
    ``ValueError`` where the shares of a key do not give the key that its client advertised.
    """
    sums, secrets = total.copy(), joined(keys, answers, threshold)
    for client, secret in secrets.items():
        if client in answers:
            sums -= stream(_bytes(secret), sums.size)
            continue
        if _public(secret) != keys.mask_key(client):
            raise ValueError(f"the shares of client {client}'s key do not give its key")
        for peer in answers:  # what each survivor added for the client that dropped out
            sums += pair_mask(secret, client, peer, keys, sums.size)
    return sums


def joined(keys: PublicKeys, answers: Mapping[int, bytes], threshold: int) -> dict[int, int]:
    """By client: the seed of a survivor's own mask, the private key of one that dropped out."""
    places = {client: place for place, client in enumerate(keys.clients)}
    used = [*answers][:threshold]
    weights = lagrange_weights([places[client] + 1 for client in used])
    secrets = {}
    for client, place in places.items():
        part = slice(SHARE_BYTES * place, SHARE_BYTES * (place + 1))
        shares = (int.from_bytes(answers[peer][part], "little") for peer in used)
        secrets[client] = join_shares(weights, shares)
    return secrets


def survivors_to_bytes(keys: PublicKeys, survivors: Collection[int]) -> bytes:
    """A bit for each client of the round.

    Example:
        >>> keys = PublicKeys(dict.fromkeys((2, 5, 7), bytes(64)))
        >>> survivors_from_bytes(keys, survivors_to_bytes(keys, [2, 7]))
        [2, 7]
    """
    return np.packbits([client in survivors for client in keys.clients]).tobytes()


def survivors_from_bytes(keys: PublicKeys, data: bytes) -> list[int]:
    """The clients whose bit is 1."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8))[: len(keys.clients)]
    return [client for client, bit in zip(keys.clients, bits, strict=True) if bit]


@lru_cache(maxsize=1 << 15)  # a client opens with the keys with which it sealed
def agree(secret: int, public: bytes) -> bytes:
    """The key of 32 bytes that two clients share: SHA-256 of X25519."""
    exchanged = _private(secret).exchange(X25519PublicKey.from_public_bytes(public))
    return hashlib.sha256(exchanged).digest()


def stream(key: bytes, entries: int) -> np.ndarray:
    """PRG: so many uniform integers of 32 bits."""
    encryptor = Cipher(AES(key), CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(4 * entries)), "<u4").astype(np.uint32)


def _polynomials(secrets: Secrets, threshold: int) -> list[list[int]]:
    """Those that share a client's key and its seed."""
    shared = secrets.mask, secrets.seed
    return [polynomial(x, threshold, secrets.coefficients + i) for i, x in enumerate(shared)]


def _private(secret: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(_bytes(secret))


def _public(secret: int) -> bytes:
    return _private(secret).public_key().public_bytes_raw()


def _bytes(number: int) -> bytes:
    return number.to_bytes(SHARE_BYTES, "little")


def _nonce(sender: int, receiver: int) -> bytes:
    """Of a key that two clients use once each: who sends decides."""
    return pack("<III", sender, receiver, 0)


def polynomial(secret: int, threshold: int, seed: int) -> list[int]:
    """The coefficients of f, whose values at 1, 2, ... are the shares of a secret.

        f(x) = secret + sum_{j=1}^{threshold-1} a_j x^j  mod p

    Any ``threshold`` of the shares give f(0), the secret. Fewer are independent of it.

    Args:
        secret: 0 to p - 1.
        threshold: 1 or more.
        seed: of the coefficients a_j, which SHA-512 draws.

    Source: Shamir 1979 (How to share a secret, https://doi.org/10.1145/359168.359176).

    Example:
        >>> shares = [share_at(x, polynomial(7, threshold=2, seed=1)) for x in (1, 3)]
        >>> join_shares(lagrange_weights([1, 3]), shares)
        7
    """
    return [secret, *(_drawn(seed, j) for j in range(1, threshold))]


def share_at(x: int, coefficients: Sequence[int]) -> int:
    """f(x)."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def lagrange_weights(points: Sequence[int]) -> list[int]:
    """The weights of f at ``points`` in f(0): prod_{k != j} x_k / (x_k - x_j)  mod p."""
    weights = []
    for x in points:
        numerator = denominator = 1
        for other in points:
            if other != x:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - x) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return weights


def join_shares(weights: Iterable[int], shares: Iterable[int]) -> int:
    """The secret, f(0); ``weights``: of the shares' points."""
    return sum(w * y for w, y in zip(weights, shares, strict=True)) % PRIME


def _drawn(seed: int, number: int) -> int:
    digest = hashlib.sha512(f"shamir/{seed}/{number}".encode()).digest()
    return int.from_bytes(digest, "little") % PRIME
