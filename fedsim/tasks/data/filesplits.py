"""Partitions that a user gives: a CSV file, a function in a Python file, or lists of samples.

docs/partitions.md has their forms. Settings keep a file with its digest, `split.csv@1f0c...`: a run
does not go on from a file that has changed since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compressors.usercode import content as code_digest
from compressors.usercode import typed, user_code
from fedsim.ground.errors import UsageError, reason

FIXED = "fixed"
"""The partition that the data of a task have themselves."""

_DIGEST = re.compile(r"@([0-9a-f]{16})$")
_FLAG = "--partition"


def is_file(spec: str) -> bool:
    """Whether a partition is a CSV file or a function in a Python file.

    Example:
        >>> is_file("split.csv"), is_file("mine.py:deal"), is_file("shards(2)")
        (True, True, False)
    """
    place = _place(spec)
    return place.endswith(".csv") or ".py:" in place


def partition_with_digest(spec: str) -> str:
    """The partition; of a file with its digest, which is read where the text lacks one.

    Raises:
        UsageError: there is no such file.

    Example:
        >>> partition_with_digest("split.csv@0123456789abcdef"), partition_with_digest("shards(2)")
        ('split.csv@0123456789abcdef', 'shards(2)')
    """
    if not is_file(spec) or _DIGEST.search(spec):
        return spec
    return f"{spec}@{_digest(spec)}"


def identity(spec: str) -> str:
    """A partition's identity, the same wherever its file lies.

    Example:
        >>> identity("a/split.csv@0123456789abcdef"), identity("a/b.py:deal@0123456789abcdef")
        ('csv@0123456789abcdef', 'deal@0123456789abcdef')
    """
    if not is_file(spec):
        return spec
    place = _place(spec)
    name = "csv" if place.endswith(".csv") else place.rpartition(":")[2]
    return f"{name}@{spec[-16:]}"


def shards(spec: str, labels: NDArray[Any], clients: int, seed: int) -> list[NDArray[np.int64]]:
    """The samples of each client, ascending, as in the file.

    Raises:
        UsageError: the file has changed or cannot be read; the function fails; or as
            ``check_shards``.
    """
    spec = partition_with_digest(spec)
    place, was = _place(spec), spec[-16:]
    if (now := _digest(place)) != was:
        raise UsageError(
            f"{_FLAG} is {place!r}: the file has changed (digest {was} when the run was set up, "
            f"{now} now); give the file as it was, or another --out"
        )
    if place.endswith(".csv"):
        parts: Sequence[Any] = _read(place, len(labels))
    else:
        parts = _called(place, labels, clients, seed)
    return check_shards(parts, len(labels), clients, f"{_FLAG} is {place!r}")


def check_shards(
    parts: Sequence[Any], samples: int, clients: int, prefix: str
) -> list[NDArray[np.int64]]:
    """The sample numbers of each client, ascending.

    Args:
        parts: of each client, whole numbers.
        samples: how many training samples there are.
        clients: of the run.
        prefix: what a message begins with.

    Raises:
        UsageError: there are more or fewer parts than clients; a number is out of range or is given
            twice; or a client has no samples.

    Example:
        >>> check_shards([[2, 0], [1]], 3, 2, "mine")
        [array([0, 2]), array([1])]
    """
    if not isinstance(parts, Sequence):
        raise UsageError(f"{prefix}: it gives a {type(parts).__name__}, not a list of lists")
    if len(parts) != clients:
        raise UsageError(
            f"{prefix}: it has {len(parts)} client{'' if len(parts) == 1 else 's'}, and --clients "
            f"is {clients}; give --clients {len(parts)}"
        )
    owner = np.full(samples, -1)
    shards = []
    for client, part in enumerate(parts):
        numbers = np.asarray(part)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise UsageError(
                f"{prefix}: client {client} has an array of {numbers.dtype} and shape "
                f"{numbers.shape}; give whole numbers, (N,)"
            )
        if not numbers.size:
            raise UsageError(f"{prefix}: client {client} of {clients} has no samples")
        if len(odd := numbers[(numbers < 0) | (numbers >= samples)]):
            raise UsageError(
                f"{prefix}: client {client} has the sample {odd[0]}; give numbers from 0 to "
                f"{samples - 1}"
            )
        rising = np.sort(numbers).astype(np.int64)
        twice = rising[:-1][np.diff(rising) == 0]
        if len(twice):
            raise UsageError(f"{prefix}: client {client} has the sample {twice[0]} twice")
        if len(taken := rising[owner[rising] >= 0]):
            raise UsageError(
                f"{prefix}: clients {owner[taken[0]]} and {client} both have the sample {taken[0]}"
            )
        owner[rising] = client
        shards.append(rising)
    return shards


def restrict(
    parts: Sequence[NDArray[np.int64]], left: NDArray[np.int64], prefix: str
) -> list[NDArray[np.int64]]:
    """The samples of each client that are among ``left``.

    Example:
        >>> restrict([np.array([0, 2]), np.array([1, 3])], np.array([0, 1, 3]), "mine")
        [array([0]), array([1, 3])]
    """
    remaining = [part[np.isin(part, left)] for part in parts]
    for client, part in enumerate(remaining):
        if not len(part):
            raise UsageError(
                f"{prefix}: it takes all {len(parts[client])} samples of client {client}; every "
                "client needs at least one"
            )
    return remaining


def _place(spec: str) -> str:
    return _DIGEST.sub("", spec)


def _digest(place: str) -> str:
    """Sixteen hex digits of a file's bytes; for code, also of imported modules in its folder."""
    csv = place.endswith(".csv")
    file = Path(place if csv else place.rpartition(":")[0])
    try:
        held = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{_FLAG} is {place!r}: {file} cannot be read ({reason(error)}); each machine that "
            "trains reads it there"
        ) from error
    held = held if csv else code_digest(file.resolve()).encode()
    return blake2b(held, digest_size=8).hexdigest()


