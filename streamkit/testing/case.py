"""One conformance case: its file, its input in every form, and the differences of a provider from it.

The input is the chunks of the case, framed by the provider's traits (the inverse of framing), the result the turn as
plain data. ``conformance`` describes the format. This module must not depend on a test runner or a particular provider.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from streamkit.accumulator import Limits
from streamkit.events import Event, Reasoning, Refusal, Text, ToolCallDelta, to_json
from streamkit.framing.event_stream import encode_message
from streamkit.providers.provider import Provider, Traits
from streamkit.reading.turn import Turn

__all__ = [
    "Case",
    "cases_in",
    "encode_frame",
    "encode_json_array",
    "encode_stream",
    "every_cut",
    "full_snapshot",
    "merge_deltas",
    "summary",
]

#: Streams up to this number of bytes are also fed byte by byte.
BYTE_BY_BYTE = 65536
#: Mean sizes of random splits, in bytes: within a frame, about a frame, several frames.
MEAN_SIZES = (3, 40, 700)
_INPUTS = ("bytes", "array", "lines", "dict")
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "about": str,
    "source": str,
    "invented": bool,
    "inputs": list,
    "terminator": (bool, str),
    "transport_error": str,
    "complete": bool,
    "status": int,
    "headers": dict,
    "turn_key": str,
    "limits": dict,
    "options": dict,
    "chunks": list,
    "body": (dict, list),
    "expected": dict,
}


def cases_in(folder: str | Path) -> list[Path]:
    """Return the case files of a folder, sorted by name."""
    return sorted(path for path in Path(folder).glob("*.json") if path.name[0] not in "._")


def every_cut(data: bytes, seed: int = 1) -> Iterator[list[bytes]]:
    """Yield splits of the same bytes, as a network may deliver them.

    The first has the bytes in one part, the second (up to 64 KiB) byte by byte, and three have random sizes.

    Args:
        data: the bytes of a stream.
        seed: of the random sizes; equal seeds give equal splits.
    """
    yield [data]
    if len(data) <= BYTE_BY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]
    chance = random.Random(seed)  # noqa: S311 - sizes of splits, no secrets
    for mean in MEAN_SIZES:
        parts, start = [], 0
        while start < len(data):
            size = chance.randint(1, 2 * mean)
            parts.append(data[start : start + size])
            start += size
        yield parts


class Case:
    """One case file, and the checks of a provider against it."""

    def __init__(self, provider: Provider, path: Path) -> None:
        self.provider = provider  # the provider to check
        self.path = path  # the case file
        # the files of the same name with another suffix
        self.byte_files: list[Path] = sorted(file for file in path.parent.glob(f"{path.stem}.*") if file != path)

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The contents of the case file.

        Raises:
            ValueError: the file is not a JSON object.
        """
        fields = json.loads(self.path.read_text("utf-8"))
        if not isinstance(fields, dict):
            raise ValueError(f"{self.path.name} must contain a JSON object with the fields of a case")  # noqa: TRY004
        return fields

    @property
    def expected(self) -> dict[str, Any] | None:
        """The expected turn, or None if the case does not have it yet."""
        return self.fields.get("expected")

    @property
    def chunks(self) -> list[Any] | None:
        """The chunks as dicts, or None if the case has only bytes."""
        if "chunks" in self.fields:
            return [chunk for entry in self.fields["chunks"] for chunk in _expand(entry)]
        return [self.fields["body"]] if isinstance(self.fields.get("body"), dict) else None

    @property
    def turn_key(self) -> str | None:
        """The key of the turn."""
        return self.fields.get("turn_key", "turn-1") or None

    def problems(self) -> list[str]:
        """Return the errors of the case file itself, one sentence each."""
        problems = []
        for name, value in self.fields.items():
            if name not in _FIELDS:
                problems.append(f"unknown field {name!r}: the fields are {', '.join(_FIELDS)}")
            elif not isinstance(value, _FIELDS[name]):
                problems.append(f"{name} must not be of type {type(value).__name__}")
        if problems:
            return problems
        problems += [
            f"inputs: {name!r} is not one of {', '.join(_INPUTS)}"
            for name in self.fields.get("inputs", [])
            if name not in _INPUTS
        ]
        if len(self.fields.get("about", "").split()) < 4:
            problems.append("about must be one sentence on what the case shows, of four words or more")
        if not self.fields.get("source"):
            problems.append("source is missing: give the evidence for the case, such as a URL")
        if "body" in self.fields and ("chunks" in self.fields or self.byte_files):
            problems.append("body excludes chunks and a file with the bytes: remove one of them")
        if not {"chunks", "body"} & self.fields.keys() and not self.byte_files:
            problems.append(f"the input is missing: add chunks, body, or a file with the bytes ({self.path.stem}.*)")
        if len(self.byte_files) > 1:
            problems.append(f"more than one file has the bytes: {', '.join(file.name for file in self.byte_files)}")
        return problems

    # ---------------------------------------------------------------- input

    @property
    def data(self) -> bytes:
        """The bytes of the response: those of the file beside the case, else its body or its framed chunks."""
        traits = self.provider.traits
        if self.byte_files:
            return self.byte_files[0].read_bytes()
        if "body" in self.fields:
            indent = None if traits.framing == "ndjson" else 2
            return json.dumps(self.fields["body"], ensure_ascii=False, indent=indent).encode()
        terminator = self.fields.get("terminator", True)
        end_marker = terminator if isinstance(terminator, str) else traits.end_marker if terminator else None
        return encode_stream(self.chunks or [], traits, end_marker=end_marker)

    def inputs(self) -> dict[str, list[list[Any]]]:
        """Return the input in each form and split: by the form, a list of splits, each a list of parts to feed."""
        inputs: dict[str, list[list[Any]]] = {}
        chunks, traits = self.chunks, self.provider.traits
        if not self.byte_files and "body" not in self.fields:
            if traits.framing == "sse":
                inputs["array"] = list(every_cut(encode_json_array(chunks or [])))
            if traits.framing == "event_stream":  # recordings of binary streams are kept as lines of JSON
                inputs["lines"] = list(every_cut(encode_stream(chunks or [], replace(traits, framing="ndjson"))))
        inputs["bytes"] = list(every_cut(self.data))
        if chunks is not None:
            inputs["dict"] = [chunks]
        wanted = self.fields.get("inputs", _INPUTS)
        return {name: inputs[name] for name in _INPUTS if name in inputs and name in wanted}

    def turn(self) -> Turn:
        """Return a turn to which nothing was fed."""
        limits = Limits(**self.fields["limits"]) if "limits" in self.fields else None
        turn = Turn(self.provider, self.turn_key, limits=limits, **self.fields.get("options", {}))
        if "status" in self.fields:
            turn.response(self.fields["status"], self.fields.get("headers", {}))
        return turn

    def run(self, parts: list[Any]) -> tuple[Turn, list[Event]]:
        """Feed the parts; return the closed turn and all its events."""
        turn = self.turn()
        events: list[Event] = []
        for part in parts:
            events += turn.feed(part)
        transport_error = self.fields.get("transport_error")
        error = None if transport_error is None else ConnectionResetError(transport_error)
        events += turn.close(error, complete=self.fields.get("complete", False))
        return turn, events

    # ---------------------------------------------------------------- output

    def differences(self) -> list[str]:
        """Return the differences from the expectation, and those between forms and splits of the input."""
        differences: list[str] = []
        turns: dict[str, Any] = {}
        for form, splits in self.inputs().items():
            reference: dict[str, Any] | None = None
            fed_dicts = deepcopy(splits[0]) if form == "dict" else None
            for number, parts in enumerate(splits):
                label = f"{form}, split {number}" if number else form
                outcome = self._try_run(parts, label, differences)
                if outcome is None:
                    break
                turn, snapshot = outcome
                if reference is None:
                    reference, turns[form] = snapshot, snapshot["turn"]
                    differences += [f"{label}: {difference}" for difference in self._unexpected(turn)]
                elif snapshot != reference:
                    differences += _changes(reference, snapshot, f"{label}: the result differs from {form} unsplit")
                    break
            if fed_dicts is not None and fed_dicts != splits[0]:
                differences.append("dict: the parser changes the dicts that were fed")
            if fed_dicts is not None and reference is not None:
                outcome = self._try_run([_ChunkObject(chunk) for chunk in fed_dicts], "object", differences)
                if outcome is not None:
                    differences += _changes(reference, outcome[1], "object: the result differs from dict")
        for snapshot in turns.values():
            if snapshot["error"] is not None and snapshot["error"]["kind"] == "protocol_error":
                snapshot["error"] = "protocol_error"  # its message quotes bytes, but not a dict
        forms = list(turns)
        if not forms and not differences:
            differences.append("this wire has none of the input forms of the case")
        for form in forms[1:]:
            differences += _changes(turns[forms[0]], turns[form], f"{form}: the turn differs from {forms[0]}")
        return differences

    def _try_run(self, parts: list[Any], label: str, differences: list[str]) -> tuple[Turn, dict[str, Any]] | None:
        """Run the case; return the turn and its snapshot, or None if something was raised."""
        try:
            turn, events = self.run(parts)
            return turn, {"turn": full_snapshot(turn), "events": merge_deltas(events)}
        except Exception as error:  # any exception is a difference: a parser must not raise
            at = traceback.extract_tb(error.__traceback__)[-1]
            differences.append(
                f"{label}: raised {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
            )
            return None

    def _unexpected(self, turn: Turn) -> list[str]:
        """Return how a turn differs from the expectation."""
        actual = summary(turn)
        if self.expected is None:
            return [f"expected is missing; the turn was {json.dumps(actual, ensure_ascii=False)}"]
        expected = dict(self.expected)
        key = expected.pop("turn_key", self.turn_key) or ""
        raw_ids = expected.pop("ids_made_of", [call.get("raw_id", "") for call in expected.get("calls", ())])
        blocks = expected.pop("blocks", None)
        differences = [
            f"{name}: expected {_quote(expected.get(name))}, got {_quote(actual.get(name))}"
            for name in {**expected, **actual}
            if (expected.get(name) or None) != actual.get(name)
        ]
        if len(raw_ids) == len(turn.calls):
            for raw_id, call in zip(raw_ids, turn.calls, strict=True):
                canonical = _canonical_id(self.provider.name, raw_id, call.name, key, call.index)
                if call.id != canonical:
                    differences.append(f"the id of call {call.index}: expected {canonical}, got {call.id}")
        elif not differences:
            differences.append(f"ids_made_of: {len(raw_ids)} ids for {len(turn.calls)} calls")
        actual_blocks = [block.type for block in turn.content.blocks]
        if blocks is not None and actual_blocks != blocks:
            differences.append(f"blocks: expected {blocks}, got {actual_blocks}")
        return differences


