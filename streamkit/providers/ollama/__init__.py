"""Ollama's native API: https://docs.ollama.com/api/chat. Its OpenAI-compatible endpoint is ``openai_compatible``.

``wire`` its vocabulary, ``parse`` what a stream says, ``render`` history as its messages, ``emit`` an answer as its
stream. The latter two need pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.decoding import read_json
from streamkit.providers.ollama.parser import OllamaParser
from streamkit.providers.ollama.schema import NAME
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "Ollama", "OllamaParser"]

# The server's own order of fields, for a line whose end is not there yet.
_LINE = re.compile(rb'\A\{\s*"model"\s*:\s*"[^"]*"\s*,\s*(?:"remote_\w+"\s*:\s*"[^"]*"\s*,\s*)*"created_at"\s*:')


class Ollama:
    """The provider ``ollama``. Its wire sends no response id: give each ``Turn`` a ``turn_key``."""

    name = NAME
    framing: Framing = "ndjson"
    reuses_slots = False
    whole_names = True
    whole_calls = True
    batched_results = False

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> OllamaParser:
        """See ``Provider.parser``."""
        return OllamaParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        if _LINE.match(head) is not None:
            return True
        try:
            line = read_json(head.partition(b"\n")[0])
        except (ValueError, RecursionError):
            return False
        if not isinstance(line, dict) or not isinstance(line.get("done"), bool):
            return False
        return isinstance(line.get("message"), dict) or isinstance(line.get("response"), str)

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``."""
        from streamkit.providers.ollama.messages import render

        return render(contents, ids=ids)

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """See ``Provider.render_request``. This API has no tool choice; what is done instead, ``render`` says."""
        from streamkit.providers.ollama.messages import render_request

        return render_request(contents, tools=tools, tool_choice=tool_choice, stream=stream, ids=ids)

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
        """See ``Provider.emit``. This wire does not name the response."""
        from streamkit.providers.ollama.encoder import emit

        return emit(content, model=model, finish=finish, usage=usage, delta_size=delta_size)

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        return {"error": message}


PROVIDERS = (Ollama(),)
