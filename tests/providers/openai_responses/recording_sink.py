"""A sink that records what the Responses parser reports, and builders of events."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk


class RecordingSink:
    """A sink that records its calls as tuples. It is its own only choice."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def text(self, text: str, key: Hashable = None) -> None:
        self.records.append(("text", text, key))

    def reasoning(self, text: str, kind: str = "text", key: Hashable = None) -> None:
        self.records.append(("reasoning", text, kind, key))

    def refusal(self, text: str, key: Hashable = None) -> None:
        self.records.append(("refusal", text, key))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self.records.append(("add_metadata", dict(metadata), key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        if chunk.type == "start":
            self.records.append(("start", chunk.id, chunk.name, chunk.kind, chunk.key, chunk.metadata))
        elif chunk.arguments_delta is not None:
            self.records.append(("arguments", chunk.arguments_delta, chunk.key))
        else:
            self.records.append(("completed", chunk.id, chunk.name, chunk.key, chunk.metadata))

    def arguments(self, text: str, key: Hashable) -> None:
        self.records.append(("arguments", text, key))

    def end_block(self, key: Hashable) -> None:
        self.records.append(("end_block", key))

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        self.records.append(("replace_arguments", key, arguments_text))

    def server_tool(self, id: str | None, name: str, phase: str, data: Any = None, *, raw: Any = None) -> None:
        self.records.append(("server_tool", id, name, phase, data, raw))

    def server_tool_delta(self, id: str | None, name: str, arguments_delta: str) -> None:
        self.records.append(("server_tool_delta", id, name, arguments_delta))

    def citation(self, data: Any, key: Hashable = None) -> None:
        self.records.append(("citation", data))

    def log_probabilities(self, tokens: Any, raw: Any) -> None:
        self.records.append(("log_probabilities", raw))

    def file(self, media_type: str | None, data: str | None = None, url: str | None = None, *, raw: Any = None) -> None:
        self.records.append(("file", media_type, data))

    def compaction(self, raw: Any, summary: str | None) -> None:
        self.records.append(("compaction", raw, summary))

    def provider_block(self, raw: Any) -> None:
        self.records.append(("provider_block", raw))

    def finish(self, raw: str | int | None, reason: str) -> None:
        self.records.append(("finish", raw, reason))

    def identify(self, response_id: str | None, model: str | None, facts: Any = None) -> None:
        self.records.append(("identify", response_id, model))

    def add_response_metadata(self, metadata: Mapping[str, Any]) -> None:
        self.records.append(("add_response_metadata", dict(metadata)))

    def unknown_field(self, name: str, value: Any) -> None:
        self.records.append(("unknown_field", name, value))

    def usage(self, usage: Usage) -> None:
        self.records.append(("usage", usage))

    def terminate(self) -> None:
        self.records.append(("terminate",))

    def heartbeat(self) -> None:
        self.records.append(("heartbeat",))

    def fail(self, error: StreamError) -> None:
        self.records.append(("fail", error.kind, error.message, error.status))

    def warn(self, code: str, message: str) -> None:
        self.records.append(("warn", code))

    def keep(self, size: int) -> bool:
        return True

    def join_with(self, join: Callable[[], int]) -> None:
        pass

    def unknown(self, raw: object) -> None:
        self.records.append(("unknown", raw))


PROVIDER = providers.get("openai_responses")


def record(*events: Any) -> list[tuple[Any, ...]]:
    """Return the sink's calls for events given as dicts, which must equal those for the same events as frames."""
    dict_sink, frame_sink = RecordingSink(), RecordingSink()
    by_dict, by_frame = PROVIDER.parser(dict_sink), PROVIDER.parser(frame_sink)
    for event in events:
        by_dict.chunk(json.loads(json.dumps(event)))
        by_frame.frame(b"", json.dumps(event).encode())
    assert dict_sink.records == frame_sink.records
    return dict_sink.records


def record_frames(*pairs: tuple[bytes, bytes]) -> list[tuple[Any, ...]]:
    sink = RecordingSink()
    parser = PROVIDER.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink.records


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
