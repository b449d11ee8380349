"""Images and files in messages that go to a target which accepts them elsewhere, or not at all.

Of users' images and files the caller's policy decides (`apply_media_policy`). ``raise`` (the default) raises
``UnsupportedContent``: a question about an image has no meaning without the image. ``text`` replaces the image or file
by a line that names it, ``drop`` leaves it out; both report the change. `Provider.carries` reports which images and
files a target carries.

Rendering never raises ``UnsupportedContent`` for a tool's result: the tool has run, and an exception would lose the
conversation. There ``raise`` is the same as ``text``: text replaces an image or file that the target cannot carry (the
contents of a text file, else a line that names it), and ``changes`` reports the replacement.

If a target's results contain only text, the images and files are sent elsewhere, and the text shows their positions:
without marks if all texts precede the media, as in most results; else a line such as ``[image 1]`` at each position.

This module must not depend on a provider: a provider's package passes the function that converts its media.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import is_
from typing import Any, Literal, TypeAlias

from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history.content import (
    BLOCKS_WITHOUT_MEDIA,
    OWN_PART,
    WORDS,
    Block,
    Content,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolResponseBlock,
)
from streamkit.history.input_checks import check_media_data
from streamkit.history.tool_results import ResultPart, decode_text_file, result_parts, to_stored_part
from streamkit.providers.provider import Provider
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import (
    Described,
    InWords,
    LeftOut,
    Lost,
    RequestChange,
    Translated,
    without_fields,
)

__all__ = [
    "Media",
    "MediaPolicy",
    "apply_media_policy",
    "caption",
    "convert_or_describe",
    "convert_parts",
    "describe",
    "followup_user_blocks",
    "join_text_and_media",
    "label",
    "lost_of_failure",
    "media_parts",
    "report_name",
    "report_own_fields",
    "result_text",
    "split_text_and_media",
]

Media: TypeAlias = ImageBlock | FileBlock


def media_parts(block: ToolResponseBlock) -> list[ResultPart] | None:
    """Return the parts of a result with images or files; None if it is text, data or an error."""
    if block.error is not None or block.status not in (None, "completed") or not isinstance(block.result, list):
        return None
    return result_parts(block.result)


def result_text(block: ToolResponseBlock) -> str:
    """Return the result of a call as text, for wires whose results are text."""
    if block.result is None and not block.error and block.status not in (None, "completed"):
        return f"The call did not complete: {block.status}."
    return block.error or text_or_json(block.result)


def lost_of_failure(block: ToolResponseBlock, *, has_flag: bool) -> RequestChange | None:
    """Return the change for what the message of a failed result does not contain; None if it contains all.

    With ``has_flag`` it states, apart from its text, that the call failed. The text of an error says what happened.
    """
    if block.result in (None, "", block.error):
        return None
    if block.error:
        parts = result_parts(block.result, texts_alone=True) or []
        if block.error == "\n".join(part.text if part.type == "text" else "\0" for part in parts):
            return None
        return Lost("the result of a failed call was left out: only its error was sent")
    if block.status in (None, "completed") or (has_flag and block.status == "error"):
        return None
    return Lost(
        "the status of a result was left out: the target has no field for it, and there is no error that says it"
    )


def report_name(block: Media, part: Any, changes: list[RequestChange]) -> None:
    """Report a file's name if the part does not have it, with or without the extension."""
    name = block.name if isinstance(block, FileBlock) else None
    if not name:
        return
    values = list(part.values()) if isinstance(part, dict) else []
    values += [inner for value in values if isinstance(value, dict) for inner in value.values()]
    change = LeftOut(
        "the name of a file was not sent with it: the target has no field for it, or refuses its characters"
    )
    if name not in values and (name.rpartition(".")[0] or name) not in values and change not in changes:
        changes.append(change)


#: What the metadata of an image or file has that is no field of one wire, or has a place of its own.
_NEUTRAL_METADATA = frozenset(
    {"cache", "context", "detail", "raw", WORDS, OWN_PART, "provider", "endpoint", "model", "requested_model"}
)


def report_own_fields(block: Block, changes: list[RequestChange]) -> None:
    """Report the fields of an image or file of another provider that only its own wire has."""
    for name in sorted(block.metadata.keys() - _NEUTRAL_METADATA) if block.type in ("image", "file") else ():
        origin = block.metadata.get("provider", "its provider")
        change = without_fields(f"the field {name!r} of an image or file was left out: only {origin} has it", [name])
        if change not in changes:
            changes.append(change)


def convert_or_describe(
    part: Media, convert: Callable[[Any], Any], changes: list[RequestChange], target_name: str
) -> dict[str, Any] | str:
    """Return an image or file of a tool in the target's form; text that replaces it if ``convert`` cannot carry it.

    Then ``changes`` receives a sentence with the target's name.
    """
    try:
        check_media_data(part)
        converted: dict[str, Any] = convert(part)
    except UnsupportedContent:
        where = f"an {label(part)} in a tool's result"
        change = Described(f"put text in the place of {where}, which {target_name} cannot carry")
        if change not in changes:
            changes.append(change)
        return describe(part)
    report_name(part, converted, changes)
    return converted


def convert_parts(
    parts: Sequence[ResultPart], convert: Callable[[Any], Any], changes: list[RequestChange], target_name: str
) -> list[ResultPart]:
    """Return the parts, with text instead of those that ``convert`` rejects; arguments as of `convert_or_describe`."""
    supported: list[ResultPart] = []
    if not parts:
        return supported
    for part in parts:
        text = "" if isinstance(part, TextBlock) else convert_or_describe(part, convert, changes, target_name)
        supported.append(TextBlock(text=text) if isinstance(text, str) and not isinstance(part, TextBlock) else part)
    return supported


