"""Events of Bedrock's Converse wire, and its parser run on them."""

from __future__ import annotations

from typing import Any

from recording_sink import RecordingSink
from wire_streams import dumped

from streamkit import providers

__all__ = ["END", "METADATA", "PROVIDER", "delta", "read", "start", "stop", "use"]

PROVIDER = providers.get("bedrock_converse")


def read(*chunks: dict[str, Any]) -> RecordingSink:
    """Parse chunks as dicts and as frames, which must report the same, and return the sink."""
    dict_sink, frame_sink = RecordingSink(), RecordingSink()
    dict_parser, frame_parser = PROVIDER.parser(dict_sink), PROVIDER.parser(frame_sink)
    for chunk in chunks:
        dict_parser.chunk(chunk)
        ((name, body),) = chunk.items()
        prefix = b"exception:" if name.endswith("Exception") else b""
        frame_parser.frame(prefix + name.encode(), dumped(body))
    assert dict_sink == frame_sink
    return dict_sink


def start(index: Any, **start: Any) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def delta(index: Any, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def stop(index: Any) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def use(id: Any = "t1", name: Any = "w", **more: Any) -> dict[str, Any]:
    return {"toolUseId": id, "name": name, **more}


END = {"messageStop": {"stopReason": "end_turn"}}
METADATA = {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 1}}}
