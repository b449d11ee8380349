"""Automatic cache marks: the ends of the parts of a request that the next request repeats.

``render_request(cache="auto")`` marks the last tool, the last system text and the last block of the conversation, as
Anthropic recommends for conversations that grow
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching#continuing-a-multi-turn-conversation). Targets
without marks cache by themselves and get none. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.history.content import CacheMark
from streamkit.values.json_data import copy_with

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.tools.definition import OfferedTool

__all__ = ["MOST_CACHE_MARKS", "CachePolicy", "auto_mark", "drop_first_marks", "mark_contents", "mark_tools"]

#: ``auto``, or the same with a lifetime: ``{"ttl": "1h"}``. None: only the marks of the blocks.
CachePolicy: TypeAlias = Literal["auto"] | CacheMark | None

#: Of Anthropic (the page above: "You can define up to 4 cache breakpoints"), Bedrock
#: (https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html), OpenRouter and DashScope
#: (https://www.alibabacloud.com/help/en/model-studio/context-cache).
MOST_CACHE_MARKS = 4
_MARKED_BLOCKS = ("text", "image", "file", "tool_call", "tool_response")


def auto_mark(cache: CachePolicy) -> CacheMark | None:
    """Return the mark that a policy adds; None if it adds none.

    Raises:
        UsageError: ``cache`` is no policy.
    """
    if cache is None:
        return None
    ttl = cache.get("ttl") if isinstance(cache, Mapping) else None
    if cache != "auto" and not (isinstance(cache, Mapping) and set(cache) <= {"ttl"} and isinstance(ttl, str | None)):
        raise UsageError(f'cache must be "auto" or a CacheMark such as {{"ttl": "1h"}}, not {cache!r}')
    return {"ttl": ttl} if isinstance(ttl, str) else {}


def mark_contents(contents: Sequence[Content], mark: CacheMark) -> list[Content]:
    """Return a conversation with a mark on its last system text and on its last block; marks that are there stay."""
    marked = list(contents)
    last = len(marked) - 1
    systems = [number for number, content in enumerate(marked) if content.speaker == "system"]
    for number in {last, *systems[-1:]} - {-1}:
        blocks = list(marked[number].blocks)
        for position in range(len(blocks) - 1, -1, -1):
            block = blocks[position]
            if block.type in _MARKED_BLOCKS and (block.type != "text" or getattr(block, "text", "").strip()):
                if "cache" not in block.metadata:
                    blocks[position] = copy_with(block, metadata={**block.metadata, "cache": mark})
                    marked[number] = copy_with(marked[number], blocks=blocks)
                break
    return marked


def mark_tools(tools: Sequence[OfferedTool], mark: CacheMark) -> list[OfferedTool]:
    """Return tools with a mark on the last one of the client; a mark that is there stays."""
    from streamkit.tools.definition import ToolDefinition

    marked = list(tools)
    for position in range(len(marked) - 1, -1, -1):
        tool = marked[position]
        if isinstance(tool, ToolDefinition):
            marked[position] = copy_with(tool, metadata={"cache": mark, **tool.metadata})
            break
    return marked


def drop_first_marks(parts: Sequence[dict[str, Any]], remove: Callable[[dict[str, Any]], None]) -> bool:
    """Remove the first marks beyond the number that a request may have; return True if there were more.

    Args:
        parts: the parts with marks, in the order of the request.
        remove: removes the mark of a part.
    """
    surplus = parts[:-MOST_CACHE_MARKS]
    for part in surplus:
        remove(part)
    return bool(surplus)
