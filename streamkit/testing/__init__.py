"""For the tests of your own agent loop, and of your own provider.

``serve`` is a real HTTP server on loopback that speaks every provider's wire: it takes a script, written once and
without a provider, and answers on the wire of whichever provider it is asked as: the same turns for an OpenAI client,
an Anthropic client or a Gemini client. It refuses what the real provider would refuse: ``faults_of`` says the same of
a body without a server, ``rules_of`` lists the rules with their sources. The server needs the extra ``testing``, and is
loaded on first use.

``check_provider`` holds a provider against a folder of cases, as streamkit's own are held.
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
from streamkit.testing.script import Call, Disconnect, Reasoning, Reply, Request, Script, Stall, Status

if TYPE_CHECKING:
    from streamkit.testing.server import Server, serve

__all__ = [
    "Call",
    "ConformanceError",
    "Disconnect",
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
    if name not in ("Server", "serve"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("streamkit.testing.server"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