def caption(media: Sequence[ResultPart], name: str | None) -> list[Block]:
    """Return the images and files of one result after a line that names its tool, for a user message."""
    if not media:
        return []
    text = f"From the result of {name}:" if name else "From the tool's result:"
    return [TextBlock(text=text), *media]


def followup_user_blocks(
    results: Sequence[Sequence[Block]], unassigned: Sequence[ResultPart], changes: list[RequestChange]
) -> list[Block]:
    """Return the blocks of the user message after a round's results that contain only text; empty without media.

    Args:
        results: the blocks of each result from `caption`, in call order.
        unassigned: images and files next to the results that belong to no single result.
        changes: receives a sentence if there are any.
    """
    blocks = [block for result in results for block in result] + caption(unassigned, None)
    if number := sum(block.type != "text" for block in blocks):
        changes.append(Translated(f"put {number} image or file of a tool's result into a user message"))
    return blocks


def split_text_and_media(parts: Sequence[ResultPart]) -> tuple[str, list[Media]]:
    """Split a result into its text and its images and files, in order, for a target that sends them separately."""
    lines: list[str] = []
    media: list[Media] = []
    texts_first = True
    for part in parts:
        if part.type == "text":
            texts_first = texts_first and not media
            lines.append(part.text)
        else:
            media.append(part)
    if texts_first and "".join(lines).strip():
        return "\n".join(lines), media
    numbers = count(1)
    return "\n".join(part.text if part.type == "text" else _placeholder(next(numbers), part) for part in parts), media


def join_text_and_media(text: str, media: Sequence[Media]) -> list[ResultPart]:
    """Return the parts of a result in order, the inverse of `split_text_and_media`; text without marks comes first."""
    parts: list[ResultPart] = []
    lines: list[str] = []
    remaining = list(media)
    for line in text.split("\n"):
        if remaining and line == _placeholder(len(media) - len(remaining) + 1, remaining[0]):
            if lines:
                parts.append(TextBlock(text="\n".join(lines)))
            parts.append(remaining.pop(0))
            lines = []
        else:
            lines.append(line)
    if remaining:
        return [*([TextBlock(text=text)] if text else []), *media]
    return [*parts, TextBlock(text="\n".join(lines))] if lines else parts


def _placeholder(number: int, part: Media) -> str:
    name = f": {part.name}" if part.type == "file" and part.name else ""
    return f"[{part.type} {number}{name}]"


def describe(part: Media) -> str:
    """Return text that replaces an image or file: the contents of a text file, else a line with its name."""
    text = decode_text_file(part) if part.type == "file" else None
    if text is None:
        return f"[{label(part)}]"
    return f"{part.name}:\n{text}" if part.type == "file" and part.name else text


def label(block: Media) -> str:
    """Return the name of an image or file, such as ``attached file report.pdf (application/pdf)``."""
    if block.type == "image":
        data = block.data
        return f"image {data}" if data.startswith(("http://", "https://")) else "image that was attached here"
    name = block.name or block.url or "without a name"
    return f"attached file {name}" + (f" ({block.media_type})" if block.media_type else "")


MediaPolicy: TypeAlias = Literal["raise", "text", "drop"]


def apply_media_policy(
    contents: Sequence[Content], provider: Provider, policy: MediaPolicy, changes: list[RequestChange]
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


def _apply_to_content(
    content: Content, provider: Provider, changes: list[RequestChange], policy: MediaPolicy
) -> Content:
    """Return a content with its media as the policy demands."""
    blocks: list[Block] = []
    for block in content.blocks:
        if isinstance(block, ToolResponseBlock):
            blocks.append(_apply_to_result(block, provider, policy, changes))
        elif isinstance(block, (ImageBlock, FileBlock)) and not provider.carries(block, content.speaker):
            text = _replacement_text(block, describe(block), provider, policy, changes)
            report_own_fields(block, changes)
            if text is not None and isinstance(words := block.metadata.get(WORDS), str):
                text = f"{words}\n{text}"
            blocks += [TextBlock(text=text)] if text is not None else []
        else:
            blocks.append(block)
    if len(blocks) == len(content.blocks) and all(map(is_, blocks, content.blocks)):
        return content
    return Content(speaker=content.speaker, blocks=blocks, metadata=content.metadata)


def _without_unsupported_files(content: Content, provider: Provider, changes: list[RequestChange]) -> Content:
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
    block: ToolResponseBlock, provider: Provider, policy: MediaPolicy, changes: list[RequestChange]
) -> ToolResponseBlock:
    """Return a result without the parts that the target cannot carry."""
    kept: list[ResultPart] = []
    parts = media_parts(block) or []
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
    block: Media, text: str, provider: Provider, policy: MediaPolicy, changes: list[RequestChange]
) -> str | None:
    """Return the text that replaces a block, or None if it is left out; report either."""
    if policy == "text" and isinstance(block, FileBlock) and decode_text_file(block) is not None:
        changes.append(InWords(f"a text file became text: {provider.name} takes no such file"))
        return text
    if policy == "text":
        sentence = f"put a line of text in the place of an {label(block)}, which {provider.name} cannot carry"
        changes.append(Described(sentence))
        return text
    changes.append(Lost(f"left out an {label(block)}, which {provider.name} cannot carry"))
    return None
