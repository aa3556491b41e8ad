"""Clients' replies in a run's folder, which a replay needs in addition to used payloads.

``replies/round-00003/client-001.json`` is the reply of client 1 to its message of round 3: a list
with one element, and with a second one where the client asked for the whole model first. An element
has an ``error``, or the numbers and side payloads of each part of the model. The payload of a reply
that is not used in its own round is in ``client-001.bin``; that of a used one is in ``payloads``.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedsim.engines import compat
from fedsim.federation.rounds import recipient_of
from fedsim.ground.errors import UsageError
from fedsim.ground.files import digest_of, write_bytes, write_json
from strategies import RoundTraffic
from strategies.channel.nodes import CohortGrid, numbered_of
from strategies.channel.parts import part_of
from strategies.channel.payload import BUFFERS, KEY, METRICS, ROUND, get, put, settings_in

REPLIES = "replies"
REPLY_FILES = {"payload": "bin", BUFFERS: "buffers"}
"""The parts of a reply that are files of their own, and the endings of their names."""

_TRAIN = "train"


@dataclass(frozen=True)
class Reply:
    """A reply to one message."""

    content: RecordDict | Error  # what the client said, or why there is no reply
    # When it came, where that was after its round by the machine's clock: the number of the last
    # message that had left, and of looks for replies since; None: in its round.
    pulled_at: tuple[int, int] | None = None


def number_of(message: Message) -> int:
    """The number of a message among those to its client: of its round, where the server waits."""
    return int(str(settings_in(message.content)[ROUND]))


def place_of(folder: Path, number: int) -> Path:
    """Where the replies to the messages of a round are."""
    return folder / REPLIES / f"round-{number:05d}"


def file_stem(client: int, shard: str = "") -> str:
    """How the names of a client's files begin; ``shard``: of one part of the model."""
    return f"client-{client:03d}{shard}"


@dataclass
class Moment:
    """When a grid is looked at: the number of the last message that left, and of looks since."""

    number: int = 0
    looks: int = 0

    def sent(self, messages: Iterable[Message]) -> None:
        """Messages of a round leave."""
        numbers = [number_of(message) for message in messages]
        if numbers:
            self.number, self.looks = max(numbers), 0

    def looked(self) -> tuple[int, int]:
        """Somebody looks for replies of earlier rounds; returns the moment."""
        self.looks += 1
        return self.number, self.looks


class RecordingGrid(CohortGrid):
    """A grid that hands on all replies, and records those to messages for training."""

    def __init__(self, grid: Grid, replies: "ReplyStore") -> None:
        super().__init__(grid, [])
        self.numbered, self._replies = numbered_of(grid), replies
        self._requests: dict[str, tuple[int, int]] = {}  # by open message: client, number
        self._moment = Moment()

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterator[Message]:
        messages = list(messages)
        train = [m for m in messages if m.metadata.message_type == _TRAIN]
        self._moment.sent(train)
        requests = [(message, (recipient_of(message), number_of(message))) for message in train]
        for reply in self._grid.send_and_receive(messages, timeout=timeout):
            # A grid gives messages their ids when it sends them.
            self._requests |= {message.metadata.message_id: key for message, key in requests}
            requests = []
            self._record(reply, None)
            yield reply
        self._requests |= {message.metadata.message_id: key for message, key in requests}

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        moment = self._moment.looked()
        replies = list(self._grid.pull_messages(message_ids))
        for reply in replies:
            self._record(reply, moment)
        return replies

    def _record(self, reply: Message, moment: tuple[int, int] | None) -> None:
        key = self._requests.pop(reply.metadata.reply_to_message_id, None)
        if key is not None:
            content = reply.error if reply.has_error() else reply.content
            self._replies.add(*key, Reply(content, moment))


class ReplyStore:
    """What a run's folder keeps of replies, and gives back to a replay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unwritten: dict[tuple[int, int], list[Reply]] = {}  # by number and client

    def add(self, client: int, number: int, reply: Reply) -> None:
        """Takes a reply, which ``keep`` writes."""
        self._unwritten.setdefault((number, client), []).append(reply)

    def keep(self, traffic: RoundTraffic) -> None:
        """Writes what has come since the last round, whose used payloads are written."""
        used = {
            (part.round, client, part.place.partition("-step-")[0])
            for part in traffic.parts
            for client, up in part.uplinks.items()
            if not up.earlier_round
        }
        for (number, client), replies in self._unwritten.items():
            place = place_of(self.folder, number)
            place.parent.mkdir(exist_ok=True)
            place.mkdir(exist_ok=True)
            values = []
            for reply in replies:
                values.append(_values(reply))
                for shard, ending, data in _files(reply.content):
                    if (number, client, shard) not in used:
                        write_bytes(place / f"{file_stem(client, shard)}.{ending}", data)
            write_json(place / f"{file_stem(client)}.json", values)
        self._unwritten = {}
        for number, client, shard in used:  # one that was under way after a row before
            for ending in REPLY_FILES.values():
                file = place_of(self.folder, number) / f"{file_stem(client, shard)}.{ending}"
                file.unlink(missing_ok=True)

    def has(self, client: int, number: int) -> bool:
        """Whether a reply of a client to its message of this number is kept."""
        return (place_of(self.folder, number) / f"{file_stem(client)}.json").exists()

    def of(self, client: int, number: int) -> list[Reply]:
        """The replies of a client to a message; none where none is kept.

        Raises ``UsageError`` where a file is damaged.
        """
        file = place_of(self.folder, number) / f"{file_stem(client)}.json"
        try:
            stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
            return [self._reply(client, number, values) for values in stored]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            place = file.relative_to(self.folder)
            raise UsageError(f"{place} is damaged: {error}") from error

    def _reply(self, client: int, number: int, values: dict[str, Any]) -> Reply:
        moment = values.get("pulled_at")
        pulled_at = None if moment is None else (int(moment[0]), int(moment[1]))
        if "error" in values:
            return Reply(Error(int(values["error"]["code"]), values["error"]["reason"]), pulled_at)
        if "flower" in values:
            return Reply(compat.from_bytes(bytes.fromhex(values["flower"])), pulled_at)
        data = {
            (shard, key): self._file(client, number, shard, ending, part[key])
            for shard, part in values["parts"].items()
            for key, ending in REPLY_FILES.items()
            if key in part
        }
        return Reply(_content(values["parts"], data), pulled_at)

    def _file(self, client: int, number: int, shard: str, ending: str, digest: str) -> bytes:
        """The bytes of a reply's file, or of the file in ``payloads`` where there is none."""
        file = place_of(self.folder, number) / f"{file_stem(client, shard)}.{ending}"
        if not file.exists():
            return payload_of(self.folder, number, file_stem(client, shard), ending)
        data = file.read_bytes()
        if digest_of(data) != digest:
            raise ValueError(f"{file.name}: its content is not what was written")
        return data


