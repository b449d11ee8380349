"""Results that show images and files, for targets that take them in another place than in the result, or not at all.

What a tool returned never raises: the tool has run, and a conversation that ends there is lost. So what a target cannot
carry is named in its place by a line of text (a file of text by what it says), and ``changes`` says so. The policy
``unsupported`` (see ``unsupported.py``) is for what people gave; its ``drop`` holds for results as well.

Where a target's result is text alone, the images are shown elsewhere, and the text says where each belongs: nothing
where the texts come first and the images behind them, as most tools answer; else a line ``[image 1]`` in its place.
This file knows no vendor: a room says what it can carry by its own functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from streamkit.errors import UnsupportedContent

if TYPE_CHECKING:
    from streamkit.history import Block, FileBlock, ImageBlock, ToolResponseBlock
    from streamkit.history.tool_results import ResultPart

__all__ = [
    "Media",
    "caption",
    "convert_or_describe",
    "convert_parts",
    "describe",
    "followup_user_blocks",
    "join_text_and_media",
    "label",
    "result_parts",
    "split_text_and_media",
]

Media: TypeAlias = "ImageBlock | FileBlock"


def result_parts(block: ToolResponseBlock, *, texts_alone: bool = False) -> list[ResultPart] | None:
    """The parts that a result shows; None where it is text or data, or says what went wrong."""
    from streamkit.history.tool_results import result_parts

    if block.error is not None or block.status not in (None, "completed"):
        return None
    return result_parts(block.result, texts_alone=texts_alone)


def convert_or_describe(
    part: Media, convert: Callable[[Any], Any], changes: list[str], target_name: str
) -> dict[str, Any] | str:
    """What ``write`` makes of an image or file of a tool; where it refuses, the line of text in its place.

    Args:
        part: the image or file.
        write: the room's own; raises ``UnsupportedContent`` for what it cannot carry.
        changes: takes the sentence that says so.
        target: the name of it for that sentence.
    """
    try:
        made: dict[str, Any] = convert(part)
    except UnsupportedContent:
        sentence = f"put text in the place of an {label(part)} in a tool's result, which {target_name} cannot carry"
        if sentence not in changes:
            changes.append(sentence)
        return describe(part)
    return made


def convert_parts(
    parts: Sequence[ResultPart], convert: Callable[[Any], Any], changes: list[str], target_name: str
) -> list[ResultPart]:
    """The parts, with text in the place of what ``write`` refuses; arguments as of ``taken``."""
    from streamkit.history import TextBlock

    made: list[ResultPart] = []
    for part in parts:
        text = "" if isinstance(part, TextBlock) else convert_or_describe(part, convert, changes, target_name)
        made.append(TextBlock(text=text) if isinstance(text, str) and not isinstance(part, TextBlock) else part)
    return made


def caption(media: Sequence[ResultPart], name: str | None) -> list[Block]:
    """What a user's message says of the images and files of one result, where results are text alone."""
    from streamkit.history import TextBlock

    label = f"From the result of {name}:" if name else "From the tool's result:"
    return [TextBlock(text=label), *media] if media else []


def followup_user_blocks(
    results: Sequence[Sequence[Block]], unassigned: Sequence[ResultPart], changes: list[str]
) -> list[Block]:
    """What a user's message says behind a round's results, where those are text alone; empty where there is nothing.

    Args:
        results: of each result, in call order, what ``shown`` made of its images and files.
        beside: images and files that stood beside the results, of which nobody knows whose they are.
        changes: takes the sentence that says so.
    """
    from streamkit.history import TextBlock

    told = [block for blocks in results for block in blocks] + caption(unassigned, None)
    if count := sum(not isinstance(block, TextBlock) for block in told):
        changes.append(f"put {count} image or file of a tool's result into a user message")
    return told


def split_text_and_media(parts: Sequence[ResultPart]) -> tuple[str, list[Media]]:
    """The text of a result, and the images and files that are shown apart from it, in order."""
    lines: list[str] = []
    media: list[Media] = []
    leading = True
    for part in parts:
        if part.type == "text":
            leading = leading and not media
            lines.append(part.text)
        else:
            media.append(part)
    if leading and "".join(lines).strip():
        return "\n".join(lines), media
    count = iter(range(1, len(media) + 1))
    return "\n".join(part.text if part.type == "text" else _placeholder(next(count), part) for part in parts), media


def join_text_and_media(text: str, media: Sequence[Media]) -> list[ResultPart]:
    """The way back from ``written_apart``: the parts in their order; the text first where it has no marks."""
    from streamkit.history import TextBlock

    parts: list[ResultPart] = []
    said: list[str] = []
    waiting = list(media)
    for line in text.split("\n"):
        if waiting and line == _placeholder(len(media) - len(waiting) + 1, waiting[0]):
            if said:
                parts.append(TextBlock(text="\n".join(said)))
            parts.append(waiting.pop(0))
            said = []
        else:
            said.append(line)
    if waiting:
        return [*([TextBlock(text=text)] if text else []), *media]
    return [*parts, TextBlock(text="\n".join(said))] if said else parts


def _placeholder(number: int, part: Media) -> str:
    name = f": {part.name}" if part.type == "file" and part.name else ""
    return f"[{part.type} {number}{name}]"


def describe(part: Media) -> str:
    """An image or file as text: a file of text by what it says, all else by its name."""
    from streamkit.history.tool_results import decode_text_file

    text = decode_text_file(part) if part.type == "file" else None
    if text is None:
        return f"[{label(part)}]"
    return f"{part.name}:\n{text}" if part.type == "file" and part.name else text


def label(block: Media) -> str:
    """Such as ``image https://example.org/a.png`` and ``attached file report.pdf (application/pdf)``."""
    if block.type == "image":
        data = block.data
        return f"image {data}" if data.startswith(("http://", "https://")) else "image that was attached here"
    name = block.name or block.url or "without a name"
    return f"attached file {name}" + (f" ({block.media_type})" if block.media_type else "")
