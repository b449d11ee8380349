"""The policies for images and files that a target cannot carry.

``raise`` (the default) raises ``UnsupportedContent``: a question about an image has no meaning without the image.
``text`` replaces the image or file by a line that names it, ``drop`` leaves it out; both report the change. An image or
file in a tool's result never raises, for the reason in `tool_result_media`: there ``raise`` is the same as ``text``.
`Provider.carries` reports which images and files a target carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.history.content import (
    BLOCKS_WITHOUT_MEDIA,
    Block,
    Content,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolResponseBlock,
)
from streamkit.history.tool_results import ResultPart, to_stored_part
from streamkit.model_copy import copy_with
from streamkit.providers.provider import Provider
from streamkit.providers.tool_result_media import Media, describe, label, result_parts

__all__ = ["MediaPolicy", "apply_media_policy"]

MediaPolicy: TypeAlias = Literal["raise", "text", "drop"]


def apply_media_policy(
    contents: Sequence[Content], provider: Provider, policy: MediaPolicy, changes: list[str]
) -> Sequence[Content]:
    """Return the contents without images and files that the target cannot carry; unchanged objects if it carries all.

    Raises:
        UsageError: ``policy`` is none of the three.
    """
    if policy not in ("raise", "text", "drop"):
        raise UsageError(f"unsupported must be 'raise', 'text' or 'drop', not {policy!r}")
    # Only a person's image is refused with `raise`: what a model made must not end the conversation that it is a part
    # of, and what a tool returned becomes text in its result.
    convert = _without_unsupported_files if policy == "raise" else partial(_apply_to_content, policy=policy)
    converted: list[Content] = []
    for content in contents:
        for block in content.blocks:
            if type(block) in BLOCKS_WITHOUT_MEDIA:
                continue
            if isinstance(block, ToolResponseBlock):
                shows_media = isinstance(block.result, list)
            else:
                shows_media = isinstance(block, (ImageBlock, FileBlock))
            if shows_media:
                converted.append(convert(content, provider, changes))
                break
        else:
            converted.append(content)
    return converted


def _apply_to_content(content: Content, provider: Provider, changes: list[str], policy: MediaPolicy) -> Content:
    """Return a content with its media as the policy demands."""
    blocks: list[Block] = []
    for block in content.blocks:
        if isinstance(block, ToolResponseBlock):
            blocks.append(_apply_to_result(block, provider, policy, changes))
        elif isinstance(block, (ImageBlock, FileBlock)) and not provider.carries(block, content.speaker):
            text = _replacement_text(block, f"[{label(block)}]", provider, policy, changes)
            blocks += [TextBlock(text=text)] if text is not None else []
        else:
            blocks.append(block)
    if len(blocks) == len(content.blocks) and all(map(is_, blocks, content.blocks)):
        return content
    return Content(speaker=content.speaker, blocks=blocks, metadata=content.metadata)


def _without_unsupported_files(content: Content, provider: Provider, changes: list[str]) -> Content:
    """Return a response of a model without the images and files that the target cannot carry; else it unchanged."""
    if content.speaker != "ai" or not any(isinstance(block, (ImageBlock, FileBlock)) for block in content.blocks):
        return content
    blocks: list[Block] = []
    for block in content.blocks:
        if isinstance(block, (ImageBlock, FileBlock)) and not provider.carries(block, content.speaker):
            _replacement_text(block, "", provider, "drop", changes)
        else:
            blocks.append(block)
    return content if len(blocks) == len(content.blocks) else copy_with(content, blocks=blocks)


def _apply_to_result(
    block: ToolResponseBlock, provider: Provider, policy: MediaPolicy, changes: list[str]
) -> ToolResponseBlock:
    """Return a result without the parts that the target cannot carry."""
    kept: list[ResultPart] = []
    parts = result_parts(block) or []
    for part in parts:
        # A target that carries an image or file of a user also carries that of a tool, in the result or next to it.
        if isinstance(part, TextBlock) or provider.carries(part):
            kept.append(part)
        elif (text := _replacement_text(part, describe(part), provider, policy, changes)) is not None:
            kept.append(TextBlock(text=text))
    if len(kept) == len(parts) and all(map(is_, kept, parts)):
        return block
    result = [to_stored_part(part) for part in kept]
    if all(isinstance(part, TextBlock) for part in kept):
        return copy_with(block, result="\n".join(part["text"] for part in result))
    return copy_with(block, result=result)


def _replacement_text(
    block: Media, text: str, provider: Provider, policy: MediaPolicy, changes: list[str]
) -> str | None:
    """Return the text that replaces a block, or None if it is left out; report either."""
    if policy == "text":
        changes.append(f"put a line of text in the place of an {label(block)}, which {provider.name} cannot carry")
        return text
    changes.append(f"left out an {label(block)}, which {provider.name} cannot carry")
    return None
