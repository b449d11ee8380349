"""The providers: one package each, and what all of them share.

`provider` has the contract, `registry` finds providers by name, `rendering` converts history to messages and back,
`decoding` reads chunks leniently, `message_renderer` is the base of every provider's renderer.
"""

from __future__ import annotations

from streamkit.providers.registry import broken, detect, dialect, get, names, register
from streamkit.providers.rendering import parse_messages, parse_request, render, render_request

__all__ = [
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
]
