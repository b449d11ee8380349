"""A structured output while it streams: the JSON value so far, its changes, a typed view, and the value at the end.

The JSON is found in the text: before and after an object or a list there may be prose and markdown fences, around any
other value only white space and one fence. The rules are in docs/rules.md, "Structured output".

This module must not depend on a provider, and it never awaits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, overload

from pydantic import TypeAdapter

from streamkit.calls import OUTPUT_TOOL
from streamkit.errors import InvalidOutput, UsageError
from streamkit.events import (
    ArgumentsRestated,
    Event,
    ResponseStarted,
    Text,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
    check_event,
)
from streamkit.json_text import JsonObjectScanner, join_half
from streamkit.json_text.changes import Change, JsonChanges
from streamkit.output.output_type import OutputType, Shape
from streamkit.output.partial_view import PartialView

__all__ = ["Growing"]
T = TypeVar("T")
_STARTS = {
    "object": "{",
    "array": "[",
    "string": '"',
    "number": "-0123456789",
    "integer": "-0123456789",
    "boolean": "tf",
    "null": "n",
}
_CONTAINERS = ("object", "array")
#: White space and the first line of a markdown fence, as far as it is there.
_LEAD = re.compile(r"\s*(?:`{1,2}\Z|```[^\n`]*(?:\Z|\n\s*))?")
_TAIL = re.compile(r"\s*(?:```\s*)?")
_LONGEST_LEAD: Final = 256  # characters
#: The beginning of the object that has an output which is no object as its one member (``OutputType.as_object``).
_WRAPPER = re.compile(rf'\{{\s*"{OUTPUT_TOOL}"\s*:\s*(?=\S)')
_WRAPPER_PARTS = ("{", f'"{OUTPUT_TOOL}"', ":", "")
_WINDOW: Final = 8192  # characters: what follows a value in them is copied, once for each value


class Growing(Generic[T]):
    """A structured output that grows.

    Args:
        output: a pydantic model or another type that pydantic can validate, a ``TypeAdapter`` (for a union), an
            ``OutputType``, or a JSON schema; None for any JSON.
        tool: the name of the tool whose arguments are the output, if the model calls it. By default the tool that
            ``render_request(output=...)`` declares where a provider has no other form.
        choice: the choice of the turn to read.

    Raises:
        UsageError: ``output`` is no such type.
    """

    @overload
    def __init__(
        self: Growing[T], output: type[T] | TypeAdapter[T] | OutputType[T], *, tool: str = ..., choice: int = ...
    ) -> None: ...
    @overload
    def __init__(
        self: Growing[Any], output: Mapping[str, Any] | None = ..., *, tool: str = ..., choice: int = ...
    ) -> None: ...
    def __init__(self, output: Any = None, *, tool: str = OUTPUT_TOOL, choice: int = 0) -> None:
        self._type: OutputType[T] = (
            output if isinstance(output, OutputType) else OutputType({} if output is None else output)
        )
        self._tool = tool
        self._choice = choice
        self._is_closed = False
        self._may_be_wrapped = output is not None and not self._type.is_object
        types = _root_types(self._type.schema, self._type.schema, 0)
        self._kinds = [kind for kind in _STARTS if kind in types] if len(types) < len(_STARTS) else ["value"]
        containers = "".join(_STARTS[kind] for kind in _CONTAINERS if kind in types)
        self._containers = containers
        begins = {*containers, *("{" if self._may_be_wrapped else "")}
        self._container = re.compile(f"[{re.escape(''.join(begins))}]") if begins else None
        self._scalars = "".join(_STARTS[kind] for kind in types if kind not in _CONTAINERS)
        self._reset()

    def _reset(self) -> None:
        """Begin again, for a new response or another source of the text."""
        self._call = ""  # the id of the call whose arguments are the output
        self._reader = JsonChanges()
        self._parts: list[str] = []  # the text of the value that is being read, or that was read last
        self._complete: list[str] = []  # the texts of the complete values before it
        self._is_reading = False
        self._skipped: JsonObjectScanner | None = None  # finds the end of what looked like JSON and is not
        self._broken = ""  # the last text that looked like JSON and is not
        self._lead: str | None = "" if self._scalars else None  # the text so far, while a scalar may still begin
        self._tail: list[str] | None = None  # the text behind a scalar
        self._half = ""  # the first half of a surrogate pair
        self._arguments: list[str] = []  # the deltas of the call
        self._opening: str | None = None  # what may be the beginning of a wrapper
        self._is_wrapped = False  # the value that is being read is in one
        self._view: PartialView | None = None

    def feed(self, text: str) -> list[Change]:
        """Read the next delta of the text, or of a call's arguments; return the changes that it caused.

        Raises:
            UsageError: the output is closed.
        """
        if self._is_closed:
            raise UsageError("this output is closed; use a new Growing for another response")
        if text and (self._half or not text.isascii()):
            text, self._half = join_half(self._half, text)
        if not text:
            return []
        changes: list[Change] = []
        at = self._read(text, 0, changes) if self._is_reading else 0  # most deltas are a part of the value
        for start in range(at, len(text), _WINDOW):
            self._feed(text[start : start + _WINDOW], changes)
        if self._view is not None:
            self._view.apply(changes)
        return changes

    def _feed(self, text: str, changes: list[Change]) -> None:
        if self._lead:  # which may have been none: then a value begins in it
            text, self._lead = self._lead + text, ""
        at, end = 0, len(text)
        while at < end:
            if self._is_reading:
                at = self._read(text, at, changes)
            elif self._skipped is not None:
                at = self._skip(self._skipped, text, at)
            elif self._opening is not None:
                at = self._open(self._opening, text, at, changes)
            else:
                at = self._search(text, at)

    def handle(self, event: Event) -> list[Change]:
        """Read an event of a turn or of a run; return the changes to the output.

        The text of the response is read, or, once the model calls the tool, the arguments of that call. A new response
        (the next round of a run) begins again. All other events are ignored.

        Raises:
            UsageError: it is no event.
        """
        if event.__class__ is Text:
            return self.feed(event.text) if not self._call and event.choice == self._choice else []
        if event.__class__ is ToolCallDelta:
            if event.call.id != self._call:
                return []
            self._arguments.append(event.arguments_delta)
            return self.feed(event.arguments_delta)
        if isinstance(event, ResponseStarted):
            self._reset()
        elif isinstance(event, ToolCallStart):
            if event.call.name == self._tool and event.choice == self._choice:
                self._reset()
                self._call = event.call.id
        elif isinstance(event, ArgumentsRestated) and event.call.id == self._call:
            return self._restate(event.arguments_text)
        elif isinstance(event, ToolCallReady) and event.call.id == self._call:
            if event.call.arguments_text.strip() != "".join(self._arguments).strip():
                return self._restate(event.call.arguments_text)
        else:
            check_event(event)
        return []

    @property
    def is_complete(self) -> bool:
        """True if the value's last character was read: its object, list, string or keyword is closed."""
        return self._reader.is_complete

    @property
    def value(self) -> Any:
        """The plain data so far, the same object at each use; None before it begins. Copy it to keep or change it."""
        reader = self._reader
        if self._view is not None:
            self._view.show(reader)
        elif reader.is_in_string:
            _ = reader.open_string  # which adds the last deltas to the value
        return reader.root[0] if reader.root else None

    @property
    def partial(self) -> T | None:
        """The value so far as an instance of the type; None before it begins. The same object at each use.

        A field of a model that is not there yet is None, also where the type has a default; ``model_fields_set`` has
        those that are there. A value of a type without prefixes (a date, an enum, a union of models) is shown when it
        is complete. The validators of the model have not run.
        """
        if self._view is None:
            self._view = PartialView(Shape(self._type.annotation), self._reader)
        value: T | None = self._view.show(self._reader)
        return value

    def close(self) -> T:
        """Declare that no text follows; validate the output and return it.

        If the text contains several values, the last that fits is the output.

        Raises:
            InvalidOutput: the output is missing, not complete, not JSON, or it does not fit; the message says why, for
                the model.
        """
        if not self._is_closed and self._is_reading and not self._reader.root and not self._is_wrapped:
            self._read("\n", 0, [])  # a number ends where the text ends
        self._is_closed = True
        text = "".join(self._parts)
        texts = self._complete.copy()
        if self._reader.is_complete and _TAIL.fullmatch("".join(self._tail or [])):
            texts.append(text)
        elif self._is_reading or self._opening:
            raise InvalidOutput("the output is not complete: its JSON ends before its last bracket or quote", text)
        elif self._skipped is not None:
            self._broken = text
        failure: InvalidOutput | None = None
        for text in reversed(texts):
            try:
                return self._type.validate_json(text)
            except InvalidOutput as error:
                failure = failure or error
        if failure is None and self._broken:
            failure = InvalidOutput(f"the output is not valid JSON: {_json_error(self._broken)}", self._broken)
        kinds = " or ".join(self._kinds)
        raise failure or InvalidOutput(f"the output has no JSON {kinds}; reply with one that fits the schema, alone")

    # ---------------------------------------------------------------- the text around the value

    def _search(self, text: str, at: int) -> int:
        """Find the beginning of a value; return the offset to go on at."""
        if self._lead is not None:
            stop = _LEAD.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            is_short = stop - at < _LONGEST_LEAD
            if stop == len(text) and is_short:
                self._lead = text[at:]
                return stop
            self._lead = None
            at = stop if is_short else at  # a longer one is text, whichever delta brought its end
            if text[at : at + 1] in self._scalars and at < len(text):
                self._begin()
                return at
        if self._tail is not None:
            self._tail.append(text[at:])
        match = self._container.search(text, at) if self._container is not None else None
        if match is None:
            return len(text)
        if self._may_be_wrapped and match[0] == "{":
            self._opening = ""
        else:
            self._begin()
        return match.start()

    def _open(self, opening: str, text: str, at: int, changes: list[Change]) -> int:
        """Read what may be the beginning of a wrapper; return the offset to go on at."""
        whole = opening + text[at : at + _LONGEST_LEAD]
        self._opening = None
        if (match := _WRAPPER.match(whole)) is not None:
            at += match.end() - len(opening)
            if text[at] in self._containers or text[at] in self._scalars:
                self._begin()
                self._is_wrapped = True
            return at
        rest = whole
        for part in _WRAPPER_PARTS:
            rest = rest.lstrip()
            if not rest.startswith(part):
                break
            rest = rest[len(part) :]
        if (not rest or part.startswith(rest)) and len(whole) < _LONGEST_LEAD:
            self._opening = whole
            return at + _LONGEST_LEAD
        if "{" not in self._containers:
            return at if opening else at + 1
        self._begin()
        if opening:
            self._read(opening, 0, changes)
        return at

    def _begin(self) -> None:
        if self._parts and self._tail is None:
            self._complete.append("".join(self._parts))
        self._reader, self._parts, self._tail = JsonChanges(), [], None
        self._is_reading, self._is_wrapped = True, False

    def _read(self, text: str, at: int, changes: list[Change]) -> int:
        """Read the value; return the offset to go on at."""
        reader, delta = self._reader, text[at:] if at else text
        reader.changes = changes
        reader.feed(delta)
        if reader.ended_at < 0 and not reader.is_invalid:
            self._parts.append(delta)
            return len(text)
        self._is_reading = False
        if not reader.is_invalid:
            self._parts.append(delta[: reader.ended_at])
            if reader.root[0].__class__ is not dict and reader.root[0].__class__ is not list and not self._is_wrapped:
                self._tail = []
            return at + reader.ended_at
        start = "".join(self._parts)
        if (start or delta)[0] not in "{[":
            self._parts = []
            self._feed(start, changes)  # it may contain an object or a list, whichever delta brought it
            return at
        self._skipped = JsonObjectScanner()
        self._skipped.feed(start)
        return self._skip(self._skipped, text, at)

    def _skip(self, scanner: JsonObjectScanner, text: str, at: int) -> int:
        """Skip invalid JSON up to its closing bracket, with the objects in it; return the offset behind it."""
        length = scanner.feed(text[at:])
        self._parts.append(text[at : at + length] if scanner.is_closed else text[at:])
        if not scanner.is_closed:
            return len(text)
        self._skipped, self._broken, self._parts = None, "".join(self._parts), []
        return at + length

    def _restate(self, text: str) -> list[Change]:
        call = self._call
        self._reset()
        self._call = call
        self._arguments = [text]
        return self.feed(text)


def _json_error(text: str) -> str:
    from pydantic_core import from_json

    try:
        from_json(text)
    except ValueError as error:
        return str(error)
    return "its brackets are not closed"


def _root_types(schema: Any, root: Mapping[str, Any], depth: int) -> set[str]:
    """Return the types that a value of a schema can have; all of them if the schema does not decide that."""
    if not isinstance(schema, Mapping) or depth > 8:
        return set(_STARTS)
    if isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#/$defs/"):
        definition = (root.get("$defs") or {}).get(schema["$ref"].removeprefix("#/$defs/"))
        return _root_types(definition, root, depth + 1)
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds} & set(_STARTS)
    if isinstance(kinds, list):
        return {kind for kind in kinds if kind in _STARTS}
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            return {kind for option in options for kind in _root_types(option, root, depth + 1)}
    return set(_STARTS)