def _read(place: str, samples: int) -> list[list[int]]:
    """The sample numbers of each client, from a CSV file whose columns are client and index."""
    lines = Path(place).read_text(encoding="utf-8-sig").splitlines()
    prefix = f"{_FLAG} is {place!r}"
    header = [name.strip() for name in lines[0].split(",")] if lines else []
    if sorted(header) != ["client", "index"]:
        raise UsageError(f"{prefix}: its first line names {header}; give client,index")
    at = header.index("client")
    by_client: dict[int, list[int]] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = line.split(",")
        try:
            client, index = int(cells[at]), int(cells[1 - at])
            fits = len(cells) == 2 and client >= 0 and 0 <= index < samples
        except (ValueError, IndexError):
            fits = False
        if not fits:
            raise UsageError(
                f"{prefix}: line {number} is {line!r}; give a client from 0 and an index from 0 to "
                f"{samples - 1}"
            )
        by_client.setdefault(client, []).append(index)
    if len(by_client) != max(by_client, default=-1) + 1:
        absent = next(i for i in range(max(by_client) + 1) if i not in by_client)
        raise UsageError(f"{prefix}: client {absent} of {max(by_client) + 1} has no samples")
    return [by_client[client] for client in sorted(by_client)]


def _called(place: str, labels: NDArray[Any], clients: int, seed: int) -> Sequence[Any]:
    from fedsim.tasks.place import load_object  # torch, which settings need not

    deal = load_object(place, _FLAG, Callable, "function(labels, clients, seed)")  # type: ignore[arg-type]
    try:
        with user_code():
            parts: Sequence[Any] = deal(labels.copy(), clients, seed)
    except Exception as error:
        raise UsageError(
            f"{_FLAG} is {place!r}: it is called as FUNCTION(labels, clients, seed), and fails: "
            f"{typed(error)}"
        ) from error
    return parts
