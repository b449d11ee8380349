"""The conformance kit: any provider, ours or yours, held against a folder of cases.

    from streamkit.testing import check_provider

    def test_acme():
        check_provider("acme", Path(__file__).parent / "cases" / "acme")

Each folder of that folder is a case, and goes through every door (bytes, dicts, chunk objects) and every cut; what the
turn is must be what the case expects, the same each time, and nothing may be raised. A case is:

    chunks.json      a list of chunks as dicts, framed for the bytes as the provider's own ``emit`` frames them;
                     ``{"$times": n, "$chunk": {...}}`` is n times that chunk
    stream.*         or the bytes as they came (``stream.json``: one JSON document, which the other doors get too).
                     With both, these are the bytes and those the dicts
    case.toml        ``shows`` (a sentence), ``source`` (a thread, a page, a vendor that does it, or ``rule:`` and which
                     one it pins); and where they matter: ``invented``, ``door`` (those that it goes through, of
                     ``bytes``, ``array``, ``lines``, ``dict``), ``done`` (false: without what ends the wire's streams;
                     a text: with this instead), ``error`` (what the transport raises), ``complete``, ``status``,
                     ``headers``, ``turn_key`` (``""`` for none), ``[limits]``, ``[options]``
    expected.json    what the turn must be, in the words of ``streamkit.testing.snapshots``; what is not named there is
                     empty. ``blocks``: the types of the content's blocks; ``ids_made_of``, ``turn_key``: of what the
                     canonical ids are made, where that is not the calls' raw ids and the case's turn key. Without this
                     file the kit shows what came out: hold that against the rules before you write it down

The doors are the bytes as the wire frames them; the same chunks as one JSON array (SSE wires) or as lines of JSON
(binary wires, as recordings are kept); dicts; and, wherever dicts go, chunk objects as an SDK gives them.
It works under any test runner and without one, and needs no server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import tomllib
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from streamkit import providers
from streamkit.accumulator import Limits
from streamkit.events import Event
from streamkit.providers.frames import encode_json_array, encode_stream
from streamkit.providers.provider import Provider
from streamkit.testing.snapshots import full_snapshot, merge_deltas, summary
from streamkit.turn import Turn

__all__ = ["ConformanceError", "Report", "cases_in", "check_case", "check_provider", "every_cut"]

#: Streams up to so many bytes are also fed byte by byte.
BYTE_BY_BYTE = 65536

#: Means of the sizes of pieces, in bytes: within a frame, about a frame, several frames.
MEANS = (3, 40, 700)

_FIELDS = frozenset(
    "shows source invented door done error complete status headers turn_key limits options".split()  # noqa: SIM905
)
_DOORS = ("bytes", "array", "lines", "dict")


@dataclass(frozen=True, slots=True)
class Report:
    """What became of each case.

    Attributes:
        provider: the provider's name.
        differences: by the case's name, what differs; an empty list where the case passed.
    """

    provider: str
    differences: dict[str, list[str]]

    @property
    def failed(self) -> list[str]:
        """The names of the cases that differ."""
        return [case for case, found in self.differences.items() if found]

    def __str__(self) -> str:
        lines = [f"{self.provider}: {len(self.failed)} of {len(self.differences)} cases differ"]
        for case in self.failed:
            lines += [f"  {case}", *(f"    {difference}" for difference in self.differences[case])]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """A provider is not what its cases say. The message lists every difference by case; ``report`` has them as data."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(str(report))


def check_provider(provider: str | Provider, folder: str | Path) -> Report:
    """Hold a provider against all cases of a folder.

    Args:
        provider: its name (registered by ``streamkit.providers.register`` or the entry point group
            ``streamkit.providers``), or the object.
        folder: the folder whose folders are the cases.

    Raises:
        NonConformance: some case differs, or there are none.
        UnknownProvider: no provider has this name.
    """
    found = providers.get(provider)
    report = Report(found.name, {case.name: check_case(found, case) for case in cases_in(folder)})
    if not report.differences:
        report.differences["(all)"] = [f"{Path(folder).name} has no cases"]
    if report.failed:
        raise ConformanceError(report)
    return report


def cases_in(folder: str | Path) -> list[Path]:
    """The cases of a folder, by name: every folder in it is one."""
    if not Path(folder).is_dir():
        return []
    return sorted(path for path in Path(folder).iterdir() if path.is_dir() and path.name[0] not in "._")


def check_case(provider: str | Provider, folder: str | Path) -> list[str]:
    """Hold a provider against one case; what differs, a line each. For a test of each case.

    Raises:
        UnknownProvider: no provider has this name.
    """
    case = Case(providers.get(provider), Path(folder))
    try:
        return case.faults() or case.differences()
    except (OSError, ValueError, TypeError) as error:
        return [f"the case cannot be read: {type(error).__name__}: {error}"]


