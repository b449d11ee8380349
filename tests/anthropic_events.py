"""Events of Anthropic's wire, and its parser run on them."""

from __future__ import annotations

import json
from typing import Any

from recording_sink import RecordingSink

from streamkit import providers

__all__ = ["CALL", "STOP", "begin", "delta", "end", "frames", "read", "start", "stop"]

PROVIDER = providers.get("anthropic")


def read(*events: Any) -> RecordingSink:
    """Parse events as dicts and as frames, which must report the same, and return the sink."""
    dict_sink, frame_sink = RecordingSink(), RecordingSink()
    dict_parser, frame_parser = PROVIDER.parser(dict_sink), PROVIDER.parser(frame_sink)
    for event in events:
        dict_parser.chunk(json.loads(json.dumps(event)))
        name = event.get("type")
        frame_parser.frame(name.encode() if isinstance(name, str) else b"", json.dumps(event).encode())
    assert dict_sink == frame_sink
    return dict_sink


def frames(*pairs: tuple[bytes, bytes]) -> RecordingSink:
    """Parse frames, each an event name and a payload, and return the sink."""
    sink = RecordingSink()
    parser = PROVIDER.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink


def begin(**message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], **message}}


def start(index: Any, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def delta(index: Any, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: Any, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


STOP = {"type": "message_stop"}
CALL = start(0, "tool_use", id="toolu_1", name="w", input={})
