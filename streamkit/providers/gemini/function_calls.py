"""Gemini's ``functionCall`` parts, and their arguments if these are streamed.

Wire: https://ai.google.dev/gemini-api/docs/function-calling
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

A call is usually complete in one part. Several calls often have one name and no ids. On Vertex the arguments may be
streamed: a first part with the name and ``willContinue``, parts with fragments, and at the end an empty
``functionCall``, which may be missing. Until then the argument text stays open, so that a truncated call is never taken
for a complete one.

Every fragment has a JSON path: ``{"jsonPath": "$.recipe.steps[0]", "stringValue": "Preheat", "willContinue": true}``.
As long as the paths come in the order of a JSON text (which is how a model writes them), each fragment becomes the next
part of that text: nothing is held back and nothing is built twice. A fragment whose place in the text is already closed
cannot be appended any more. The complete text is then built once, at the end. A fragment without a place (no path, a
path through a string, a gap in an array) makes the arguments unknown. The problem is reported and the text is never
closed, so that the call is incomplete.

This module must not depend on text, usage or the other parts of a candidate.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from streamkit.events import NormalizedToolChunk
from streamkit.json_text import join_surrogates, json_size
from streamkit.providers.decoding.decoding import BLOCK_SIZE, PART_SIZE, as_text, compact_json
from streamkit.providers.gemini.schema import SIGNATURE, FunctionCall, PartialArg, signature_of
from streamkit.providers.provider import ChoiceSink, Sink

__all__ = ["FunctionCallReader", "PartialArgsAssembler", "escape_json_text", "parse_json_path"]

Segments: TypeAlias = tuple[str | int, ...]

_SEGMENT = re.compile(
    r"""\.("(?:[^"\\]|\\.)*")(?=[.\[]|$)   # ."a b", which is not in RFC 9535
      | \.([^.\[]+)                         # .a
      | \[(0|[1-9][0-9]{0,8})\]             # [0]
      | \[("(?:[^"\\]|\\.)*")\]            # ["a b"]
      | \['((?:[^'\\]|\\.)*)'\]            # ['a b']
    """,
    re.VERBOSE | re.DOTALL,
)
#: Nearly all paths are of names and at most one index after each: ``.a.b[0].c``.
_PLAIN_PATH = re.compile(r"(?:\.[A-Za-z_]\w*(?:\[(?:0|[1-9][0-9]{0,8})\])?)+", re.ASCII)
_QUOTED_ESCAPE = re.compile(r'\\(.)|(")', re.DOTALL)
_WRONG_TYPE: Any = object()
_MANY_PARTS = 64  # of a string, which are joined
_MAX_DEPTH = 256  # the turn's limit of nesting, which refuses anything deeper


# ---------------------------------------------------------------- calls


class FunctionCallReader:
    """The calls of one candidate, as far as later parts refer to them.

    Attributes:
        last_key: the key of the last call or block that began.
    """

    __slots__ = ("_by_id", "_choice", "_open", "_sink", "last_key")

    def __init__(self, sink: Sink, choice: ChoiceSink) -> None:
        self._sink = sink
        self._choice = choice
        self.last_key: int = 0
        self._open: dict[int, _OpenCall] = {}  # by key, in the order in which they began
        self._by_id: dict[str, _OpenCall] = {}  # the open calls that have an id

    def new_key(self) -> int:
        """Return a key that no other call or block of the candidate has."""
        self.last_key += 1
        return self.last_key

    def read(self, call: FunctionCall, signature: Any, position: int) -> None:
        """Read one part with a ``functionCall``.

        Args:
            call: the ``functionCall`` of the part.
            signature: the ``thoughtSignature`` of the part.
            position: the place of the part in its chunk.
        """
        if self._open and call.name is None and call.id is None and call.args is None and signature is None:
            # Most parts of streamed arguments: a fragment of the last open call.
            last = self._last_open()
            if call.partialArgs:
                delta = last.arguments.add(call.partialArgs)
                if delta:
                    self._choice.arguments(delta, last.key)
            if call.willContinue is not True:
                self._end(last)
            return
        raw_id, name = as_text(call.id), as_text(call.name)
        signature = signature_of(signature)
        open_call = self._by_id.get(raw_id) if raw_id is not None else None
        if open_call is None and name is None and self._open:
            open_call = self._last_open()
        if open_call is not None:
            self._continue_call(open_call, call, signature)
        elif name is not None or call.args is not None:
            self._start(call, raw_id, name, signature, position)
        elif call.partialArgs or raw_id or signature:
            self._sink.warn("orphan_delta", "a fragment of a call belongs to no open call")
        # Otherwise it is the end of a call that has ended already.

    def end_all(self) -> None:
        """End all open calls, because the candidate finished normally."""
        for open_call in list(self._open.values()):
            self._end(open_call)

    def _last_open(self) -> _OpenCall:
        return next(reversed(self._open.values()))

    def _start(
        self, call: FunctionCall, raw_id: str | None, name: str | None, signature: str | None, position: int
    ) -> None:
        if raw_id is None or len(self._open) > len(self._by_id):  # calls without ids arrive one after the other
            for open_call in list(self._open.values()):
                if raw_id is None or open_call.raw_id is None:
                    self._end(open_call)
        key = self.new_key()
        started: _OpenCall | None = None
        if call.willContinue is True or call.partialArgs:
            started = _OpenCall(key, raw_id, self._sink.keep, has_signature=signature is not None)
            started.snapshot = call.args or None
            self._sink.keep(json_size(started.snapshot))
            self._open[key] = started
            if raw_id is not None:
                self._by_id[raw_id] = started
            text = PartialArgsAssembler.OPENING + started.arguments.add(call.partialArgs or ())
        else:
            text = compact_json({} if call.args is None else call.args)
        metadata = {SIGNATURE: signature} if signature else None
        start = NormalizedToolChunk("start", raw_id, name, text, None, key, position, "function", None, metadata)
        self._choice.tool(start)
        if started is None:
            self._choice.end_block(key)
        elif call.willContinue is not True:
            self._end(started)

    def _continue_call(self, open_call: _OpenCall, call: FunctionCall, signature: str | None) -> None:
        if signature is not None:
            if open_call.has_signature:
                self._sink.warn("second_signature", "a call was signed twice; the first signature is used")
            else:
                open_call.has_signature = True
                self._choice.add_metadata({SIGNATURE: signature}, open_call.key)
        if call.partialArgs:
            delta = open_call.arguments.add(call.partialArgs)
            if delta:
                self._choice.arguments(delta, open_call.key)
        continues = call.willContinue is True
        if call.args is not None and (call.args or not continues):
            self._sink.keep(json_size(call.args) - json_size(open_call.snapshot))
            open_call.snapshot = call.args
        if not continues:
            self._end(open_call)

    def _end(self, open_call: _OpenCall) -> None:
        """End a call with streamed arguments."""
        del self._open[open_call.key]
        if open_call.raw_id is not None:
            del self._by_id[open_call.raw_id]
        rest, replacement = open_call.arguments.close()
        if open_call.snapshot is not None:
            replacement = compact_json(open_call.snapshot)
        elif open_call.arguments.problem is not None:
            # The block is not ended: arguments that are not known must not be taken for complete ones.
            self._sink.warn("arguments_unknown", open_call.arguments.problem)
            return
        if replacement is not None:
            self._choice.replace_arguments(open_call.key, replacement)
        else:
            self._choice.arguments(rest, open_call.key)
        self._choice.end_block(open_call.key)


class _OpenCall:
    """A call with streamed arguments that has not ended."""

    __slots__ = ("arguments", "has_signature", "key", "raw_id", "snapshot")

    def __init__(self, key: int, raw_id: str | None, keep: Callable[[int], bool], *, has_signature: bool) -> None:
        self.key = key
        self.raw_id = raw_id
        self.has_signature = has_signature
        self.arguments = PartialArgsAssembler(keep)
        self.snapshot: Any = None  # complete arguments that arrived between fragments


# ---------------------------------------------------------------- streamed arguments


class PartialArgsAssembler:
    """The arguments of one call, assembled from fragments.

    Args:
        keep: counts characters that are kept in addition to the text; returns False if they are too many.

    Attributes:
        problem: a sentence on why the arguments are unknown, or None.
    """

    __slots__ = ("_fragments", "_is_out_of_order", "_joined", "_keep", "_open", "_path", "_string_parts", "problem")

    OPENING = "{"  #: the beginning of the text before any fragment: a call truncated here is incomplete, not empty

    def __init__(self, keep: Callable[[int], bool]) -> None:
        self._keep = keep
        self.problem: str | None = None
        self._open: list[_OpenContainer] = [_OpenContainer("", is_array=False)]
        self._path: Any = None  # the path of the open string
        self._string_parts: list[str] | None = None  # the parts of the open string, None if no string is open
        self._joined = 0  # the first of them, each of which was joined from many
        self._is_out_of_order = False  # a fragment could not be appended, and nothing is written after it
        self._fragments: list[tuple[Segments, Any]] = []  # every value; strings as the list of their parts

    def add(self, fragments: Sequence[PartialArg]) -> str:
        """Return the next part of the JSON text, ``""`` if the fragments add nothing that can be written now."""
        if self._string_parts is not None and len(fragments) == 1:
            # Most fragments by far continue the open string.
            fragment = fragments[0]
            value = fragment.stringValue
            if value.__class__ is str and fragment.jsonPath == self._path:
                parts = self._string_parts
                parts.append(value)
                if fragment.willContinue is True:
                    if len(parts) - self._joined >= _MANY_PARTS:
                        self._join_parts(parts)
                    return escape_json_text(value)
                self._string_parts = None
                return f'{escape_json_text(value)}"'
        written: list[str] = []
        for fragment in fragments:
            self._add(fragment, written)
        return "".join(written)

    def _join_parts(self, parts: list[str]) -> None:
        """Join the latest parts of the open string: many short texts cost many times their size."""
        parts[self._joined :] = ["".join(parts[self._joined :])]
        self._joined = len(parts)

    def close(self) -> tuple[str, str | None]:
        """Return the rest of the text, or the complete text if fragments came out of order.

        Returns:
            The rest of the text, and None or the complete text that replaces all text so far. ``("", None)`` if
            ``problem`` is set: the arguments are incomplete.
        """
        if self.problem is not None:
            return "", None
        if self._is_out_of_order:
            return "", self._rebuild()
        closing: list[str] = []
        self._close_string(closing)
        closing.extend("]" if container.is_array else "}" for container in reversed(self._open))
        return "".join(closing), None

    def _add(self, fragment: PartialArg, written: list[str]) -> None:
        has_value, value = _read_value(fragment)
        if (
            self._string_parts is not None
            and fragment.jsonPath == self._path
            and (isinstance(value, str) or not has_value)
        ):
            if has_value:
                self._string_parts.append(value)
                if len(self._string_parts) - self._joined >= _MANY_PARTS:
                    self._join_parts(self._string_parts)
                written.append(escape_json_text(value))
            if fragment.willContinue is not True:
                self._close_string(written)
            return
        if not has_value:
            return  # it announces a value and adds none
        segments = parse_json_path(fragment.jsonPath)
        if segments is None:
            self._fail(f"a fragment of the arguments has no place: its path is {fragment.jsonPath!r}"[:300])
            return
        if value is _WRONG_TYPE:
            self._fail(f"the value at {fragment.jsonPath} has another type than its field"[:300])
            return
        is_text = isinstance(value, str)
        size = PART_SIZE * (2 + len(segments)) + len(fragment.jsonPath) + (len(value) if is_text else 0)
        if not self._keep(size):
            self._fragments.clear()
            self._fail("the fragments of the arguments are too many")
            return
        kept = [value] if is_text else value
        self._fragments.append((segments, kept))
        if self._is_out_of_order:
            return
        self._close_string(written)
        if not self._advance_to(segments, written):
            self._is_out_of_order = True
            return
        if is_text and fragment.willContinue is True:
            self._path, self._string_parts, self._joined = fragment.jsonPath, kept, 0
            written.append(f'"{escape_json_text(value)}')
        else:
            written.append(f'"{escape_json_text(value)}"' if is_text else compact_json(value))

    def _close_string(self, written: list[str]) -> None:
        if self._string_parts is not None:
            self._string_parts = None
            written.append('"')

    def _advance_to(self, segments: Segments, written: list[str]) -> bool:
        """Write the text between the last value and the next one. Return False if the next one is not ahead."""
        containers = self._open
        depth, last = 0, min(len(segments), len(containers)) - 1
        while depth < last and containers[depth + 1].segment == segments[depth]:
            depth += 1
        if not _can_append(containers[depth], segments[depth]):
            return False
        while len(containers) > depth + 1:
            written.append("]" if containers.pop().is_array else "}")
        while True:
            container, segment = containers[-1], segments[depth]
            if container.entries:
                written.append(",")
            container.entries += 1
            if isinstance(segment, str):
                container.names.add(segment)
                written.append(f'"{escape_json_text(segment)}":')
            depth += 1
            if depth == len(segments):
                return True
            is_array = isinstance(segments[depth], int)
            if is_array and segments[depth] != 0:
                return False
            containers.append(_OpenContainer(segment, is_array=is_array))
            written.append("[" if is_array else "{")

    def _fail(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem

    def _rebuild(self) -> str | None:
        """Return the text of the object that all fragments make, entries in the order of their first fragment."""
        if not self._keep(BLOCK_SIZE * sum(len(segments) for segments, _ in self._fragments)):
            self._fail("the fragments of the arguments are too many")
            return None
        root: dict[str | int, Any] = {}
        for segments, value in self._fragments:
            node = root
            for segment in segments[:-1]:
                node = node.setdefault(segment, {})
                if not isinstance(node, dict):
                    break
            else:
                existing = node.get(segments[-1])
                if isinstance(existing, list) and isinstance(value, list):
                    existing.extend(value)  # the next part of a string
                    continue
                if not isinstance(existing, dict):
                    node[segments[-1]] = list(value) if isinstance(value, list) else (value,)
                    continue
            self._fail(f"the fragments of the arguments contradict each other at {_format_path(segments)}")
            return None
        try:
            return compact_json(self._to_json_value(root, ()))
        except _MissingPathError as error:
            self._fail(f"the fragments of the arguments have no value at {_format_path(error.segments)}")
        return None

    def _to_json_value(self, node: Any, path: Segments) -> Any:
        if isinstance(node, list):
            return join_surrogates("".join(node))
        if isinstance(node, tuple):
            return node[0]
        if all(isinstance(segment, str) for segment in node):
            return {segment: self._to_json_value(value, (*path, segment)) for segment, value in node.items()}
        items = [node.get(index) for index in range(len(node))]
        for index, item in enumerate(items):
            if item is None:
                raise _MissingPathError((*path, index))
        return [self._to_json_value(item, (*path, index)) for index, item in enumerate(items)]


class _MissingPathError(Exception):
    """An array without one of its elements, or with members of an object in its place."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        super().__init__(segments)