def every_cut(data: bytes, seed: int = 1) -> Iterator[list[bytes]]:
    """The same bytes as a network may cut them: whole, byte by byte (up to 64 KiB), at three random sets of places.

    Args:
        data: the bytes of a stream.
        seed: the same one cuts at the same places, always.
    """
    yield [data]
    if len(data) <= BYTE_BY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]
    chance = random.Random(seed)  # noqa: S311 - places to cut at, no secrets
    for mean in MEANS:
        pieces, at = [], 0
        while at < len(data):
            size = chance.randint(1, 2 * mean)
            pieces.append(data[at : at + size])
            at += size
        yield pieces


class Case:
    """One folder, and what becomes of it."""

    def __init__(self, provider: Provider, folder: Path) -> None:
        self.provider = provider
        self.folder = folder
        self.streams = sorted(folder.glob("stream.*"))

    @cached_property
    def about(self) -> dict[str, Any]:
        """What stands in ``case.toml``."""
        return tomllib.loads((self.folder / "case.toml").read_text("utf-8"))

    @cached_property
    def expected(self) -> dict[str, Any] | None:
        """What stands in ``expected.json``; None where there is none yet."""
        path = self.folder / "expected.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    @cached_property
    def turn_key(self) -> str | None:
        """The key of the turn."""
        return self.about.get("turn_key", "turn-1") or None

    def faults(self) -> list[str]:
        """What is wrong with the case itself."""
        if not (self.folder / "case.toml").exists():
            return ["there is no case.toml"]
        faults = [f"case.toml has a field that means nothing: {name}" for name in sorted(self.about.keys() - _FIELDS)]
        faults += [f"door is of {', '.join(_DOORS)}, not {d!r}" for d in self.about.get("door", []) if d not in _DOORS]
        if len(str(self.about.get("shows", "")).split()) < 4:
            faults.append("case.toml: shows is a sentence that says what the case shows")
        if not self.about.get("source"):
            faults.append("case.toml: source says where this comes from")
        if len(self.streams) + (self.folder / "chunks.json").exists() == 0 or len(self.streams) > 1:
            faults.append("a case has chunks.json, or one stream.*, or both")
        return faults

    # ---------------------------------------------------------------- in

    def inputs(self) -> dict[str, list[list[Any]]]:
        """By the door's name: the pieces, in every way in which they may come."""
        made: dict[str, list[list[Any]]] = {}
        chunks: list[Any] | None = None
        if (self.folder / "chunks.json").exists():
            entries = json.loads((self.folder / "chunks.json").read_text("utf-8"))
            chunks = [chunk for entry in entries for chunk in _expand(entry)]
        if self.streams:
            data = self.streams[0].read_bytes()
            if chunks is None and self.streams[0].suffix == ".json":
                chunks = _document(data)
        else:
            traits, done = self.provider.traits, self.about.get("done", True)
            end_marker = done if isinstance(done, str) else traits.end_marker if done else None
            data = encode_stream(chunks or [], traits, end_marker=end_marker)
            if traits.framing == "sse":
                made["array"] = list(every_cut(encode_json_array(chunks or [])))
            if traits.framing == "event_stream":  # recordings of binary streams are kept as lines of JSON
                made["lines"] = list(every_cut(encode_stream(chunks or [], replace(traits, framing="ndjson"))))
        made["bytes"] = list(every_cut(data))
        if chunks is not None:
            made["dict"] = [chunks]
        return {door: made[door] for door in _DOORS if door in made and door in self.about.get("door", _DOORS)}

    def turn(self) -> Turn:
        """A turn that nothing was fed to."""
        about = self.about
        limits = Limits(**about["limits"]) if "limits" in about else None
        turn = Turn(self.provider, self.turn_key, limits=limits, **about.get("options", {}))
        if "status" in about:
            turn.response(about["status"], about.get("headers", {}))
        return turn

    def run(self, pieces: list[Any]) -> tuple[Turn, list[Event]]:
        """A closed turn, and all of its events."""
        turn = self.turn()
        seen: list[Event] = []
        for piece in pieces:
            seen += turn.feed(piece)
        error = ConnectionResetError(self.about["error"]) if "error" in self.about else None
        seen += turn.close(error, complete=self.about.get("complete", False))
        return turn, seen

    # ---------------------------------------------------------------- out

    def differences(self) -> list[str]:
        """What differs from what is expected, and from one way to another."""
        found: list[str] = []
        turns: dict[str, Any] = {}
        for door, ways in self.inputs().items():
            first: dict[str, Any] | None = None
            before = deepcopy(ways[0]) if door == "dict" else None
            for number, pieces in enumerate(ways):
                way = f"by {door}, cut {number}" if number else f"by {door}"
                result = self._result(pieces, way, found)
                if result is None:
                    break
                turn, said = result
                if first is None:
                    first, turns[door] = said, said["turn"]
                    found += [f"{way}: {difference}" for difference in self._unexpected(turn)]
                elif said != first:
                    found += _changes(first, said, f"{way}: the result is another than whole")
                    break
            if before is not None and before != ways[0]:
                found.append("by dict: reading changes the dicts that were fed")
            if before is not None and first is not None:
                result = self._result([_ChunkObject(chunk) for chunk in before], "by object", found)
                found += _changes(first, result[1], "by object: the result is another than by dict") if result else []
        for said in turns.values():
            if said["error"] is not None and said["error"]["kind"] == "protocol_error":
                said["error"] = "protocol_error"  # bytes are quoted in it, a dict is not
        doors = list(turns)
        if not doors and not found:
            found.append("it goes through no door that this wire has")
        for door in doors[1:]:
            found += _changes(turns[doors[0]], turns[door], f"by {door}: the turn is another than by {doors[0]}")
        return found

    def _result(self, pieces: list[Any], way: str, found: list[str]) -> tuple[Turn, dict[str, Any]] | None:
        """The turn and all that it said as plain data; None where something was raised."""
        try:
            turn, seen = self.run(pieces)
            return turn, {"turn": full_snapshot(turn), "events": merge_deltas(seen)}
        except Exception as error:  # whatever it raises is the finding
            at = traceback.extract_tb(error.__traceback__)[-1]
            found.append(f"{way}: raised {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})")
            return None

    def _unexpected(self, turn: Turn) -> list[str]:
        """How a turn differs from what is expected of it."""
        got = summary(turn)
        if self.expected is None:
            return [f"there is no expected.json; the turn was {json.dumps(got, ensure_ascii=False)}"]
        wanted = dict(self.expected)
        key = wanted.pop("turn_key", self.turn_key) or ""
        made_of = wanted.pop("ids_made_of", [call.get("raw_id", "") for call in wanted.get("calls", ())])
        blocks = wanted.pop("blocks", None)
        found = [
            f"{name}: expected {_shown(wanted.get(name))}, got {_shown(got.get(name))}"
            for name in [*wanted, *(name for name in got if name not in wanted)]
            if (wanted.get(name) or None) != got.get(name)
        ]
        if len(made_of) == len(turn.calls):
            for raw_id, call in zip(made_of, turn.calls, strict=True):
                canonical = _canonical(self.provider.name, raw_id, call.name, key, call.index)
                if call.id != canonical:
                    found.append(f"the id of call {call.index}: expected {canonical}, got {call.id}")
        elif not found:
            found.append(f"ids_made_of: {len(made_of)} ids for {len(turn.calls)} calls")
        have = [block.type for block in turn.content.blocks]
        if blocks is not None and have != blocks:
            found.append(f"blocks: expected {blocks}, got {have}")
        return found


