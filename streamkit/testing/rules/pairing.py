"""Request rules about the pairs of calls and results, for the two forms that several wires share.

As blocks (`BlockRules`: Anthropic, Bedrock Converse), a call is a block of an assistant message, and its result a block
of the user message that follows. As messages (Chat Completions and wires like it), calls are in an assistant message,
and each result is a message of the role ``tool`` after it. This module must not depend on a provider: `BlockRules` is
created with the functions that find calls and results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from streamkit.testing.rules.rule import Finding, Json, as_text_or_none, is_object_text, objects, short_json

__all__ = [
    "BlockRules",
    "PairedBlocks",
    "arguments_are_object_text",
    "arguments_are_text",
    "calls_have_results",
    "calls_of",
    "first_message_is_user",
    "ids_present",
    "last_text_is_stripped",
    "results_have_calls",
]

#: Returns the index of each block of a kind in a message, and the object that contains its id.
FindBlocks: TypeAlias = Callable[[Json], list[tuple[int, Json]]]
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class PairedBlocks(NamedTuple):
    """The blocks that are calls, or those that are results."""

    name: str  #: of the kind, for messages
    role: str  #: of the messages that contain them
    id_field: str  #: the field of the object that contains the id of the call
    find: FindBlocks
    path: str = ""  #: the path of that object in the block, such as ``.toolUse``


class BlockRules:
    """The rules of the client's calls and their results for one wire; each method is a ``Check``.

    On a wire that joins messages, successive messages of one role count as one.
    """

    def __init__(self, calls: PairedBlocks, results: PairedBlocks, *, joins_messages: bool = False) -> None:
        self._calls = calls
        self._results = results
        self._joins_messages = joins_messages

    def ids_are_legal(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield ids that the API does not accept."""
        for kind in (self._calls, self._results):
            for block_path, item in _all_blocks(body, kind):
                value = item.get(kind.id_field)
                if not _LEGAL_ID.fullmatch(as_text_or_none(value) or ""):
                    path = f"{block_path}{kind.path}.{kind.id_field}"
                    yield path, f"is {short_json(value)}, not 1 to 64 of a-z, A-Z, 0-9, _ and -"

    def ids_are_unique(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield ids of calls that an earlier call has."""
        seen: set[str] = set()
        for block_path, item in _all_blocks(body, self._calls):
            call_id = as_text_or_none(item.get(self._calls.id_field))
            if call_id in seen:
                path = f"{block_path}{self._calls.path}.{self._calls.id_field}"
                yield (
                    path,
                    f"is {short_json(call_id)}, the id of an earlier call: {self._calls.name} ids must be unique",
                )
            if call_id is not None:
                seen.add(call_id)

    def inputs_are_objects(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield arguments that are not an object."""
        for block_path, item in _all_blocks(body, self._calls):
            if not isinstance(item.get("input"), dict):
                yield f"{block_path}{self._calls.path}.input", f"is {short_json(item.get('input'))}, not an object"

    def calls_have_results(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield calls without a result in the next message."""
        turns = self._turns(body)
        for turn, next_turn in zip(turns, [*turns[1:], []], strict=False):
            result_ids = {call_id for _, message in next_turn for call_id in _ids_in(message, self._results)}
            for index, message in turn:
                for number, item in self._calls.find(message):
                    call_id = as_text_or_none(item.get(self._calls.id_field))
                    if call_id and call_id not in result_ids:
                        path = f"messages.{index}.content.{number}"
                        yield path, f"{short_json(call_id)} has no {self._results.name} in the next message"

    def results_have_calls(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield results without a call in the previous message."""
        call_ids: set[str] = set()
        for turn in self._turns(body):
            for index, message in turn:
                for number, item in self._results.find(message):
                    call_id = as_text_or_none(item.get(self._results.id_field))
                    if call_id and call_id not in call_ids:
                        path = f"messages.{index}.content.{number}{self._results.path}.{self._results.id_field}"
                        sentence = f"is not the id of a {self._calls.name} in the previous message"
                        yield path, f"{short_json(call_id)} {sentence}"
            call_ids = {call_id for _, message in turn for call_id in _ids_in(message, self._calls)}

    def _turns(self, body: Json) -> list[list[tuple[int, Json]]]:
        """Return the messages, with their indexes, as lists of those that count as one."""
        turns: list[list[tuple[int, Json]]] = []
        for index, message in objects(body.get("messages")):
            if self._joins_messages and turns and turns[-1][0][1].get("role") == message.get("role"):
                turns[-1].append((index, message))
            else:
                turns.append([(index, message)])
        return turns

    def results_are_first(self, body: Json, _model: str) -> Iterator[Finding]:
        """Yield blocks before a result in its message."""
        for index, message in objects(body.get("messages")):
            results = [number for number, _ in self._results.find(message)]
            others = [number for number, _ in objects(message.get("content")) if number not in results]
            if results and others and others[0] < results[-1]:
                path = f"messages.{index}.content.{others[0]}"
                yield path, f"is before a {self._results.name}; a message must begin with its results"


def first_message_is_user(body: Json, _model: str) -> Iterator[Finding]:
    """Yield a first message that is the model's."""
    for index, message in objects(body.get("messages"))[:1]:
        if index == 0 and message.get("role") == "assistant":
            yield "messages.0.role", "the first message must be a user's"


def last_text_is_stripped(body: Json, _model: str) -> Iterator[Finding]:
    """Yield a last assistant message, text or a list of blocks, that ends in white space."""
    for index, message in objects(body.get("messages"))[-1:]:
        content = message.get("content")
        path, text = f"messages.{index}.content", as_text_or_none(content)
        for number, block in objects(content)[-1:]:
            path, text = f"{path}.{number}.text", as_text_or_none(block.get("text"))
        if message.get("role") == "assistant" and text and text.strip() and text != text.rstrip():
            yield path, "the last assistant text ends in white space"


def _all_blocks(body: Json, kind: PairedBlocks) -> Iterator[tuple[str, Json]]:
    """Yield the path of each block of a kind in a request, and the object that contains its id."""
    for index, message in objects(body.get("messages")):
        for number, item in kind.find(message):
            yield f"messages.{index}.content.{number}", item


def _ids_in(message: Json, kind: PairedBlocks) -> set[str]:
    if message.get("role") != kind.role:
        return set()
    return {
        call_id for _, item in kind.find(message) if (call_id := as_text_or_none(item.get(kind.id_field))) is not None
    }


def calls_of(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield every call of the conversation with its path."""
    for index, message in objects(body.get("messages")):
        for number, call in objects(message.get("tool_calls")):
            yield f"messages.{index}.tool_calls.{number}", call


def ids_present(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls and results without an id."""
    for path, call in calls_of(body):
        if not as_text_or_none(call.get("id")):
            yield f"{path}.id", f"is {short_json(call.get('id'))}, not the id of the call"
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool" and not as_text_or_none(message.get("tool_call_id")):
            path = f"messages.{index}.tool_call_id"
            yield path, f"is {short_json(message.get('tool_call_id'))}, not the id of a call"


def calls_have_results(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls without a tool message directly after theirs."""
    messages = objects(body.get("messages"))
    for position, (index, message) in enumerate(messages):
        calls = objects(message.get("tool_calls"))
        if not calls or message.get("role") != "assistant":
            continue
        result_ids: set[str | None] = set()
        for _, following in messages[position + 1 :]:
            if following.get("role") != "tool":
                break
            result_ids.add(as_text_or_none(following.get("tool_call_id")))
        for number, call in calls:
            call_id = as_text_or_none(call.get("id"))
            if call_id and call_id not in result_ids:
                path = f"messages.{index}.tool_calls.{number}"
                yield path, f"no tool message after it is the result of {short_json(call_id)}"


def results_have_calls(body: Json, _model: str) -> Iterator[Finding]:
    """Yield tool messages that are the result of no call of the assistant message before them."""
    call_ids: set[str | None] = set()
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool":
            call_id = as_text_or_none(message.get("tool_call_id"))
            if call_id and call_id not in call_ids:
                yield (
                    f"messages.{index}",
                    f"is the result of {short_json(call_id)}, which the message before did not call",
                )
        else:
            call_ids = {as_text_or_none(call.get("id")) for _, call in objects(message.get("tool_calls"))}


def arguments_are_object_text(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls whose arguments are not the JSON text of an object, and custom calls whose input is not text."""
    for path, arguments, is_custom in _arguments(body):
        if not (isinstance(arguments, str) if is_custom else is_object_text(arguments)):
            yield path, "is not text" if is_custom else f"is {short_json(arguments)}, not the JSON text of an object"


def arguments_are_text(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls whose arguments, and custom calls whose input, are not text; it may be any."""
    for path, arguments, _ in _arguments(body):
        if not isinstance(arguments, str):
            yield path, f"is {short_json(arguments)}, not text"


def _arguments(body: Json) -> Iterator[tuple[str, Any, bool]]:
    """Yield the path and the value of the arguments of each call, and whether it is a custom call."""
    for path, call in calls_of(body):
        is_custom = call.get("type") == "custom"
        kind, field = ("custom", "input") if is_custom else ("function", "arguments")
        called = call.get(kind)
        yield f"{path}.{kind}.{field}", called.get(field) if isinstance(called, dict) else None, is_custom
