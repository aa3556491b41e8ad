"""The file of weights that a run starts from, as settings keep it: its place and its digest.

``start.safetensors@1f0c...``: numbers go by the digest, wherever the file lies; and a run does not
go on from a file that has changed since.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from fedsim.ground.errors import UsageError, reason

_DIGEST = re.compile(r"@([0-9a-f]{16})$")
_FLAG = "--weights"


def place_with_digest(file: str) -> str:
    """The place with its digest, which is read where the text lacks one.

    Raises ``UsageError``: there is no such file, or its name does not end with .safetensors.
    """
    if _DIGEST.search(file):
        return file
    if not file.endswith(".safetensors"):
        raise UsageError(f"{_FLAG} is {file!r}: give a file of tensors, FILE.safetensors")
    return f"{file}@{blake2b(read_start_file(file), digest_size=8).hexdigest()}"


def digest_in(weights: str | None) -> str | None:
    """The digest of the file in a settled text."""
    return weights and weights[-16:]


def file_bytes(weights: str) -> bytes:
    """What the file of a settled text holds.

    Raises ``UsageError``: it is not there, or no longer what it was.
    """
    place, was = _DIGEST.sub("", weights), digest_in(weights)
    held = read_start_file(place)
    now = blake2b(held, digest_size=8).hexdigest()
    if now != was:
        raise UsageError(
            f"{_FLAG} is {place!r}: the file has changed (digest {was} when the run was set up, "
            f"{now} now); give the file as it was, or another --out"
        )
    return held


def read_start_file(place: str) -> bytes:
    """The bytes of a file; kept until it changes."""
    try:
        stat = Path(place).stat()
        return _cached_bytes(str(Path(place).resolve()), stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise UsageError(
            f"{_FLAG} is {place!r}: cannot be read ({reason(error)}); each machine that trains "
            "reads it there"
        ) from error


@lru_cache(maxsize=2)
def _cached_bytes(place: str, changed: int, size: int) -> bytes:
    return Path(place).read_bytes()
