"""A recording as an exchange: a captured response alone, or with the request and the facts that ``--record`` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamkit import providers
from streamkit.bridges.tap.exchange_folder import FACTS_SUFFIX
from streamkit.bridges.tap.observed_exchange import ExchangeEnd, ExchangeStart, ObservedExchange
from streamkit.cli.recorded_stream import AUTO, NotAStreamError, detect_provider
from streamkit.errors import UnknownProvider

__all__ = ["RecordedExchange", "expand_paths", "find_recording"]


#: The kinds of the facts.
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("time", "method", "path", "client", "provider", "address", "model", "upstream_model"), str),
    **dict.fromkeys(("request", "response", "error"), str),
    **dict.fromkeys(("status", "upstream_status", "missing_parts"), int),
    **dict.fromkeys(("seconds", "seconds_to_headers"), (int, float)),
    **dict.fromkeys(("notes", "changes"), list),
    "headers": dict,
    "disconnected": bool,
}


class RecordedExchange(NamedTuple):
    """The files of a recording.

    Attributes:
        response: the file of the response; None if there was none.
        facts: what ``--record`` wrote about the exchange; empty for a capture.
        request: the body of the request, if it was recorded.
    """

    response: Path | None
    facts: dict[str, Any]
    request: bytes | None

    def begin(self, key: int, provider: str, parts: Iterable[bytes]) -> tuple[ObservedExchange, Iterator[bytes]]:
        """Return the exchange before its response, and the bytes of the response.

        Args:
            key: the number of the exchange.
            provider: the provider of the response, or `AUTO`: that of the facts, else by the first bytes.
            parts: the bytes of the response.

        Raises:
            NotAStreamError: no provider is known.
        """
        facts = self.facts
        if provider == AUTO:
            provider = facts.get("provider") or AUTO
        status = facts.get("upstream_status", 200)
        shown: str | None = provider
        chunks = iter(parts)
        if provider == AUTO and facts:
            shown = None  # not the response of a model
        elif provider == AUTO:
            shown, chunks = detect_provider(provider, parts)
        start = ExchangeStart(
            at=_time(facts),
            method=facts.get("method", ""),
            path=facts.get("path", self.response.name if self.response is not None else ""),
            provider=shown,
            client=facts.get("client"),
            address=facts.get("address"),
            model=facts.get("model"),
            upstream_model=facts.get("upstream_model"),
            request=self.request,
        )
        exchange = ObservedExchange(key, start)
        if facts:
            if "upstream_status" in facts:
                exchange.respond(_time(facts, "seconds_to_headers"), status, facts.get("headers", {}))
            for note in facts.get("notes", []):
                exchange.add_note(note)
            exchange.lose(facts.get("missing_parts", 0))
        return exchange, chunks

    def end(self, exchange: ObservedExchange) -> None:
        """End the exchange, as the facts have it.

        Raises:
            NotAStreamError: a capture is not a stream of its provider.
        """
        facts = self.facts
        exchange.end(
            ExchangeEnd(
                at=_time(facts, "seconds"),
                status=facts.get("status"),
                error=facts.get("error"),
                disconnected=facts.get("disconnected", False),
                changes=facts.get("changes", ()),
            )
        )
        turn = exchange.turn
        if not facts and turn is not None and turn.error is not None and turn.error.kind == "protocol_error":
            if not (turn.text or turn.reasoning or turn.calls):
                raise NotAStreamError(f"not a stream of {turn.provider.name}: {turn.error.message}")


def find_recording(path: Path) -> RecordedExchange:
    """Return the recording that a file is part of.

    Args:
        path: a response, or the facts of an exchange.

    Raises:
        OSError: a file cannot be read.
        NotAStreamError: the facts are not those of an exchange.
    """
    base = path.name.partition(".response.")[0] if ".response." in path.name else path.name.removesuffix(FACTS_SUFFIX)
    facts_file = path.with_name(base + FACTS_SUFFIX)
    if path.name == base or not facts_file.is_file():
        return RecordedExchange(path, {}, None)
    try:
        facts = msgspec.json.decode(facts_file.read_bytes())
    except ValueError as error:
        raise NotAStreamError(f"{facts_file.name} is not the facts of an exchange: {error}") from None
    if not isinstance(facts, dict):
        raise NotAStreamError(f"{facts_file.name} is not the facts of an exchange: it must be a JSON object")
    if (wrong := next(_wrong_facts(facts), None)) is not None:
        raise NotAStreamError(f"{facts_file.name} is not the facts of an exchange: {wrong!r} has another form")
    # Only the last part of a name counts, so that the facts cannot name a file in another folder.
    response, request = (
        path.with_name(Path(name).name) if isinstance(name := facts.get(part), str) else None
        for part in ("response", "request")
    )
    body = request.read_bytes() if request is not None and request.is_file() else None
    return RecordedExchange(response, facts, body)


def _wrong_facts(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the names of facts that ``--record`` does not write so."""
    for name, kind in _KINDS.items():
        value = facts.get(name)
        if value is None:
            continue
        is_right = isinstance(value, kind) and isinstance(value, bool) is (kind is bool)
        if is_right and kind is list:
            is_right = all(isinstance(item, str) for item in value)
        elif is_right and name in ("response", "request"):
            is_right = bool(Path(value).name) and "\0" not in value
        if not is_right:
            yield name
    try:
        providers.get(facts.get("provider") or "anthropic")
    except UnknownProvider:
        yield "provider"
    if not all(isinstance(value, str) for value in (facts.get("headers") or {}).values()):
        yield "headers"


def expand_paths(path: Path) -> list[Path]:
    """Return the recordings in a folder, one path for each, in the order of their names; a file is itself."""
    if not path.is_dir():
        return [path]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    recorded = {file.name.removesuffix(FACTS_SUFFIX) for file in files if file.name.endswith(FACTS_SUFFIX)}
    return [
        file
        for file in files
        if not file.name.endswith(".request.json")
        and (file.name.endswith(FACTS_SUFFIX) or file.name.partition(".response.")[0] not in recorded)
    ]


def _time(facts: dict[str, Any], offset: str | None = None) -> float | None:
    """Return the time of the request in seconds since 1970, or one after it; None if the facts have none.

    Args:
        facts: the facts of an exchange.
        offset: the name of the seconds after the request.
    """
    time, seconds = facts.get("time"), 0.0 if offset is None else facts.get(offset)
    if not isinstance(time, str) or not isinstance(seconds, (int, float)):
        return None
    try:
        return datetime.fromisoformat(time).timestamp() + seconds
    except ValueError:
        return None
