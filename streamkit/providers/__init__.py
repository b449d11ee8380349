"""The providers: one package each, and what all of them share.

`provider` has the contract, `registry` finds providers by name, `rendering` converts history to messages and back,
`decoding` reads chunks leniently, `message_renderer` is the base of every provider's renderer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit.accumulator.limits import WireTraits
from streamkit.providers.contract.rendered import ToolChoice
from streamkit.providers.contract.traits import Endpoint, ModelFacts, Traits
from streamkit.providers.provider import Provider
from streamkit.providers.registry import broken, detect, dialect, get, names, register, writer

if TYPE_CHECKING:
    from streamkit.providers.rendering.conversion import parse_messages, parse_request, render, render_request
    from streamkit.providers.writing.writer import Writer

__all__ = [
    "Endpoint",
    "ModelFacts",
    "Provider",
    "ToolChoice",
    "Traits",
    "WireTraits",
    "Writer",
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
    "writer",
]

_LAZY_IMPORTS = {  # they load pydantic
    "Writer": "writing.writer",
    "parse_messages": "rendering.conversion",
    "parse_request": "rendering.conversion",
    "render": "rendering.conversion",
    "render_request": "rendering.conversion",
}


def __getattr__(name: str) -> Any:
    module = _LAZY_IMPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value
