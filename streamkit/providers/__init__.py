"""The providers: one package each, and what all of them share.

`provider` has the contract, `registry` finds providers by name, `rendering` converts history to messages and back,
`decoding` reads chunks leniently, `message_renderer` is the base of every provider's renderer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.accumulator.limits import WireTraits
from streamkit.providers.contract.rendered import ToolChoice
from streamkit.providers.contract.traits import Endpoint, ModelFacts, Traits
from streamkit.providers.provider import Provider, RenderedMessages
from streamkit.providers.registry import broken, detect, dialect, get, names, register, writer
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.providers.rendering.conversion import parse_messages, parse_request, render, render_request
    from streamkit.providers.writing.writer import Writer

__all__ = [
    "Endpoint",
    "ModelFacts",
    "Provider",
    "RenderedMessages",
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

__getattr__, __dir__ = lazy_names(  # they load pydantic
    __name__,
    {
        "writing.writer": "Writer",
        "rendering.conversion": "parse_messages parse_request render render_request",
    },
)
