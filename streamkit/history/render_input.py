"""The history that a renderer gets: JSON data only, and only media that some provider could read.

A block is checked when it is created, but it can be changed afterwards, or be created without checks
(``model_construct``). A request with such a value would fail in the JSON encoder or at the provider, so this module
corrects it, for all targets at once. It must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import TypeVar

from pydantic import BaseModel

from streamkit.errors import UnsupportedContent
from streamkit.history.content import Block, Content, FileBlock, ImageBlock, ReasoningBlock, TextBlock
from streamkit.history.stored_data import are_plain_data, to_stored_data
from streamkit.values.json_data import copy_with
from streamkit.values.media import is_base64, normalize_data, parse_data_url

__all__ = ["check_media_data", "prepare_contents"]

AnyModel = TypeVar("AnyModel", bound=BaseModel)


def prepare_contents(
    contents: Sequence[Content], changes: list[str], *, has_plans: bool, is_json_data: bool = False
) -> list[Content]:
    """Return contents with JSON data only; those that need no change are the same objects.

    Args:
        contents: the conversation.
        changes: receives a sentence if a value was replaced.
        has_plans: the target has a field for plans. Elsewhere they are text: a client of Cohere has the text before its
            calls in its ``tool_plan``, because Cohere refuses text beside calls.
        is_json_data: the values of all blocks are known to be JSON data.

    Raises:
        UnsupportedContent: a person's image or file has data that is no base64.
    """
    prepared = list(contents)
    blocks = [block for content in contents for block in content.blocks]
    if not is_json_data and not are_plain_data(chain.from_iterable(map(dict.values, map(vars, blocks)))):
        prepared = [_with_json_data(content) for content in contents]
        if not all(map(is_, prepared, contents)):
            changes.append("replaced values that JSON cannot represent, such as NaN or half of a surrogate pair")
    kinds = {block.type for block in blocks}
    for content in prepared if "image" in kinds or "file" in kinds else ():
        for block in content.blocks if content.speaker == "human" else ():
            if block.type in ("image", "file"):
                check_media_data(block)  # type: ignore[arg-type]  # an unknown block has neither type
    if "reasoning" not in kinds or has_plans or "plan" not in [block.__dict__.get("kind") for block in blocks]:
        return prepared
    return [_with_plans_as_text(content, changes) for content in prepared]


def _with_plans_as_text(content: Content, changes: list[str]) -> Content:
    if not any(block.type == "reasoning" for block in content.blocks):
        return content
    blocks: list[Block] = [
        TextBlock(text=block.text) if isinstance(block, ReasoningBlock) and block.kind == "plan" else block
        for block in content.blocks
    ]
    if all(map(is_, blocks, content.blocks)):
        return content
    sentence = "a plan was written as text: the target has no field for it"
    if sentence not in changes:
        changes.append(sentence)
    return copy_with(content, blocks=blocks)


def _with_json_data(content: Content) -> Content:
    blocks = [_block_with_json_data(block) for block in content.blocks]
    return content if all(map(is_, blocks, content.blocks)) else copy_with(content, blocks=blocks)


def _block_with_json_data(block: AnyModel) -> AnyModel:
    updates = {}
    for name, value in block.__dict__.items():
        data = to_stored_data(value)
        if data is not value:
            updates[name] = data
    return copy_with(block, **updates) if updates else block


def check_media_data(block: ImageBlock | FileBlock) -> None:
    """Check that the data of an image or file is base64. An address is the target's to check.

    Raises:
        UnsupportedContent: it is not, or it is empty.
    """
    if block.type == "image":
        url = parse_data_url(block.data)
        data, name = (None if url is None else url.data), "an image"
    else:
        data = normalize_data(block.data).data if block.data is not None else None
        name = f"the file {block.name!r}" if block.name else "a file"
    if data == "" and block.type == "file" and block.url:
        return
    if data is not None and not (data and is_base64(data)):
        what = "is empty" if not data else f"is not base64, it begins with {data[:20]!r}"
        raise UnsupportedContent(f"the data of {name} {what}: give the bytes encoded by base64.b64encode")
