"""For the tests of your own agent loop, and of your own provider.

``serve`` starts an HTTP server on loopback that implements every provider's wire. Its script is written once, without a
provider; the server sends the same turns to an OpenAI client, an Anthropic client or a Gemini client. It rejects what
the real provider would reject. ``validate_request`` applies the same rules to a body without a server, ``list_rules``
lists them with their sources. The server needs the extra ``testing``, and is loaded on first use.

``check_provider`` checks a provider against a folder of cases, as the built-in ones are checked.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit.testing.conformance import (
    ConformanceError,
    Report,
    cases_in,
    check_case,
    check_provider,
    every_cut,
)
from streamkit.testing.request_rules import Rule, Violation, list_rules, validate_request
from streamkit.testing.script import (
    Call,
    Disconnect,
    ErrorEvent,
    RawBytes,
    Reasoning,
    Reply,
    Request,
    Script,
    Stall,
    Status,
)

if TYPE_CHECKING:
    from streamkit.testing.server import Server, serve

__all__ = [
    "Call",
    "ConformanceError",
    "Disconnect",
    "ErrorEvent",
    "RawBytes",
    "Reasoning",
    "Reply",
    "Report",
    "Request",
    "Rule",
    "Script",
    "Server",
    "Stall",
    "Status",
    "Violation",
    "cases_in",
    "check_case",
    "check_provider",
    "every_cut",
    "list_rules",
    "serve",
    "validate_request",
]


def __getattr__(name: str) -> Any:
    """Load the server on first use: it needs an extra."""
    if name not in ("Server", "serve"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("streamkit.testing.server"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazily loaded names too."""
    return sorted(set(globals()) | set(__all__))
