"""Who may ask a gateway: one key, the keys of a file, and a hook of the application.

A file has the name of each key, its hash and the models that it may ask, never the key itself. Every key of the file is
compared in constant time, by hashes. What a program decides itself (limits, budgets, users) is ``Gateway(authorize=)``:
whatever it raises or returns beside True refuses the request. This module must not depend on wires or upstreams.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from inspect import isawaitable
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.types import Scope

from streamkit.errors import UsageError
from streamkit.gateway.stores.store import OwnEntries, Store
from streamkit.gateway.toml_tables import read_tables
from streamkit.gateway.upstream import Exchange
from streamkit.values.redaction import log_failure, redact

__all__ = ["Access", "Authorize", "Client", "ClientKey", "Refusal", "hash_key", "read_keys"]

_log = logging.getLogger("streamkit.gateway")
_BEARER = "bearer "
#: The headers and the parameter of the query in which clients send a key.
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_KEY_PARAMETER = "key"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[\w.@+-]{1,100}")  # of a key: it is in lines of the log and in labels of metrics
_FIELDS = ("name", "hash", "models", "metrics")


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an ``authorize`` hook returns to refuse a request in the form of the client's wire, with a sentence.

    The status is from 400 to 599, such as 429 for a limit and 402 for a budget; ``retry_after`` are seconds.
    """

    message: str
    status: int = 403
    retry_after: float | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise UsageError(f"the status of a refusal is from 400 to 599, not {self.status}")


_NOT_CHECKED = Refusal("this gateway cannot check requests at present", 503, retry_after=1)
#: Returns whether a request may be sent to an upstream, or a `Refusal`. It gets the exchange so far (``key``,
#: ``client``, ``model``) and the client's headers, with names in lower case.
Authorize: TypeAlias = Callable[[Exchange, Mapping[str, str]], bool | Refusal | Awaitable[bool | Refusal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """A key that clients may send: its name in reports, and its `hash_key`.

    ``models`` are those that it may ask, as clients name them, with ``*`` for any text; None for all. ``metrics``: it
    may read ``/metrics``.
    """

    name: str | None
    hash: str
    models: Sequence[str] | None = None
    metrics: bool = False

    def allows(self, model: Any) -> bool:
        """Return whether a model may be asked, None for one that is not named."""
        if self.models is None:
            return True
        # Only ``*`` is special: Claude Code asks for models such as ``claude-sonnet-4-5[1m]``.
        patterns = (pattern.replace("[", "[[]").replace("?", "[?]") for pattern in self.models)
        return any(fnmatchcase(model if isinstance(model, str) else "", pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request: the key, and its entries in the store."""

    key: ClientKey
    entries: OwnEntries


def hash_key(key: str) -> str:
    """Return the hash of a key as a file has it. Keys are long and random, so that a slow hash would add nothing."""
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def read_keys(path: str | os.PathLike[str], text: str | None = None) -> list[ClientKey]:
    """Return the keys of a TOML file: tables ``[[key]]`` with the fields of `ClientKey`; *text* is its known content.

    Raises:
        UsageError: the file cannot be read or is no such file. The message names the file and the key.
    """
    return read_tables(path, "key", "a name and a hash", _FIELDS, _read_table, text)


def _read_table(table: dict[str, Any], others: Sequence[ClientKey]) -> ClientKey:
    name, value, models, metrics = (table.get(field) for field in _FIELDS)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError("name must be a text of at most 100 letters, digits and the marks . @ + - _")
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise UsageError("hash must be 'sha256:' and 64 hexadecimal digits, never the key: `streamkit key` makes both")
    if models is not None and not (isinstance(models, list) and all(isinstance(each, str) for each in models)):
        raise UsageError('models must be a list of names, such as ["claude-*", "gpt-5"], or left out for all')
    if not isinstance(metrics, bool | None):
        raise UsageError(f"metrics must be true or false, not {metrics!r}")
    for other in others:
        if name == other.name or value == other.hash:
            raise UsageError(f"it has the {'name' if name == other.name else 'hash'} of key {other.name!r}")
    return ClientKey(name=name, hash=value, models=models, metrics=bool(metrics))


class Access:
    """The check of clients: all may ask, those with the only *key*, or with one of the file at *path*.

    Raises:
        UsageError: see `read_keys`; or there are both a key and a file.
    """

    def __init__(
        self, store: Store, key: str | None, path: str | os.PathLike[str] | None, authorize: Authorize | None
    ) -> None:
        if key is not None and path is not None:
            raise UsageError("give one key, or a file of keys, but not both: add the key's hash to the file")
        self._store = store
        self._path = path
        self._authorize = authorize
        self._keys = [ClientKey(name=None, hash=hash_key(key), metrics=True)] if key is not None else []
        self.needs_key: bool = key is not None or path is not None
        self.reload()

    def reload(self) -> None:
        """Read the file again; if it is wrong (a ``UsageError``), the keys do not change."""
        if self._path is not None:
            self._keys = read_keys(self._path)

    def find(self, scope: Scope) -> Client | None:
        """Return who has sent a request, with a key as the clients of any wire send it; None for an unknown key."""
        request = Request(scope)
        given = [request.headers.get(name) for name in _KEY_HEADERS] + [request.query_params.get(_KEY_PARAMETER)]
        authorization = request.headers.get("authorization", "")
        if authorization[: len(_BEARER)].lower() == _BEARER:
            given.append(authorization[len(_BEARER) :].strip())
        found = None
        for value in filter(None, given):
            hashed = hash_key(value)
            for key in self._keys:  # all of them, so that the time does not depend on which one it is
                if hmac.compare_digest(hashed, key.hash):
                    found = Client(key, OwnEntries(self._store, value))
        return found

    async def find_refusal(
        self, exchange: Exchange, client: Client | None, body: Any, headers: Mapping[str, str]
    ) -> Refusal | None:
        """Return why a request must not be sent to an upstream, None if it may be.

        Its model is that of the exchange. A body may name further ones: OpenRouter's fallbacks
        (https://openrouter.ai/docs/guides/routing/model-fallbacks), and models that a tool of the provider asks.
        """
        fields: Mapping[str, Any] = body if isinstance(body, dict) else {}
        models, tools = (
            [*found] if isinstance(found := fields.get(name), list) else [] for name in ("models", "tools")
        )
        models += [tool["model"] for tool in tools if isinstance(tool, dict) and "model" in tool]
        for model in (exchange.model, *models):
            if client is not None and not client.key.allows(model):
                named = "a request without a model" if model is None else f"the model {redact(str(model)[:200])!r}"
                return Refusal(f"this key may not ask {named}")
        if self._authorize is None:
            return None
        try:
            answer: Any = self._authorize(exchange, headers)
            if isawaitable(answer):
                answer = await answer
        except Exception as problem:
            log_failure(_log, "authorize has failed, and the request is refused", error=problem)
            return _NOT_CHECKED
        if answer is True or isinstance(answer, Refusal):
            return None if answer is True else answer
        if answer is False:
            return Refusal("this request is not allowed")
        _log.error("authorize must return True, False or a Refusal, not %s: refused", type(answer).__name__)
        return _NOT_CHECKED
