"""``ExchangeFolder``: each exchange as files in a folder, with its secrets removed.

An exchange has three files, whose names begin with the time of the request, so that they sort by it:
``NAME.request.json``, the body that the upstream got; ``NAME.response.sse`` (``.ndjson``, ``.json``), the response as
received; and ``NAME.exchange.json``, the facts, written at the end. ``streamkit report`` and ``inspect`` read all
three, ``streamkit normalize`` the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from streamkit.bridges.tap.display_text import clean, clean_json, request_text
from streamkit.bridges.tap.exchange_facts import FACTS_SUFFIX, ExchangeFacts
from streamkit.bridges.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.bridges.tap.relay import Copies, let_others_run
from streamkit.json_text import replace_lone_surrogates
from streamkit.stream_file import StreamFile

__all__ = ["ExchangeFolder"]

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
        path: the folder. It is created if necessary.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
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
        self._facts = ExchangeFacts(
            time=moment,
            method=start.method,
            path=start.path,
            client=start.client,
            provider=start.provider,
            address=start.address,
            model=start.model,
            upstream_model=start.upstream_model,
        )
        self._type = ""

    def write(self, copies: Copies) -> None:
        """Write new copies."""
        if copies.start is not None and self._start.request is not None:
            self._write_request(self._start.request)
        if copies.response is not None:
            at, status, headers = copies.response
            self._add_response(at, status, {name.lower(): value for name, value in headers.items()})
        self._facts.missing_parts += copies.lost
        for _, data in copies.each_part():
            if self._response is None:
                self._response = self._open_response()
            self._response.write(data)
        self._facts.notes += copies.notes
        if copies.end is not None:
            self._close(copies.end)

    def abandon(self) -> None:
        """Close the file of the response, after an error."""
        with suppress(OSError):
            if self._response is not None:
                self._response.close()

    def _write_request(self, body: Any) -> None:
        path = self._named(".request.json")
        path.write_text(request_text(body, self._start.secrets, let_others_run), encoding="utf-8")
        self._facts.request = path.name

    def _add_response(self, at: float, status: int, headers: Mapping[str, str]) -> None:
        self._type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._facts.upstream_status = status
        self._facts.seconds_to_headers = round(at - self._started, 4)
        self._facts.headers = {name: headers[name] for name in _SHOWN_HEADERS if name in headers}

    def _open_response(self) -> StreamFile:
        path = self._named(f".response{_SUFFIXES.get(self._type, '.txt')}")
        self._facts.response = path.name
        return StreamFile(path, lambda text: clean(text, self._start.secrets, let_others_run))

    def _close(self, end: ExchangeEnd) -> None:
        if self._response is not None:
            self._response.close()
        facts = self._facts
        facts.seconds = round((end.at or 0.0) - self._started, 4)
        facts.status, facts.error, facts.disconnected = end.status, end.error, end.disconnected
        facts.changes = list(end.changes)
        # A header may have bytes that are no text; aiohttp has them as surrogates.
        plain = replace_lone_surrogates(msgspec.to_builtins(facts, enc_hook=str))
        line = clean_json(msgspec.json.encode(plain), self._start.secrets)
        # Whoever follows the recording may read the facts as soon as they have their name.
        path = self._named(FACTS_SUFFIX)
        unfinished = path.with_name(f".{path.name}.tmp")
        unfinished.write_bytes(msgspec.json.format(line, indent=2) + b"\n")
        unfinished.replace(path)

    def _named(self, suffix: str) -> Path:
        return self._base.with_name(self._base.name + suffix)
