"""Checks of what a conversion gets: a provider's messages that are parsed, and history that is rendered.

Messages must have the form and the format that the caller named; objects of an SDK in them become dicts. History gets
JSON data only, and only media that some provider could read: a block is checked when it is created, but it can be
changed afterwards, or be created without checks (``model_construct``), and a request with such a value would fail in
the JSON encoder or at the provider. This module corrects it, for all targets at once. It depends on no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter, is_
from typing import Any

from pydantic import BaseModel

from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history.content import Block, Content, FileBlock, ImageBlock, ReasoningBlock, TextBlock
from streamkit.history.stored_data import are_plain_data, to_stored_data
from streamkit.values.json_data import copy_with
from streamkit.values.media import encode_binary, is_base64, normalize_data, parse_data_url
from streamkit.values.message_format import FOREIGN, OWN, RateMessage
from streamkit.values.request_changes import InWords, Lost, RequestChange

__all__ = [
    "check_format",
    "check_media_data",
    "check_messages",
    "prepare_contents",
]

_DICT = frozenset({dict})


def check_format(
    messages: Sequence[Mapping[str, Any]],
    name: str,
    rate: RateMessage,
    list_formats: Callable[[], Iterable[tuple[str, RateMessage]]],
) -> None:
    """Check that messages can be of the format that the caller named.

    They cannot if none of them has anything of this format, some have parts of another, and another fits better.

    Args:
        messages: the messages.
        name: the name of the format.
        rate: its function.
        list_formats: returns the names and functions of all formats.

    Raises:
        UsageError: they are of another format; the message names it.
    """
    foreign = 0
    for message in messages:
        rating = rate(message)
        if rating == OWN:
            return
        foreign += rating == FOREIGN
    if not foreign:
        return
    counts = {other: _count(messages, rate_other) for other, rate_other in list_formats()}
    best = min(counts.values(), key=lambda count: (count[0], -count[1]), default=(foreign, 0))
    if best[0] >= foreign:
        return  # of no known format: unknown messages are kept as opaque blocks
    fitting = [repr(other) for other, count in counts.items() if count == best]
    raise UsageError(
        f"the messages do not have the format of {name!r}; they look like messages of {' or '.join(fitting)}:"
        f" call parse_messages(messages, {fitting[0]})"
    )


def _count(messages: Sequence[Mapping[str, Any]], rate: RateMessage) -> tuple[int, int]:
    """Return how many messages are foreign, and how many are own."""
    ratings = [rate(message) for message in messages]
    return ratings.count(FOREIGN), ratings.count(OWN)


#: The types of most values in messages.
_JSON_TYPES = frozenset({dict, list, str, int, float, bool, type(None)})


def check_messages(messages: Any) -> list[dict[str, Any]]:
    """Return the messages as a list of dicts, the objects of an SDK inside of them as dicts.

    A message often has the list of objects of a response, as in ``{"role": "assistant", "content": response.content}``
    (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use).

    Raises:
        UsageError: they are anything else.
    """
    if type(messages) is not list and (not isinstance(messages, Sequence) or isinstance(messages, (str, bytes))):
        raise UsageError(f"messages must be a list of dicts, not {type(messages).__name__}")
    for index, message in enumerate(messages) if not _DICT.issuperset(map(type, messages)) else ():
        if not isinstance(message, dict):
            raise UsageError(
                f"messages[{index}] must be a dict, not {type(message).__name__}; convert an SDK object by model_dump()"
            )
    # Only a field of a message, or an item of a list that is one, may be an object of an SDK.
    values = list(chain.from_iterable(map(dict.values, messages)))
    kinds = set(map(type, values))
    if list in kinds:
        lists = compress(values, map(is_, map(type, values), repeat(list)))
        kinds.update(map(type, chain.from_iterable(lists)))
    return list(messages) if kinds <= _JSON_TYPES else [_without_objects(message) for message in messages]


def _without_objects(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with dicts for the pydantic objects that are its fields or in lists of it."""
    return {
        name: [_to_dict(item) for item in value] if isinstance(value, list) else _to_dict(value)
        for name, value in message.items()
    }


def _to_dict(item: Any) -> Any:
    """Return the fields that an object was made with; any other value, or one that cannot be converted, unchanged."""
    if not isinstance(item, BaseModel):
        return item
    try:
        return encode_binary(item.model_dump(by_alias=True, exclude_unset=True, warnings=False))
    except Exception:  # a serializer of the object's own class
        return item


_type_of = attrgetter("type")


def prepare_contents(
    contents: Sequence[Content], changes: list[RequestChange], *, has_plans: bool, is_json_data: bool = False
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
    blocks: list[Block] = []
    for content in contents:
        blocks += content.blocks
    if not is_json_data and not are_plain_data(chain.from_iterable(map(dict.values, map(vars, blocks)))):
        for number, content in enumerate(contents):
            stored: list[Block] = []
            for block in content.blocks:
                data = {name: (value, to_stored_data(value)) for name, value in block.__dict__.items()}
                updates = {name: new for name, (old, new) in data.items() if new is not old}
                stored.append(copy_with(block, **updates) if updates else block)
            if not all(map(is_, stored, content.blocks)):
                prepared[number] = copy_with(content, blocks=stored)
        if not all(map(is_, prepared, contents)):
            change = Lost("replaced values that JSON cannot represent, such as NaN or half of a surrogate pair")
            changes[:0] = [] if change in changes else [change]
    kinds = set(map(_type_of, blocks))
    for content in prepared if "image" in kinds or "file" in kinds else ():
        for block in content.blocks if content.speaker == "human" else ():
            if block.type in ("image", "file"):
                check_media_data(block)  # type: ignore[arg-type]  # an unknown block has neither type
    if "reasoning" not in kinds or has_plans or "plan" not in [block.__dict__.get("kind") for block in blocks]:
        return prepared
    return [_with_plans_as_text(content, changes) for content in prepared]


def _with_plans_as_text(content: Content, changes: list[RequestChange]) -> Content:
    if not any(block.type == "reasoning" for block in content.blocks):
        return content
    blocks: list[Block] = [
        TextBlock(text=block.text) if isinstance(block, ReasoningBlock) and block.kind == "plan" else block
        for block in content.blocks
    ]
    if all(map(is_, blocks, content.blocks)):
        return content
    change = InWords("a plan was written as text: the target has no field for it")
    if change not in changes:
        changes.append(change)
    return copy_with(content, blocks=blocks)


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
