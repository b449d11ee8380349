"""The log of a gateway: a record of the standard ``logging`` for each exchange, and its form as text or as JSON.

``Gateway(observe=log_exchange)`` writes to the logger ``streamkit.gateway.requests``. Each line has the time and the id
of the request, which the client gets as a header; so has what the gateway logs while it serves a request. There is no
key and no content of a conversation in a record, and `LogFormatter` masks what has the form of a secret.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from typing import Any

from streamkit.gateway.upstream import Exchange, current_exchange
from streamkit.values.redaction import redact

__all__ = ["LogFormatter", "format_exchange", "log_exchange"]

_requests = logging.getLogger("streamkit.gateway.requests")
_MOST_CHANGES = 1000  # that are written as lines of text; some name an id
_LONGEST_NAME = 200  # characters of a path or of a model, which a client chooses
_LONGEST = 300  # characters of a sentence
_MOST_SENTENCES = 20  # of one exchange, in JSON


def log_exchange(exchange: Exchange) -> None:
    """Log one exchange, as a warning if it has failed."""
    level = logging.WARNING if exchange.error is not None or exchange.status >= 400 else logging.INFO
    if _requests.isEnabledFor(level):
        _requests.log(level, "%s", format_exchange(exchange), extra={"exchange": exchange})


def format_exchange(exchange: Exchange) -> str:
    """Return one line about a request and its response, without secrets and without content."""
    parts = [str(exchange.status or "-"), exchange.method, _cut(exchange.path)]
    if exchange.provider is not None:
        model = exchange.upstream_model or "?"
        named = f" ({_cut(exchange.model)})" if exchange.model is not None and exchange.model != model else ""
        parts.append(f"{exchange.client} > {exchange.provider} {_cut(model)}{named}")
    if exchange.failures:
        failures = "; ".join(failure[:100] for failure in exchange.failures)
        parts.append(f"upstream {exchange.upstream} after {failures}")
    parts.append(f"{exchange.seconds:.2f} s")
    if exchange.usage is not None:
        figures = (
            "?" if count is None else count for count in (exchange.usage.input_tokens, exchange.usage.output_tokens)
        )
        parts.append("{} in, {} out".format(*figures))
    if exchange.calls:
        parts.append(f"{exchange.calls} call{'s' if exchange.calls > 1 else ''}")
    if exchange.changes:
        parts.append(f"{len(exchange.changes)} changed or left out")
    if exchange.disconnected:
        parts.append("the client disconnected")
    if exchange.error is not None:
        parts.append(exchange.error[:_LONGEST])
    return "  ".join(parts)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


class LogFormatter(logging.Formatter):
    """One line for each record; as text, the further lines of a record are indented.

    Most changes are the same in every request of a conversation, so as text each is written once, below the first
    request that had it. As JSON every record has those of its request.

    Args:
        as_json: write JSON objects.
        clean: returns a text without secrets.
    """

    def __init__(self, *, as_json: bool = False, clean: Callable[[str], str] = redact) -> None:
        super().__init__()
        self._as_json = as_json
        self._clean = clean
        self._written: set[str] = set()  # changes

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        exchange: Exchange | None = getattr(record, "exchange", None) or current_exchange.get()
        is_end = hasattr(record, "exchange")
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        failure = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        if self._as_json:
            line: dict[str, Any] = {"time": time, "level": record.levelname.lower(), "logger": record.name}
            line["process"] = record.process
            line["message"] = self._clean(record.getMessage())
            if exchange is not None:
                line |= self._fields(exchange) if is_end else {"request_id": exchange.request_id}
            if failure is not None:
                line["exception"] = self._clean(failure)
            return json.dumps(line)
        lines = [record.getMessage()]
        for change in exchange.changes if exchange is not None and is_end else ():
            if change not in self._written and len(self._written) < _MOST_CHANGES:
                self._written.add(change)
                lines.append(change[:_LONGEST])
        lines += [] if failure is None else [failure]
        request = "" if exchange is None else f"{exchange.request_id}  "
        # Indented, no text of a client can be taken for a line of its own.
        return f"{time}  {request}" + self._clean("\n".join(lines)).replace("\n", "\n     ")

    def _fields(self, exchange: Exchange) -> dict[str, Any]:
        """Return the facts of an exchange, without those that it does not have."""
        fields = {each.name: getattr(exchange, each.name) for each in dataclass_fields(exchange)}
        del (
            fields["error_codes"],
            fields["began"],
        )  # the sentences have them, and no clock of a reader's is the process's
        if (usage := fields.pop("usage")) is not None:
            fields["input_tokens"], fields["output_tokens"] = usage.input_tokens, usage.output_tokens
        for name in ("path", "model", "upstream_model", "request_id"):
            fields[name] = None if fields[name] is None else self._clean(_cut(fields[name]))
        fields["seconds"] = round(exchange.seconds, 4)
        fields["first_byte"] = None if exchange.first_byte is None else round(exchange.first_byte, 4)
        for name in ("failures", "changes"):
            fields[name] = [self._clean(sentence[:_LONGEST]) for sentence in fields[name][:_MOST_SENTENCES]]
        if exchange.error is not None:
            fields["error"] = self._clean(exchange.error[:_LONGEST])
        return {
            name: value for name, value in fields.items() if value is not None and value is not False and value != []
        }
