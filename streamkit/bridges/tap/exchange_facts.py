"""``ExchangeFacts``: what a recording says about an exchange beside its two bodies, as it is written and read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from streamkit import providers
from streamkit.errors import UnknownProvider

__all__ = ["FACTS_SUFFIX", "ExchangeFacts", "read_facts"]

FACTS_SUFFIX = ".exchange.json"


class ExchangeFacts(Struct, kw_only=True, omit_defaults=True):
    """The facts of an exchange.

    Attributes:
        time: the time of the request, with its time zone.
        method: the HTTP method of the client's request.
        path: its path, with the query if there is one.
        client: the wire of the client; None if it is not known.
        provider: the provider whose wire the response has; None if the response is not one of a model.
        address: the base URL of the upstream.
        model: the client's name of the model.
        upstream_model: the upstream's.
        request: the name of the file of the request; None if it was not recorded.
        response: the name of the file of the response; None if there was none.
        upstream_status: the HTTP status of the response.
        headers: those headers of the response that are recorded.
        seconds_to_headers: the time until the headers of the response.
        seconds: the time until the end.
        status: the HTTP status that the client got.
        error: what failed outside of the response, such as the connection.
        disconnected: whether the client disconnected before the end.
        missing_parts: the number of parts of the response that were not recorded.
        notes: sentences about the exchange.
        changes: a sentence for each thing of the request or the response that was changed or left out.
    """

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    method: str = ""
    path: str = ""
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
    changes: list[str] = []

    def seconds_since_1970(self, offset: float | None = 0.0) -> float | None:
        """Return the time of the request, or one after it; None if the facts do not have it.

        Args:
            offset: the seconds after the request.
        """
        return None if self.time is None or offset is None else self.time.timestamp() + offset


def read_facts(file: Path) -> ExchangeFacts:
    """Return the facts in a file, which may come from somebody else.

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
