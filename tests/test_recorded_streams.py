"""The recorded streams of the repository: what they contain, in every split, and their licences."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from shared_data import RECORDED, RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.testing import every_cut
from streamkit.testing.case import full_snapshot

STREAMS = [stream for stream in recorded_streams() if stream.expected is not None]
MANIFEST: list[dict[str, Any]] = json.loads((RECORDED / "manifest.json").read_text("utf-8"))
WITHOUT_STREAMS = {"fireworks"}


def read(stream: RecordedStream, parts: list[bytes]) -> Turn:
    turn = Turn(stream.provider, turn_key="turn-1")
    for part in parts:
        turn.feed(part)
    turn.close()
    return turn


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_a_recorded_stream_has_the_expected_turn_in_every_split(stream: RecordedStream) -> None:
    turn = read(stream, [stream.data])
    expected = stream.expected
    assert expected is not None
    assert turn.error is None or turn.error.kind == "stream_truncated"
    assert turn.text == expected["text"]
    assert turn.refusal == expected["refusal"]
    if expected["reasoning"]:
        assert turn.reasoning == expected["reasoning"]
    assert turn.finish is None or expected["finish"] in (None, turn.finish.raw)
    assert len(turn.calls) == len(expected["calls"])
    for call, expected_call in zip(turn.calls, expected["calls"], strict=True):
        assert call.name == expected_call["name"]
        assert call.raw_id == expected_call["id"]
        if call.state == "complete":
            assert call.arguments == (expected_call["arguments"] or {})
        else:
            assert call.arguments_text == expected_call["arguments_text"]
    if turn.error is None:
        assert turn.executable == [call for call in turn.calls if call.state == "complete"]
    snapshot = full_snapshot(turn)
    for parts in every_cut(stream.data):
        assert full_snapshot(read(stream, parts)) == snapshot


def test_every_provider_has_a_recorded_stream() -> None:
    assert {stream.provider for stream in STREAMS} == set(providers.names()) - WITHOUT_STREAMS


def test_every_file_is_in_the_manifest_and_unchanged() -> None:
    files = {str(path.relative_to(RECORDED)) for path in RECORDED.glob("*/*")}
    assert files == {entry["file"] for entry in MANIFEST}
    for entry in MANIFEST:
        assert hashlib.sha256((RECORDED / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], entry["file"]


def test_the_notice_names_every_source_and_licence() -> None:
    notice = (RECORDED / "NOTICE").read_text("utf-8")
    for entry in MANIFEST:
        assert entry["licence"] in ("MIT", "Apache-2.0")
        assert "/".join(entry["source"].split("/")[:5]) in notice
        assert f"    {entry['file']}\n" in notice
