"""The models that clients can list: those that upstreams name, and those that they list.

What an upstream lists is asked for again after a minute, and left out if it does not respond. A name is listed as
clients send it (``Upstream.models``). This module must not depend on ASGI.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

import anyio

from streamkit import providers
from streamkit.gateway.upstream import ANY_MODEL, Upstream

__all__ = ["OLLAMA_VERSION", "ModelLists", "describe_ollama_model"]

Json = dict[str, Any]
_log = logging.getLogger("streamkit.gateway")
_FRESH = 60.0  # seconds for which a list is not asked for again
_PATIENCE = 5.0  # seconds for a list
#: Clients refuse a version that is too old for tools (0.3) or for capabilities (0.6).
OLLAMA_VERSION = "0.12.0"


class ModelLists:
    """The names of models of a gateway's upstreams."""

    def __init__(self, upstreams: Sequence[Upstream], clock: Callable[[], float] = monotonic) -> None:
        self._upstreams = upstreams
        self._clock = clock
        self._listed: dict[int, tuple[float, Sequence[str]]] = {}  # by position, with the time

    async def load(self) -> list[str]:
        """Ask upstreams again for lists that are too old; return `names`."""
        async with anyio.create_task_group() as tasks:
            for position, upstream in enumerate(self._upstreams):
                asked = self._listed.get(position)
                if upstream.list_models is not None and (asked is None or self._clock() - asked[0] > _FRESH):
                    tasks.start_soon(self._ask, position, upstream)
        return self.names

    async def _ask(self, position: int, upstream: Upstream) -> None:
        names: Sequence[str] = ()
        try:
            with anyio.fail_after(_PATIENCE):
                names = [*await upstream.list_models()] if upstream.list_models is not None else ()
        except Exception as problem:  # whatever a server sends instead of a list
            _log.warning("upstream %s lists no models: %s", position + 1, upstream.clean(repr(problem)))
        self._listed[position] = (self._clock(), names)

    @property
    def names(self) -> list[str]:
        """The names that clients can list, each once: those without a pattern, and those of the known lists."""
        names: dict[str, None] = {}
        for position, upstream in enumerate(self._upstreams):
            _, listed = self._listed.get(position, (0.0, ()))
            for name, model in (upstream.targets() or {ANY_MODEL: ANY_MODEL}).items():
                names |= dict.fromkeys(_client_names(name, model, listed))
        return [*names]


def _client_names(name: str, model: str, listed: Sequence[str]) -> Iterator[str]:
    """Yield the client's names of an upstream's models: a name of ``Upstream.models``, with the upstream's own."""
    start, star, end = model.partition(ANY_MODEL)
    for each in listed if star else ():
        if len(each) >= len(start + end) and each.startswith(start) and each.endswith(end):
            yield name.replace(ANY_MODEL, each[len(start) : len(each) - len(end)])
    if not star and (name == ANY_MODEL or ANY_MODEL not in name):
        yield model if name == ANY_MODEL else name


def describe_ollama_model(name: str) -> Json:
    """Return the response of ``/api/show``: that the model calls tools, without which clients offer none."""
    texts = dict.fromkeys(("modelfile", "parameters", "template"), "")
    entry = providers.get("ollama").traits.endpoint.model_entry
    known = {"capabilities": ["completion", "tools"], "model_info": {"general.basename": name}}
    return {**texts, "details": entry["details"], "modified_at": entry["modified_at"], **known}
