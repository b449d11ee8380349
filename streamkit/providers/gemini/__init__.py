"""Google's Gemini, on generativelanguage.googleapis.com and on Vertex: https://ai.google.dev/api/generate-content.

``wire`` its vocabulary, ``parse`` what a stream says (``calls``: its calls; ``partial_args``: streamed arguments),
``render`` history as its contents (``media``: images and files), ``emit`` an answer as its stream. The latter two need
pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.gemini.parser import GeminiParser
from streamkit.providers.gemini.schema import FAMILY
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "Gemini", "GeminiParser"]

# What no other wire's chunks begin with, in either framing, or as the one body of a request without streaming.
_CHUNK = re.compile(
    rb"""(?:\A|\n|\r)(?:data:)?\s*\[?\s*\{\s*"(?:candidates"\s*:\s*\[|(?:usageMetadata|promptFeedback)"\s*:\s*\{)"""
)


class Gemini:
    """A provider that speaks Gemini's streamGenerateContent.

    Args:
        name: its name; the family's own signatures and parts are good for it, and its own.
    """

    framing: Framing = "sse"
    reuses_slots = False
    whole_names = True
    whole_calls = True
    batched_results = True

    def __init__(self, name: str = "gemini") -> None:
        self.name = name
        self.family = FAMILY | {name}

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> GeminiParser:
        """See ``Provider.parser``."""
        return GeminiParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        return _CHUNK.search(head) is not None

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``. Ids are optional here: a call has one only where this wire gave it one."""
        from streamkit.providers.gemini.messages import render

        return render(contents, family=self.family)

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """See ``Provider.render_request``. Streaming is asked for by the address, not in the body."""
        from streamkit.providers.gemini.messages import render_request

        return render_request(contents, family=self.family, tools=tools, tool_choice=tool_choice)

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """See ``ReadsThreads.read_thread``."""
        from streamkit.providers.gemini.importer import parse_messages

        return parse_messages(messages, self.name, system=system)

    def emit(
        self,
        content: Content,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
    ) -> Iterator[bytes]:
        """See ``Provider.emit``."""
        from streamkit.providers.gemini.encoder import emit

        return emit(content, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size)

    def emit_array(
        self,
        content: Content,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
    ) -> Iterator[bytes]:
        """As ``emit``, in the framing that the API has without ``alt=sse``: one JSON array."""
        from streamkit.providers.gemini.encoder import emit_array

        return emit_array(
            content, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        from streamkit.providers.gemini.encoder import error_body

        return error_body(status, message)


PROVIDERS = (Gemini(),)
