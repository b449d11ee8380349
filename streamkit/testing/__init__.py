"""For the tests of your own agent loop, and of your own provider.

``serve`` starts an HTTP server on loopback that implements every provider's wire. Its script is written once, without a
provider; the server sends the same turns to an OpenAI client, an Anthropic client or a Gemini client. It rejects what
the real provider would reject. ``validate_request`` applies the same rules to a body without a server, ``list_rules``
lists them with their sources; without ``complete=True`` both are about the conversation alone. The server needs the
extra ``testing``, and is loaded on first use.

``record`` writes a stream to a file, with its secrets removed, for a bug report or a case.

``check_provider`` checks a provider against a folder of cases, as the built-in ones are checked; ``check_run_store`` a
store of durable runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.testing.conformance import (
    ConformanceError,
    Report,
    cases_in,
    check_case,
    check_provider,
    every_cut,
)
from streamkit.testing.rules.rule import Rule, Violation
from streamkit.testing.rules.validation import list_rules, validate_request
from streamkit.testing.script import (
    Call,
    Disconnect,
    ErrorEvent,
    Expect,
    RawBytes,
    Reasoning,
    Recorded,
    Reply,
    Request,
    Script,
    Stall,
    Status,
)
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.testing.recording import Recording, record
    from streamkit.testing.run_stores import check_run_store
    from streamkit.testing.server import Server, serve

__all__ = [
    "Call",
    "ConformanceError",
    "Disconnect",
    "ErrorEvent",
    "Expect",
    "RawBytes",
    "Reasoning",
    "Recorded",
    "Recording",
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
    "check_run_store",
    "every_cut",
    "list_rules",
    "record",
    "serve",
    "validate_request",
]

__getattr__, __dir__ = lazy_names(  # the server needs an extra, the others need anyio
    __name__,
    {
        "recording": "Recording record",
        "run_stores": "check_run_store",
        "server": "Server serve",
    },
)