def payload_of(folder: Path, number: int, name: str, ending: str) -> bytes:
    """A client's used payload (``bin``) of a round, or its ``buffers``."""
    place = folder / "payloads" / f"round-{number:05d}"
    files = [*place.glob(f"{name}-*up.{ending}")]
    if len(files) != 1:
        raise ValueError(f"{place.name}/{name}-up.{ending} is missing")
    return files[0].read_bytes()


def _values(reply: Reply) -> dict[str, Any]:
    """A reply as JSON holds it, less what is in files; what no client of ours says, as it came."""
    moment = {} if reply.pulled_at is None else {"pulled_at": reply.pulled_at}
    if isinstance(reply.content, Error):
        return moment | {"error": {"code": reply.content.code, "reason": reply.content.reason}}
    with suppress(TypeError, ValueError, AttributeError, KeyError):
        parts = json.loads(json.dumps(dict(_parts(reply.content))))
        data = {(shard, _KEYS[end]): x for shard, end, x in _files(reply.content)}
        again = _content(parts, data)
        kinds = {name: type(record) for name, record in again.items()}
        if again == reply.content and kinds == {n: type(x) for n, x in reply.content.items()}:
            return moment | {"parts": parts}
    return moment | {"flower": compat.to_bytes(reply.content).hex()}


_KEYS = {ending: key for key, ending in REPLY_FILES.items()}


def _shards(content: RecordDict) -> Iterator[tuple[str, RecordDict]]:
    """The reply to each part of the model, by the part's text in the names of its files."""
    if KEY in content:
        yield "", content
        return
    place = 0
    while f"{KEY}/{place}" in content:
        yield f"-shard-{place:02d}", part_of(content, place)
        place += 1


def _parts(content: RecordDict) -> Iterator[tuple[str, dict[str, Any]]]:
    """Numbers, settings, side payloads in hex, and digests of what is in files, by shard."""
    for shard, part in _shards(content):
        settings = {k: v for k, v in part[KEY].items() if k not in ("payload", "bytes")}
        yield (
            shard,
            {
                "metrics": dict(part.get(METRICS, {})),
                "settings": {k: v for k, v in settings.items() if not isinstance(v, bytes)},
                "beside": {
                    k: v.hex()
                    for k, v in settings.items()
                    if isinstance(v, bytes) and k not in REPLY_FILES
                },
                **{_KEYS[end]: digest_of(x) for name, end, x in _files(content) if name == shard},
            },
        )


def _files(content: RecordDict | Error) -> Iterator[tuple[str, str, bytes]]:
    """The parts of a reply that go to files: the shard, the ending of the name, and the bytes."""
    if isinstance(content, Error):
        return
    for shard, part in _shards(content):
        with suppress(ValueError):  # a wish for the whole model has no payload
            payload, side_payloads = get(part)
            yield shard, REPLY_FILES["payload"], payload
            if isinstance(buffers := side_payloads.get(BUFFERS), bytes):
                yield shard, REPLY_FILES[BUFFERS], buffers


def _content(parts: dict[str, Any], data: dict[tuple[str, str], bytes]) -> RecordDict:
    """The way back from ``_parts`` and ``_files``."""
    content = RecordDict()
    for place, (shard, part) in enumerate(parts.items()):
        record = RecordDict()
        if part["metrics"]:
            record[METRICS] = MetricRecord(part["metrics"])
        side_payloads = {name: bytes.fromhex(text) for name, text in part["beside"].items()}
        settings = part["settings"] | side_payloads
        if (shard, BUFFERS) in data:
            settings |= {BUFFERS: data[shard, BUFFERS]}
        if (shard, "payload") in data:
            put(record, data[shard, "payload"], **settings)
        else:
            record[KEY] = ConfigRecord(settings)
        for name, value in record.items():
            content[f"{name}/{place}" if shard else name] = value
    return content