def _can_append(container: _OpenContainer, segment: str | int) -> bool:
    """Return True if an entry of that name or index can be written next."""
    if container.is_array:
        return segment == container.entries
    return isinstance(segment, str) and segment not in container.names


def _read_value(fragment: PartialArg) -> tuple[bool, Any]:
    """Return whether a fragment has a value, and the value, ``_WRONG_TYPE`` if it does not fit its field."""
    if (value := fragment.stringValue) is not None and value is not UNSET:
        return True, value if isinstance(value, str) else _WRONG_TYPE
    if (value := fragment.numberValue) is not None:
        if value.__class__ is float and math.isfinite(value):
            # The SDK has 50.0 for what the wire writes as 50.
            return True, int(value) if value.is_integer() and abs(value) < 2**53 else value
        return True, value if value.__class__ is int else _WRONG_TYPE
    if (value := fragment.boolValue) is not None:
        return True, value if isinstance(value, bool) else _WRONG_TYPE
    if fragment.nullValue is None:
        return fragment.stringValue is UNSET, None
    return fragment.nullValue is not UNSET, None


def _format_path(segments: Segments) -> str:
    return "$" + "".join(f"[{segment}]" if isinstance(segment, int) else f".{segment}" for segment in segments)[:200]


class _OpenContainer:
    """A container without its closing bracket so far."""

    __slots__ = ("entries", "is_array", "names", "segment")

    def __init__(self, segment: str | int, *, is_array: bool) -> None:
        self.segment = segment
        self.is_array = is_array
        self.entries = 0
        self.names: set[str] = set()


