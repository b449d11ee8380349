"""The providers: one package each, and what all of them share.

`provider` has the contract, `registry` finds providers by name, `rendering` converts history to messages and back,
`decoding` reads chunks leniently, `message_renderer` is the base of every provider's renderer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit.providers.registry import broken, detect, dialect, get, names, register
from streamkit.providers.writing import writer

if TYPE_CHECKING:
    from streamkit.providers.call_restorer import CallRestorer
    from streamkit.providers.opaque_state import restore_state
    from streamkit.providers.rendering import parse_messages, parse_request, render, render_request
    from streamkit.providers.state_carrier import StateCarrier

__all__ = [
    "CallRestorer",
    "StateCarrier",
    "broken",
    "detect",
    "dialect",
    "get",
    "names",
    "parse_messages",
    "parse_request",
    "register",
    "render",
    "render_request",
    "restore_state",
    "writer",
]

_LAZY_IMPORTS = {  # they load pydantic
    "CallRestorer": "call_restorer",
    "StateCarrier": "state_carrier",
    "parse_messages": "rendering",
    "parse_request": "rendering",
    "render": "rendering",
    "render_request": "rendering",
    "restore_state": "opaque_state",
}


def __getattr__(name: str) -> Any:
    module = _LAZY_IMPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value
