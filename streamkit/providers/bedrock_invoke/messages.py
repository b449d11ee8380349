"""History as messages in Anthropic's form, and the fields of a request's body that the conversation determines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.anthropic import messages as anthropic
from streamkit.providers.anthropic.messages import convert_media, create_renderer
from streamkit.providers.provider import RenderedMessages, ToolChoice, Traits
from streamkit.tools.definition import OfferedTool

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]

#: Replaces the header ``anthropic-version``; the only value that the service accepts.
_VERSION = "bedrock-2023-05-31"


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of a body that the conversation determines; the path has the model."""
    body = anthropic.build_request(rendered, traits, tools=tools, tool_choice=tool_choice, stream=False, output=output)
    return {"anthropic_version": _VERSION, **body}