def escape_json_text(text: str) -> str:
    """Return text escaped for JSON, without the quotes around it."""
    if text.isascii():
        return encode_basestring(text)[1:-1]
    try:
        return msgspec.json.encode(text)[1:-1].decode()
    except UnicodeEncodeError:  # half of a surrogate pair: the other half may be in the next fragment
        return json.dumps(text)[1:-1]


def parse_json_path(path: Any) -> Segments | None:
    """Return the segments of a JSON path to one value (RFC 9535: ``$.a['b c'][0]``).

    Returns:
        Names and indexes, or None if the path is not of this form or is the root.
    """
    if not isinstance(path, str):
        return None
    rest = path[1:] if path.startswith("$") else f".{path}" if path and path[0] not in ".[" else path
    if len(rest) < _MAX_DEPTH and _PLAIN_PATH.fullmatch(rest):  # in a quarter of the time of the loop
        parts = rest[1:].replace("[", ".").replace("]", "").split(".")
        return tuple([int(part) if part.isdecimal() else part for part in parts]) if "[" in rest else tuple(parts)
    segments: list[str | int] = []
    at = 0
    while at < len(rest):
        match = _SEGMENT.match(rest, at)
        if match is None or len(segments) == _MAX_DEPTH:
            return None
        dotted, name, index, double, single = match.groups()
        if index is not None:
            segments.append(int(index))
        elif name is not None:
            segments.append(name)
        else:
            quoted = double or dotted
            if quoted is None:
                # Within single quotes " is written bare and ' is escaped; in JSON it is the opposite.
                inner = _QUOTED_ESCAPE.sub(lambda m: '\\"' if m[2] else "'" if m[1] == "'" else m[0], single or "")
                quoted = f'"{inner}"'
            try:
                segments.append(json.loads(quoted, strict=False))
            except ValueError:
                return None
        at = match.end()
    return tuple(segments) if segments and isinstance(segments[0], str) else None
