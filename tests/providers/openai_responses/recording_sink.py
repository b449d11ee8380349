"""A sink that records what the Responses parser reports, and builders of events."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from recording_sink import RecordingSink

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk


class ResponsesSink(RecordingSink):
    """A sink that also records usage, errors and complete calls in ``reported``, and the kind of reasoning."""

    def reasoning(self, text: str, kind: str = "text", key: Hashable = None) -> None:
        self.reported.append(("reasoning", text, kind, key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        if chunk.type == "start":
            self.reported.append(("start", chunk.id, chunk.name, chunk.kind, chunk.key, chunk.metadata))
        elif chunk.arguments_delta is not None:
            self.reported.append(("arguments", chunk.arguments_delta, chunk.key))
        else:
            self.reported.append(("completed", chunk.id, chunk.name, chunk.key, chunk.metadata))

    def file(self, media_type: str | None, data: str | None = None, url: str | None = None, **_: Any) -> None:
        self.reported.append(("file", media_type, data))

    def usage(self, usage: Usage) -> None:
        self.reported.append(("usage", usage))

    def fail(self, error: StreamError) -> None:
        self.reported.append(("fail", error.kind, error.message, error.status))


PROVIDER = providers.get("openai_responses")


def record(*events: Any) -> list[tuple[Any, ...]]:
    """Return the sink's calls for events given as dicts, which must equal those for the same events as frames."""
    dict_sink, frame_sink = ResponsesSink(), ResponsesSink()
    by_dict, by_frame = PROVIDER.parser(dict_sink), PROVIDER.parser(frame_sink)
    for event in events:
        by_dict.chunk(json.loads(json.dumps(event)))
        by_frame.frame(b"", json.dumps(event).encode())
    assert dict_sink.reported == frame_sink.reported
    return dict_sink.reported


def record_frames(*pairs: tuple[bytes, bytes]) -> list[tuple[Any, ...]]:
    sink = ResponsesSink()
    parser = PROVIDER.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink.reported


def item_added(item: dict[str, Any], index: Any = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def item_done(item: dict[str, Any], index: Any = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def call_item(arguments: Any = "", id: Any = "fc_1", call_id: Any = "call_1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": id, "call_id": call_id, "name": "f", "arguments": arguments, **fields}


def argument_delta(text: Any, item_id: Any = "fc_1", index: Any = 0) -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "item_id": item_id,
        "output_index": index,
        "delta": text,
    }


def text_delta(text: Any, item_id: Any = "msg_1", index: Any = 0, content_index: Any = 0) -> dict[str, Any]:
    where = {"item_id": item_id, "output_index": index, "content_index": content_index}
    return {"type": "response.output_text.delta", **where, "delta": text}


def message_item(*content: dict[str, Any], id: Any = "msg_1", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "content": list(content), **fields}


def output_text(text: Any, *annotations: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def response_end(status: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "model": "m", "status": status, **response}}


def parse_content(*events: dict[str, Any]) -> Any:
    turn = Turn("openai_responses", turn_key="t")
    for event in events:
        turn.feed(event)
    turn.close()
    return turn.content


def reasoning_item(*summary: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, **fields}