class _ChunkObject:
    """A chunk with the interface of an SDK's: an object that returns its dict."""

    def __init__(self, chunk: Any) -> None:
        self.model_dump: Callable[..., Any] = lambda **_: chunk


def _expand(entry: Any) -> list[Any]:
    """Return the chunks of an entry, which may be a repetition."""
    if isinstance(entry, dict) and entry.keys() == {"$times", "$chunk"}:
        return [entry["$chunk"]] * entry["$times"]
    return [entry]


def _changes(first: Any, other: Any, label: str, most: int = 3) -> list[str]:
    """Return the places at which two results differ, one line each."""
    places = list(islice(_places(first, other, ""), most + 1))
    lines = [f"{label}: {path}: {_quote(a)}, then {_quote(b)}" for path, a, b in places[:most]]
    return [*lines, f"{label}: and more"] if len(places) > most else lines


def _places(first: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(first, dict) and isinstance(other, dict):
        for key in {**first, **other}:
            yield from _places(first.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        for index, (value, other_value) in enumerate(zip(first, other, strict=True)):
            yield from _places(value, other_value, f"{path}[{index}]")
    elif first != other:
        yield path, first, other


def _quote(value: Any, size: int = 400) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= size else f"{text[:size]}... ({len(text)} characters)"


def _canonical_id(provider: str, raw_id: str, name: str, turn_key: str, index: int) -> str:
    """Return the canonical id by a second implementation of the formula, so that the first one is tested."""
    fields = (field.replace("\\", "\\\\").replace("|", "\\|") for field in (provider, raw_id, name, turn_key))
    digest = hashlib.sha256("|".join([*fields, str(index)]).encode("utf-8", "surrogatepass")).digest()
    return "hist_tool_" + base64.urlsafe_b64encode(digest)[:24].decode("ascii")


def encode_stream(chunks: Iterable[dict[str, Any]], traits: Traits, *, end_marker: str | None = None) -> bytes:
    """Return chunks as the bytes of one body, then the end marker (such as ``traits.end_marker``) if it is not None."""
    if traits.framing == "json_array":
        return encode_json_array(chunks)
    frames = [encode_frame(chunk, traits) for chunk in chunks]
    return b"".join(frames if end_marker is None else [*frames, _line(end_marker.encode(), traits)])


def encode_json_array(chunks: Iterable[dict[str, Any]]) -> bytes:
    """Return chunks as one JSON array, which some servers send if the request did not ask for events."""
    return b"[" + b"\n,\r\n".join(map(_json, chunks)) + b"\n]\n"


def encode_frame(chunk: dict[str, Any], traits: Traits) -> bytes:
    """Return a chunk as one frame: an SSE event, a line of JSON, or an AWS event-stream message."""
    if traits.framing == "event_stream":
        return _message(chunk, traits)
    line = _line(_json(chunk), traits)
    name = chunk.get(traits.event_name_field) if traits.event_name_field is not None else None
    if not isinstance(name, str) or "\n" in name or "\r" in name:
        return line
    return b"event: " + name.encode("utf-8", "surrogatepass") + traits.line_end.encode() + line


def _line(payload: bytes, traits: Traits) -> bytes:
    line_end = traits.line_end.encode()
    return b"data: " + payload + 2 * line_end if traits.framing == "sse" else payload + line_end


def _message(chunk: dict[str, Any], traits: Traits) -> bytes:
    (name, body), *others = chunk.items() or [("", {})]
    if traits.wrapper_event is not None and (others or not name.endswith("Exception")):
        name, payload = traits.wrapper_event, _json({"bytes": b64encode(_json(chunk)).decode("ascii")})
    else:
        payload = _json(body)
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return encode_message(headers, payload)


def _json(value: Any) -> bytes:
    """Return compact JSON, not ASCII-escaped; half a surrogate pair is encoded unchanged, as some servers do."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def summary(turn: Turn) -> dict[str, Any]:
    """Return a turn in the form of a case's ``expected``; empty values are left out.

    Returns:
        ``text``, ``reasoning``, ``refusal``; ``calls``: each with ``name``, ``arguments``, ``raw_id``, ``metadata``, if
        it is not complete ``state`` and ``text``, if it is not a function ``kind``; ``executable``: the number of
        executable calls; ``server_calls``; ``finish``: [reason, the provider's value]; ``usage``: ``input``,
        ``output``, ``reasoning``, ``cache_read``, ``cache_write``; ``error``: its kind; ``warnings``: their codes.
    """
    usage = turn.usage
    fields = {
        "text": turn.text,
        "reasoning": turn.reasoning,
        "refusal": turn.refusal,
        "calls": [
            _without_none(
                name=call.name,
                arguments=call.arguments,
                text=call.arguments_text if call.state != "complete" else None,
                state=call.state if call.state != "complete" else None,
                raw_id=call.raw_id,
                kind=call.kind if call.kind != "function" else None,
                metadata=call.metadata or None,
            )
            for call in turn.calls
        ],
        "executable": len(turn.executable),
        "server_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "result": call.result}
            for call in turn.server_calls
        ],
        "finish": None if turn.finish is None else [turn.finish.reason, turn.finish.raw],
        "usage": None
        if usage is None
        else _without_none(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
        ),
        "error": None if turn.error is None else turn.error.kind,
        "warnings": [warning.code for warning in turn.warnings],
    }
    return {name: value for name, value in fields.items() if value}


def full_snapshot(turn: Turn) -> dict[str, Any]:
    """Return everything a turn contains, with its choices and its content."""
    return {
        **turn.to_dict(),
        "choices": [
            {"text": view.text, "calls": [call.id for call in view.calls], "finish": view.finish and view.finish.reason}
            for view in turn.choices
        ],
        "content": turn.content.model_dump(mode="json"),
    }


def merge_deltas(turn_events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the events as dicts, with successive deltas of one text merged into one."""
    merged: list[dict[str, Any]] = []
    before: Event | None = None
    for event in turn_events:
        plain = json.loads(to_json(event))
        if before is not None and _continues(before, event):
            field = "arguments_delta" if isinstance(event, ToolCallDelta) else "text"
            merged[-1][field] += plain[field]
        else:
            merged.append(plain)
        before = event
    return merged


def _continues(before: Event, event: Event) -> bool:
    """Return True if an event is the next delta of the same text."""
    match before, event:
        case ToolCallDelta(), ToolCallDelta():
            return before.call == event.call and before.choice == event.choice
        case (Text(), Text()) | (Refusal(), Refusal()):
            return before.choice == event.choice
        case Reasoning(), Reasoning():
            return before.choice == event.choice and before.kind == event.kind
    return False


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
