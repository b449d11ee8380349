"""A client of npm ``ai``'s UI message streams: its message, and the rules of order that its chunks must obey.

The rules are those of ``process-ui-message-stream.ts`` (https://github.com/vercel/ai), where a chunk for a part that is
not there is an error, and what its pages rely on: nothing stays open, no id of a text or of reasoning is used twice.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
_ENDED_BY = ("finish", "abort", "error")
_CALL, _TOOL = "toolCallId providerExecuted dynamic", "toolCallId toolName providerExecuted dynamic"
#: The fields of the chunks of 5.0.92, the first version with a finish reason, 6.0.0 and 7.0.0, which refuse any other.
_FIELDS = {
    "start": "messageId messageMetadata",
    "start-step": "",
    "finish-step": "",
    "finish": "finishReason messageMetadata",
    "abort": "",
    "error": "errorText",
    **{f"{kind}-{phase}": "id providerMetadata" for kind in ("text", "reasoning") for phase in ("start", "end")},
    **{f"{kind}-delta": "id delta providerMetadata" for kind in ("text", "reasoning")},
    "tool-input-start": _TOOL,
    "tool-input-delta": "toolCallId inputTextDelta",
    "tool-input-available": f"{_TOOL} input providerMetadata",
    "tool-input-error": f"{_TOOL} input providerMetadata errorText",
    "tool-output-available": f"{_CALL} output preliminary",
    "tool-output-error": f"{_CALL} errorText",
    "source-url": "sourceId url title providerMetadata",
    "source-document": "sourceId mediaType title filename providerMetadata",
    "file": "url mediaType providerMetadata",
    "data": "id data transient",
}
_FIELDS_OF_6 = {**_FIELDS, "tool-approval-request": "approvalId toolCallId", "tool-output-denied": "toolCallId"}
_FIELDS_OF_7 = {
    **_FIELDS_OF_6,
    "tool-approval-response": "approvalId approved",
    "tool-output-available": f"{_CALL} output preliminary providerMetadata",
}
_FIELDS_OF = {5: _FIELDS, 6: _FIELDS_OF_6, 7: _FIELDS_OF_7}


def read_chunks(data: bytes) -> list[Json]:
    """Return the chunks of a stream that is complete."""
    *frames, done, rest = data.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def read_message(chunks: list[Json], message: Json | None = None) -> Json:
    """Return the message that a client has after these chunks, which may continue a message."""
    message = message or {"id": "", "role": "assistant", "parts": []}
    parts: list[Json] = message["parts"]
    blocks: dict[str, Json] = {}
    for chunk in chunks:
        kind = chunk["type"]
        kept = {
            name: value for name, value in chunk.items() if name in ("providerExecuted", "input", "output", "errorText")
        }
        if kind == "start":
            message["id"] = chunk["messageId"]
        elif kind == "start-step":
            parts.append({"type": "step-start"})
        elif kind in ("text-start", "reasoning-start"):
            blocks[chunk["id"]] = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming"}
            parts.append(blocks[chunk["id"]])
        elif kind in ("text-delta", "reasoning-delta"):
            blocks[chunk["id"]]["text"] += chunk["delta"]
        elif kind in ("text-end", "reasoning-end"):
            blocks[chunk["id"]].update(state="done", providerMetadata=chunk.get("providerMetadata"))
        elif kind == "tool-input-start":
            parts.append({"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"], "text": ""})
            parts[-1].update(kept, state="input-streaming")
        elif "toolCallId" in chunk:
            (part,) = [part for part in parts if part.get("toolCallId") == chunk["toolCallId"]] or [{}]
            if kind == "tool-input-available" and not part:
                part = {"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"]}
                parts.append(part)
            if kind == "tool-input-delta":
                part["text"] += chunk["inputTextDelta"]
            elif kind == "tool-approval-request":
                part.update(state="approval-requested", approval={"id": chunk["approvalId"]})
            elif kind == "tool-approval-response":
                part.update(state="approval-responded", approval={"id": chunk["approvalId"], "approved": True})
            else:
                state = "output-error" if kind == "tool-input-error" else kind.removeprefix("tool-")
                field = "callProviderMetadata" if "input" in kind else "resultProviderMetadata"
                metadata = {field: chunk["providerMetadata"]} if "providerMetadata" in chunk else {}
                part.update(kept, **metadata, state=state, preliminary=chunk.get("preliminary"))
        elif kind in ("file", "source-url", "source-document") or (
            kind.startswith("data-") and "transient" not in chunk
        ):
            parts.append(chunk)
    return message


def find_faults(chunks: list[Json], version: int) -> list[str]:
    """Return what is wrong with the chunks of a stream, their fields and their order, for a major version."""
    faults: list[str] = []
    used: set[str] = set()
    blocks: set[str] = set()
    calls: dict[str, str] = {}
    is_in_step = False
    for number, chunk in enumerate(chunks):
        kind = chunk["type"]
        place, call_id = f"chunk {number}, {kind}", chunk.get("toolCallId")
        fields = _FIELDS_OF[version].get("data" if kind.startswith("data-") else kind)
        if fields is None or not chunk.keys() <= {"type", *fields.split()}:
            faults.append(f"{place}: version {version} lacks the chunk or one of its fields {list(chunk)}")
        if (kind == "start") != (number == 0):
            faults.append(f"{place}: a stream begins with one start")
        if number and chunks[number - 1]["type"] in _ENDED_BY:
            faults.append(f"{place} after the end")
        if kind in ("start-step", "finish-step"):
            if is_in_step == (kind == "start-step") or blocks:
                faults.append(f"{place}: {sorted(blocks)} are open, or steps are not one after the other")
            is_in_step = kind == "start-step"
        if "id" in chunk and kind.startswith(("text-", "reasoning-")):
            name, phase = kind.split("-")[0] + chunk["id"], kind.split("-")[1]
            if (name in used) == (phase == "start") or (name in blocks) == (phase == "start") or not is_in_step:
                faults.append(f"{place}: {name} is used twice, is not open, or is outside of a step")
            if phase == "delta" and not chunk["delta"]:
                faults.append(f"{place} has no text")
            used.add(name)
            blocks = blocks - {name} if phase == "end" else blocks | {name}
        if call_id is not None:
            before = calls.get(call_id, "none")
            after, allowed = {
                "tool-input-start": ("streaming", ("none",)),
                "tool-input-delta": ("streaming", ("streaming",)),
                "tool-input-available": ("available", ("none", "streaming")),
                "tool-input-error": ("ended", ("none", "streaming")),
                "tool-approval-request": ("available", ("available",)),
                "tool-approval-response": ("available", ("available",)),
                "tool-output-available": ("ended", ("none", "available")),
                "tool-output-error": ("ended", ("none", "available")),
                "tool-output-denied": ("ended", ("none", "available")),
            }[kind]
            if before not in allowed:
                faults.append(f"{place}: the call {call_id} is {before}")
            calls[call_id] = "available" if chunk.get("preliminary") else after
    if blocks or is_in_step or "streaming" in calls.values():
        faults.append(f"never ended: {sorted(blocks)}, {calls}, step: {is_in_step}")
    if chunks[-1]["type"] not in _ENDED_BY:
        faults.append("the stream has no end")
    return faults
