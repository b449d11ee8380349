"""What must hold for every stream, however damaged; each check raises a ``Fault`` with what differs."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal, TypeAlias

from fuzz.inputs import Chunk

from streamkit import Content, Limits, Turn, events, providers
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Event,
    Failed,
    Reasoning,
    Refusal,
    ResponseStarted,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.reading.leaked_markup import LeakedMarkup
from streamkit.testing.case import encode_frame, full_snapshot, merge_deltas

__all__ = [
    "Fault",
    "FaultKind",
    "check_events",
    "check_held_memory",
    "check_same",
    "check_stored",
    "check_turn",
    "cut",
    "run",
    "snapshot",
]

#: ``disagreement``: between cuts or forms of one input; ``unended``: a turn with neither a finish nor an error;
#: ``memory``; ``lost``: a call that a writer or gateway changed; ``invariant``: any other rule.
FaultKind: TypeAlias = Literal["disagreement", "unended", "memory", "lost", "invariant"]

SMALL = 100_000  #: of characters and bytes, for the check of held memory
HELD = 1_000_000  #: bytes that a turn with those limits may hold
FED = 4_000_000  #: bytes that are fed to it
LONGEST = 40_000  #: chunks of a stream without an end


class Fault(AssertionError):
    """A rule that an input has broken.

    Attributes:
        kind: what was broken.
        rule: the same for all inputs that break it in one way.
    """

    def __init__(self, kind: FaultKind, rule: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {rule}{': ' if detail else ''}{detail}")
        self.kind = kind
        self.rule = rule


def require(condition: object, rule: str, detail: str = "", kind: FaultKind = "invariant") -> None:
    """Raise a fault unless a condition holds."""
    if not condition:
        raise Fault(kind, rule, detail)


# ---------------------------------------------------------------- running


def run(provider: str, parts: Iterable[Any], *, complete: bool = False, **options: Any) -> tuple[Turn, list[Event]]:
    """Return a closed turn and all its events."""
    turn = Turn(provider, "turn-1", **options)
    seen: list[Event] = []
    for part in parts:
        seen += turn.feed(part)
    return turn, seen + turn.close(complete=complete)


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Return bytes in reads of random sizes: single bytes, a few, or about a frame."""
    if len(data) <= 3000 and chance.random() < 0.25:
        return [data[at : at + 1] for at in range(len(data))]
    number = max(1, min(len(data) // chance.choice((2, 5, 40, 300, 2000)), 1500))
    cuts = sorted(chance.randint(0, len(data)) for _ in range(number))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def snapshot(turn: Turn, seen: list[Event]) -> dict[str, Any]:
    """Return all that a turn is and has emitted, for comparison. Numbers that are not finite equal themselves."""
    return {**full_snapshot(turn), "executable": [call.id for call in turn.executable], "events": merge_deltas(seen)}


def check_same(first: dict[str, Any], other: dict[str, Any], forms: str, detail: str = "") -> None:
    """Check that two forms of one input give the same."""
    names = [name for name in first if first[name] != other[name] and repr(first[name]) != repr(other[name])]
    if names:
        shown = {name: (_excerpt(first[name]), _excerpt(other[name])) for name in names}
        raise Fault("disagreement", f"{forms}: {_first_difference(first, other, names)}", f"{detail} {shown}")


def _first_difference(first: dict[str, Any], other: dict[str, Any], names: list[str]) -> str:
    """Return which part differs, in a form that is the same for all inputs that differ in one way."""
    for name in ("error", "executable", "calls", "finish", "text", "reasoning", "warnings"):
        if name in names:
            kinds = [(each[name] or {}).get("kind") for each in (first, other)] if name == "error" else ""
            return f"{name} {kinds}" if kinds else name
    return names[0]


def _excerpt(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."


# ---------------------------------------------------------------- a turn and its events


def check_turn(turn: Turn) -> None:
    """Check the invariants of a closed turn."""
    require(turn.closed, "a turn is closed")
    ended = turn.error is not None or turn.finish is not None
    require(ended, "a closed turn has a finish or an error", kind="unended")
    require(turn.error is None or not turn.executable, "nothing of a failed turn is executable")
    require(all(call.state == "complete" for call in turn.executable), "only complete calls are executable")
    ids = [call.id for view in turn.choices for call in view.calls]
    require(len(ids) == len(set(ids)), "no two calls have one id", str(ids)[:300])
    json.dumps(turn.to_dict(), allow_nan=False).encode()


def check_events(turn: Turn, seen: list[Event]) -> None:
    """Check that the events of a closed turn are consistent, and give what the turn contains."""
    started: dict[tuple[int, str], str] = {}
    ended: set[tuple[int, str]] = set()
    ready: dict[tuple[int, str], ToolCallReady] = {}
    late = {warning.call_id for warning in turn.warnings}
    has_all_warnings = all(warning.code != "more_warnings" for warning in turn.warnings)
    texts: dict[tuple[int, type, int], str] = {}  # by choice, kind and block
    blocks: set[tuple[int, int]] = set()
    has_content = False
    for event in seen:
        line = events.to_json(event)
        again = events.to_json(events.from_json(line))
        require(again == line or json.loads(again) == json.loads(line), "an event's JSON is stable", f"{line[:300]!r}")
        key = (event.choice, event.call.id) if isinstance(event, (ToolCallStart, ToolCallDelta, ArgumentsRestated,
               ToolCallEnd, ToolCallReady)) else (0, "")  # fmt: skip
        match event:
            case ResponseStarted():
                require(not has_content, "a response starts before its content")
            case Text() | Reasoning() | Refusal():
                event.text.encode()  # raises for half of a surrogate pair
                place = event.choice, type(event), event.block
                texts[place] = texts.get(place, "") + event.text
            case BlockStarted():
                blocks.add((event.choice, event.block))
            case BlockEnded():
                require(event.kind in ("text", "reasoning", "refusal"), "blocks of text end")
                require((event.choice, event.block) in blocks, "a block that ends has started")
            case ToolCallStart():
                require(key not in started, "a call starts once")
                started[key] = ""
            case ToolCallDelta():
                event.arguments_delta.encode()
                require(key in started, "a delta follows the start of its call")
                started[key] += event.arguments_delta
                is_known = key not in ready or event.call.id in late or not has_all_warnings
                require(is_known, "no delta follows ready without a warning")
            case ArgumentsRestated():
                started[key] = event.arguments_text
            case ToolCallEnd():
                require(key in started and key not in ended, "a call that has started ends once")
                ended.add(key)
            case ToolCallReady():
                require(key in started and key not in ready, "a call that has started is ready once")
                ready[key] = event
        has_content = has_content or isinstance(event, (ResponseStarted, Text, ToolCallStart))
    failures = sum(isinstance(event, Failed) for event in seen)
    require(failures == (turn.error is not None), "a failed turn has one event of its failure")
    _check_texts(turn, texts)
    for view in turn.choices:
        for call in view.calls:
            key = view.index, call.id
            require(key in ended and key in ready, "every call ends and is ready")
            require(ready[key].call.state == call.state, "the state of a call is that of its event")
            same = repr(ready[key].call.arguments) == repr(call.arguments)
            require(same, "the arguments of a call are those of its event")
            require(started[key] == call.arguments_text, "the deltas of a call give its arguments")


def _check_texts(turn: Turn, texts: dict[tuple[int, type, int], str]) -> None:
    views = {view.index: view for view in turn.choices}
    for choice, kind in {(choice, kind) for choice, kind, _ in texts}:
        require(choice in views, "a choice with text is one of the turn", str(choice))
        name = {Text: "text", Reasoning: "reasoning", Refusal: "refusal"}[kind]
        blocks = sorted(place[2] for place in texts if place[:2] == (choice, kind))
        text = "".join([texts[choice, kind, block] for block in blocks])
        require((getattr(views[choice], name) or "") == text, f"the events of {name} give it")


def check_stored(contents: Iterable[Content]) -> None:
    """Check that contents are stored without loss."""
    for content in contents:
        stored = content.model_dump_json()
        require(Content.model_validate_json(stored) == content, "a stored content is the same", stored[:300])


# ---------------------------------------------------------------- memory


def check_held_memory(
    provider: str, chunks: Iterable[Chunk], *, markup: LeakedMarkup = "keep", form: str = "bytes", length: int = LONGEST
) -> str | None:
    """Feed a long stream with small limits; what the turn holds stays small. Return the kind of its error.

    Args:
        provider: the provider of the stream.
        chunks: the stream.
        markup: how the turn treats markup in text.
        form: ``bytes`` or ``dict``.
        length: how many chunks are fed, at most.
    """
    traits = providers.get(provider).traits
    turn = Turn(provider, "turn-1", limits=Limits(arguments=SMALL, text=SMALL, frame=SMALL), leaked_markup=markup)
    gc.collect()
    tracemalloc.start()
    try:
        fed = 0
        for chunk in islice(chunks, length):
            try:
                frame = encode_frame(chunk, traits)
            except (ValueError, IndexError):  # a message of AWS has one short name
                continue
            fed += len(frame)
            turn.feed(frame if form == "bytes" else chunk)
            if turn.done or fed > FED:
                break
        chunk = frame = None  # type: ignore[assignment]
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    detail = f"{fed} bytes were fed, and {held} are held (at most {most})"
    require(held < HELD, "what a turn holds is below its limits", detail, "memory")
    turn.close()
    return turn.error.kind if turn.error is not None else None
