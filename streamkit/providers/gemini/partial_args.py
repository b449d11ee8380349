"""Arguments that are streamed value by value (Vertex), as one growing JSON text.

Wire      https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling
          ``{"jsonPath": "$.recipe.steps[0]", "stringValue": "Preheat", "willContinue": true}``

Every fragment names its place. As long as places come in the order of a JSON text (which is how a model writes them),
each fragment becomes the next piece of that text: nothing is held back and nothing is built twice. A fragment that goes
back to something already closed cannot be written any more; then the whole text is made once, at the end.

What cannot be placed at all (no path, a path through a string, a hole in an array) leaves the arguments unknown. That
is said, and the text is never closed, so that the call counts as cut and not as whole.

This file knows no stream, sink or call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from streamkit.providers.decoding import compact_json
from streamkit.providers.gemini.schema import PartialArg

__all__ = ["PartialArgsAssembler", "escape_json", "parse_json_path"]

Steps: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.("(?:[^"\\]|\\.)*")(?=[.\[]|$)   # ."a b", which RFC 9535 does not know
      | \.([^.\[]+)                         # .a
      | \[(0|[1-9][0-9]{0,8})\]             # [0]
      | \[("(?:[^"\\]|\\.)*")\]            # ["a b"]
      | \['((?:[^'\\]|\\.)*)'\]            # ['a b']
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED_ESCAPE = re.compile(r'\\(.)|(")', re.DOTALL)
_ODD: Any = object()
_MOST_UNWRITTEN = 8 * 1024 * 1024  # the turn's limit for a call's arguments, which only sees what is written
_DEEPEST = 256  # the turn's limit of nesting; what is deeper is refused there


def escape_json(text: str) -> str:
    """A piece of a string as it stands between the quotes of JSON."""
    if text.isascii():
        return encode_basestring(text)[1:-1]
    try:
        return msgspec.json.encode(text)[1:-1].decode()
    except UnicodeEncodeError:  # half of a surrogate pair: the other half may be in the next piece
        return json.dumps(text)[1:-1]


def parse_json_path(path: Any) -> Steps | None:
    """The steps of a JSON path to one place (RFC 9535: ``$.a['b c'][0]``); None where it is none, or the root."""
    if not isinstance(path, str):
        return None
    rest = path[1:] if path.startswith("$") else f".{path}" if path and path[0] not in ".[" else path
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None or len(steps) == _DEEPEST:
            return None
        dotted, name, index, double, single = step.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            quoted = double or dotted
            if quoted is None:
                # In single quotes a " stands bare and ' is escaped; in JSON it is the other way round.
                inner = _QUOTED_ESCAPE.sub(lambda m: '\\"' if m[2] else "'" if m[1] == "'" else m[0], single or "")
                quoted = f'"{inner}"'
            try:
                steps.append(json.loads(quoted, strict=False))
            except ValueError:
                return None
        at = step.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else None


class _OpenContainer:
    """A container whose closing bracket has not been written."""

    __slots__ = ("entries", "is_array", "names", "step")

    def __init__(self, step: str | int, *, is_array: bool) -> None:
        self.step = step
        self.is_array = is_array
        self.entries = 0
        self.names: set[str] = set()


class PartialArgsAssembler:
    """The arguments of one call, gathered from fragments.

    Attributes:
        problem: why the arguments can no longer be known, in a sentence; None while they can.
    """

    __slots__ = ("_behind", "_fragments", "_open", "_path", "_pieces", "_unwritten", "problem")

    OPENING = "{"  #: what the text begins with, before any fragment: a call cut here is cut, not empty

    def __init__(self) -> None:
        self.problem: str | None = None
        self._open: list[_OpenContainer] = [_OpenContainer("", is_array=False)]
        self._path: Any = None  # the path of the string that is open
        self._pieces: list[str] | None = None  # its pieces; None where no string is open
        self._behind = False  # a fragment went back: from there on nothing could be written
        self._unwritten = 0  # about the characters that are kept since then
        self._fragments: list[tuple[Steps, Any]] = []  # every value; strings as the list of their pieces

    def add(self, fragments: Sequence[PartialArg]) -> str:
        """The next piece of the JSON text; ``""`` where the fragments add nothing that can be written now."""
        if self._pieces is not None and len(fragments) == 1:
            # Most fragments by far: the string that is open goes on.
            fragment = fragments[0]
            value = fragment.stringValue
            if value.__class__ is str and fragment.jsonPath == self._path:
                self._pieces.append(value)
                if fragment.willContinue is True:
                    return escape_json(value)
                self._pieces = None
                return f'{escape_json(value)}"'
        written: list[str] = []
        for fragment in fragments:
            self._add(fragment, written)
        return "".join(written)

    def _add(self, fragment: PartialArg, written: list[str]) -> None:
        found, value = _value_of(fragment)
        if self._pieces is not None and fragment.jsonPath == self._path and (isinstance(value, str) or not found):
            if found:
                self._pieces.append(value)
                written.append(escape_json(value))
            if fragment.willContinue is not True:
                self._close_string(written)
            return
        if not found:
            return  # the announcement of a value: without one it says nothing
        steps = parse_json_path(fragment.jsonPath)
        if steps is None:
            self._lose(f"a fragment of the arguments has no place: its path is {fragment.jsonPath!r}"[:300])
            return
        if value is _ODD:
            self._lose(f"the value at {fragment.jsonPath} is of another type than its name says"[:300])
            return
        text = isinstance(value, str)
        kept = [value] if text else value
        self._fragments.append((steps, kept))
        if self._behind:
            self._unwritten += len(steps) + (len(value) if text else 8)
            if self._unwritten > _MOST_UNWRITTEN:
                self._fragments.clear()
                self._lose("the fragments of the arguments are out of order, and too many")
            return
        self._close_string(written)
        if not self._go_to(steps, written):
            self._behind = True
            return
        if text and fragment.willContinue is True:
            self._path, self._pieces = fragment.jsonPath, kept
            written.append(f'"{escape_json(value)}')
        else:
            written.append(f'"{escape_json(value)}"' if text else compact_json(value))

    def _close_string(self, written: list[str]) -> None:
        if self._pieces is not None:
            self._pieces = None
            written.append('"')

    def _go_to(self, steps: Steps, written: list[str]) -> bool:
        """Write what stands between the last value and the place of the next; False where that is not ahead."""
        opened = self._open
        depth = 0
        while depth < len(steps) - 1 and depth + 1 < len(opened) and opened[depth + 1].step == steps[depth]:
            depth += 1
        if not _fits(opened[depth], steps[depth]):
            return False
        written.extend("]" if container.is_array else "}" for container in reversed(opened[depth + 1 :]))
        del opened[depth + 1 :]
        while True:
            container, step = opened[-1], steps[depth]
            if container.entries:
                written.append(",")
            container.entries += 1
            if isinstance(step, str):
                container.names.add(step)
                written.append(f'"{escape_json(step)}":')
            depth += 1
            if depth == len(steps):
                return True
            is_array = isinstance(steps[depth], int)
            if is_array and steps[depth] != 0:
                return False
            opened.append(_OpenContainer(step, is_array=is_array))
            written.append("[" if is_array else "{")

    def finish(self) -> tuple[str, str | None]:
        """The arguments are over: the rest of the text, and the whole text where it could not be written in order.

        Where ``problem`` is set there is neither: the arguments are not whole.
        """
        if self.problem is not None:
            return "", None
        if self._behind:
            return "", self._whole()
        closing: list[str] = []
        self._close_string(closing)
        closing.extend("]" if container.is_array else "}" for container in reversed(self._open))
        return "".join(closing), None

    def _lose(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem

    def _whole(self) -> str | None:
        """The text of the object that all fragments make, in the order in which its entries first came."""
        root: dict[str | int, Any] = {}
        for steps, value in self._fragments:
            node = root
            for step in steps[:-1]:
                node = node.setdefault(step, {})
                if not isinstance(node, dict):
                    break
            else:
                held = node.get(steps[-1])
                if isinstance(held, list) and isinstance(value, list):
                    held.extend(value)  # a string goes on
                    continue
                if not isinstance(held, dict):
                    node[steps[-1]] = list(value) if isinstance(value, list) else (value,)
                    continue
            self._lose(f"the fragments of the arguments contradict each other at {_written_path(steps)}")
            return None
        try:
            return compact_json(self._settled(root, ()))
        except _MissingPathError as hole:
            self._lose(f"the fragments of the arguments leave a hole at {_written_path(hole.steps)}")
        return None

    def _settled(self, node: Any, at: Steps) -> Any:
        if isinstance(node, list):
            return "".join(node)
        if isinstance(node, tuple):
            return node[0]
        if all(isinstance(step, str) for step in node):
            return {step: self._settled(value, (*at, step)) for step, value in node.items()}
        items = [node.get(index) for index in range(len(node))]
        for index, item in enumerate(items):
            if item is None:
                raise _MissingPathError((*at, index))
        return [self._settled(item, (*at, index)) for index, item in enumerate(items)]


class _MissingPathError(Exception):
    """An array lacks an element, or its place is an object's too."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        super().__init__(steps)


def _fits(container: _OpenContainer, step: str | int) -> bool:
    """Whether an entry of that name or number can be written next."""
    if container.is_array:
        return step == container.entries
    return isinstance(step, str) and step not in container.names


def _value_of(fragment: PartialArg) -> tuple[bool, Any]:
    """Whether a fragment has a value, and which; ``_ODD`` for one of another type than its name says."""
    if (value := fragment.stringValue) is not None and value is not UNSET:
        return True, value if isinstance(value, str) else _ODD
    if (value := fragment.numberValue) is not None:
        if value.__class__ is float and math.isfinite(value):
            # The SDK's float of what the wire writes as 50.
            return True, int(value) if value.is_integer() and abs(value) < 2**53 else value
        return True, value if value.__class__ is int else _ODD
    if (value := fragment.boolValue) is not None:
        return True, value if isinstance(value, bool) else _ODD
    if fragment.nullValue is None:
        return fragment.stringValue is UNSET, None
    return fragment.nullValue is not UNSET, None


def _written_path(steps: Steps) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[:200]
