"""Images and files that a target cannot carry, by a named policy.

``raise`` (the default) says so by ``UnsupportedContent``: a question without the picture that it is about makes no
sense. ``text`` puts a line in its place that names it, ``drop`` leaves it out; both say what they did. What a tool
returned never raises (``results.py`` says why): there ``raise`` is ``text``. Which images and
files a target carries is `Provider.carries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.providers.provider import Provider
from streamkit.providers.tool_result_media import Media, describe, label, result_parts

if TYPE_CHECKING:
    from streamkit.history import Block, Content, ToolResponseBlock
    from streamkit.history.tool_results import ResultPart

__all__ = ["MediaPolicy", "apply_media_policy"]

MediaPolicy: TypeAlias = Literal["raise", "text", "drop"]


def apply_media_policy(
    contents: Sequence[Content], provider: Provider, policy: MediaPolicy, changes: list[str]
) -> Sequence[Content]:
    """The contents as the target can carry them; the same objects where it can carry all.

    Raises:
        UsageError: there is no such policy.
    """
    from streamkit.history import Content, FileBlock, ImageBlock, TextBlock, ToolResponseBlock

    if policy not in ("raise", "text", "drop"):
        raise UsageError(f"unsupported is 'raise', 'text' or 'drop', not {policy!r}")
    if policy == "raise":
        return contents
    made = []
    for content in contents:
        blocks: list[Block] = []
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                blocks.append(_apply_to_result(block, provider, policy, changes))
            elif isinstance(block, (ImageBlock, FileBlock)) and not provider.carries(block, content.speaker):
                text = _replacement_text(block, f"[{label(block)}]", provider, policy, changes)
                blocks += [TextBlock(text=text)] if text is not None else []
            else:
                blocks.append(block)
        same = len(blocks) == len(content.blocks) and all(a is b for a, b in zip(blocks, content.blocks, strict=True))
        made.append(content if same else Content(speaker=content.speaker, blocks=blocks, metadata=content.metadata))
    return made


def _apply_to_result(
    block: ToolResponseBlock, provider: Provider, policy: MediaPolicy, changes: list[str]
) -> ToolResponseBlock:
    """A result without the parts that the target does not take."""
    from streamkit.history import TextBlock
    from streamkit.history.tool_results import to_stored_part

    kept: list[ResultPart] = []
    parts = result_parts(block) or []
    for part in parts:
        # What a target takes of a person it can show of a tool as well, in the result or beside it.
        if isinstance(part, TextBlock) or provider.carries(part):
            kept.append(part)
        elif (text := _replacement_text(part, describe(part), provider, policy, changes)) is not None:
            kept.append(TextBlock(text=text))
    if len(kept) == len(parts) and all(a is b for a, b in zip(kept, parts, strict=True)):
        return block
    result = [to_stored_part(part) for part in kept]
    if all(isinstance(part, TextBlock) for part in kept):
        return block.model_copy(update={"result": "\n".join(part["text"] for part in result)})
    return block.model_copy(update={"result": result})


def _replacement_text(
    block: Media, text: str, provider: Provider, policy: MediaPolicy, changes: list[str]
) -> str | None:
    """The text in the place of a block, or None where it is left out."""
    if policy == "text":
        changes.append(f"put a line of text in the place of an {label(block)}, which {provider.name} cannot carry")
        return text
    changes.append(f"left out an {label(block)}, which {provider.name} cannot carry")
    return None
