"""``ExchangeFolder``: each exchange as files in a folder, with its secrets removed.

An exchange has three files, whose names begin with the time of the request, so that they sort by it:
``NAME.request.json``, the body that the upstream got; ``NAME.response.sse`` (``.ndjson``, ``.json``), the response as
received; and ``NAME.exchange.json``, the facts beside the two bodies (``ExchangeFacts``), written at the end.
``streamkit report`` and ``inspect`` read all three, ``streamkit normalize`` the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from streamkit import providers
from streamkit.errors import UnknownProvider
from streamkit.gateway.tap.display_text import clean, clean_json, request_text
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.gateway.tap.relay import Copies, let_others_run
from streamkit.json_text import replace_lone_surrogates
from streamkit.reading.stream_file import StreamFile, create_private

__all__ = [
    "FACTS_SUFFIX",
    "ExchangeFacts",
    "ExchangeFolder",
    "read_facts",
    "shared_fields",
]


FACTS_SUFFIX = ".exchange.json"


class ExchangeFacts(Struct, kw_only=True, omit_defaults=True):
    """The facts of an exchange: those of `ExchangeStart` and `ExchangeEnd`, and further ones.

    Attributes:
        time: the time of the request, with its time zone.
        request: the name of the file of the request; None if it was not recorded.
        response: the name of the file of the response; None if there was none.
        upstream_status: the HTTP status of the response.
        headers: those headers of the response that are recorded.
        seconds_to_headers: the time until the headers of the response.
        seconds: the time until the end.
        missing_parts: the number of parts of the response that were not recorded.
        notes: sentences about the exchange.
        times: when the response came: a number of lines, and the seconds after which it had that many.
    """

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    method: str = ""
    path: str = ""
    request_id: str | None = None
    client: str | None = None
    provider: str | None = None
    address: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    request: str | None = None
    response: str | None = None
    upstream_status: int | None = None
    headers: dict[str, str] = {}
    seconds_to_headers: float | None = None
    seconds: float | None = None
    status: int | None = None
    error: str | None = None
    disconnected: bool = False
    missing_parts: int = 0
    notes: list[str] = []
    changes: Sequence[str] = []
    times: list[tuple[int, float]] = []

    def seconds_since_1970(self, offset: float | None = 0.0) -> float | None:
        """Return the time of the request, or one after it; None if the facts do not have it.

        Args:
            offset: the seconds after the request.
        """
        return None if self.time is None or offset is None else self.time.timestamp() + offset


def shared_fields(source: Struct, target: type[Struct]) -> dict[str, Any]:
    """Return the fields that two of an exchange's structs have in common; the request is a file or a body."""
    names = set(source.__struct_fields__) & set(target.__struct_fields__) - {"request"}
    return {name: getattr(source, name) for name in names}


def read_facts(file: Path) -> ExchangeFacts:
    """Return the facts in a file, which another program may have written.

    Raises:
        OSError: the file cannot be read.
        ValueError: it does not have the facts of an exchange; the message says which one is wrong.
    """
    facts = msgspec.json.decode(file.read_bytes(), type=ExchangeFacts)
    if facts.provider is not None:
        try:
            providers.get(facts.provider)
        except UnknownProvider as error:
            raise ValueError(f"provider: {error}") from None
    for name in ("request", "response"):
        value = getattr(facts, name)
        if value is not None and (not Path(value).name or "\0" in value):
            raise ValueError(f"{name} is not the name of a file: {value!r}")
    return facts


#: The suffix of a response by its content type. Binary frames are written as server-sent events.
_SUFFIXES = {
    "text/event-stream": ".sse",
    "application/vnd.amazon.eventstream": ".sse",
    "application/x-ndjson": ".ndjson",
    "application/json": ".json",
}
_SHOWN_HEADERS = ("content-type", "request-id", "x-request-id", "retry-after")


class ExchangeFolder:
    """A folder in which exchanges are recorded; a target of a ``Relay``.

    Args:
        path: the folder. If it does not exist it is created, with those above it, for its owner alone.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        for folder in (*reversed(path.parents), path):
            folder.mkdir(0o700, exist_ok=True)  # with parents=True those above would have the mode of the umask
        self._path = path
        self._open: dict[int, _Files] = {}

    def take(self, copies: Copies) -> None:
        """Write the new copies of an exchange.

        Raises:
            OSError: a file cannot be written; the exchange is not recorded further.
        """
        if copies.start is not None:
            self._open[copies.key] = _Files(self._path, copies.key, copies.start)
        files = self._open.get(copies.key)
        if files is None:
            return
        try:
            files.write(copies)
        except BaseException:
            del self._open[copies.key]
            files.abandon()
            raise
        if copies.end is not None:
            del self._open[copies.key]


class _Files:
    """The files of one exchange."""

    def __init__(self, folder: Path, key: int, start: ExchangeStart) -> None:
        self._started = start.at or 0.0
        moment = datetime.fromtimestamp(self._started, UTC)
        self._base = folder / f"{moment:%Y%m%dT%H%M%S.%f}Z-{key:05d}"
        self._start = start
        self._response: StreamFile | None = None
        self._facts = ExchangeFacts(time=moment, **shared_fields(start, ExchangeFacts))
        self._type = ""

    def write(self, copies: Copies) -> None:
        """Write new copies."""
        if copies.start is not None and self._start.request is not None:
            path = self._named(".request.json")
            with create_private(path) as file:
                file.write(request_text(self._start.request, self._start.secrets, let_others_run).encode())
            self._facts.request = path.name
        if copies.response is not None:
            at, self._facts.upstream_status, response_headers = copies.response
            headers = {name.lower(): value for name, value in response_headers.items()}
            self._type = headers.get("content-type", "").partition(";")[0].strip().lower()
            self._facts.seconds_to_headers = round(at - self._started, 4)
            self._facts.headers = {name: headers[name] for name in _SHOWN_HEADERS if name in headers}
        self._facts.missing_parts += copies.lost
        for at, data in copies.each_part():
            if self._response is None:
                path = self._named(f".response{_SUFFIXES.get(self._type, '.txt')}")
                self._facts.response = path.name
                self._response = StreamFile(path, lambda text: clean(text, self._start.secrets, let_others_run))
            lines = self._response.lines
            self._response.write(data)
            if self._response.lines > lines:
                self._facts.times.append((self._response.lines, round(at - self._started, 4)))
        self._facts.notes += copies.notes
        if copies.end is not None:
            self._close(copies.end)

    def abandon(self) -> None:
        """Close the file of the response, after an error."""
        with suppress(OSError):
            if self._response is not None:
                self._response.close()

    def _close(self, end: ExchangeEnd) -> None:
        if self._response is not None:
            self._response.close()
        seconds = round((end.at or 0.0) - self._started, 4)
        facts = replace(self._facts, seconds=seconds, **shared_fields(end, ExchangeFacts))
        # A header may have bytes that are no text; aiohttp has them as surrogates.
        plain = replace_lone_surrogates(msgspec.to_builtins(facts, enc_hook=str))
        line = clean_json(msgspec.json.encode(plain), self._start.secrets)
        # Whoever follows the recording may read the facts as soon as they have their name.
        path = self._named(FACTS_SUFFIX)
        unfinished = path.with_name(f".{path.name}.tmp")
        with create_private(unfinished) as file:
            file.write(msgspec.json.format(line, indent=2) + b"\n")
        unfinished.replace(path)

    def _named(self, suffix: str) -> Path:
        return self._base.with_name(self._base.name + suffix)