class _ChunkObject:
    """A chunk as an SDK gives it: an object that dumps itself."""

    def __init__(self, chunk: Any) -> None:
        self.model_dump: Callable[..., Any] = lambda **_: chunk


def _expand(entry: Any) -> list[Any]:
    if isinstance(entry, dict) and entry.keys() == {"$times", "$chunk"}:
        return [entry["$chunk"]] * entry["$times"]
    return [entry]


def _document(data: bytes) -> list[Any] | None:
    """The one document of a body as a dict; None where it is none, or was cut."""
    try:
        body = json.loads(data)
    except ValueError:
        return None
    return [body] if isinstance(body, dict) else None


def _changes(first: Any, other: Any, said: str, most: int = 3) -> list[str]:
    """Where two results differ."""
    places = list(islice(_places(first, other, ""), most + 1))
    lines = [f"{said}: {path}: {_shown(a)}, then {_shown(b)}" for path, a, b in places[:most]]
    return [*lines, f"{said}: and more"] if len(places) > most else lines


def _places(first: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(first, dict) and isinstance(other, dict):
        for key in {**first, **other}:
            yield from _places(first.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        for at, (one, another) in enumerate(zip(first, other, strict=True)):
            yield from _places(one, another, f"{path}[{at}]")
    elif first != other:
        yield path, first, other


def _shown(value: Any, size: int = 400) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= size else f"{text[:size]}... ({len(text)} characters)"


def _canonical(provider: str, raw_id: str, name: str, turn_key: str, index: int) -> str:
    """The formula of the canonical id, written down a second time: held against itself it would show nothing."""
    fields = (field.replace("\\", "\\\\").replace("|", "\\|") for field in (provider, raw_id, name, turn_key))
    digest = hashlib.sha256("|".join([*fields, str(index)]).encode("utf-8", "surrogatepass")).digest()
    return "hist_tool_" + base64.urlsafe_b64encode(digest)[:24].decode("ascii")
