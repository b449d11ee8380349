"""A page that speaks AG-UI, in Python: what its client makes of a stream of events, and what it refuses.

It follows ``verify.ts`` and ``apply/default.ts`` of npm ``@ag-ui/client`` 1.0.0; ``tests/agui`` runs the client itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
STARTS = {
    "TEXT_MESSAGE": "messageId",
    "REASONING_MESSAGE": "messageId",
    "REASONING": "messageId",
    "TOOL_CALL": "toolCallId",
}


def events_of(data: bytes) -> list[dict[str, Any]]:
    """Return the events of frames, each of which fits its type, without further fields."""
    events: list[dict[str, Any]] = []
    for frame in data.decode().split("\n\n")[:-1]:
        assert frame.startswith("data: ")
        assert "\n" not in frame
        event = json.loads(frame.removeprefix("data: "))
        check_fields(EVENT.validate_python(event))
        events.append(event)
    assert data == b"" or data.endswith(b"\n\n")
    return events


def check_fields(value: Any) -> None:
    """Check that a model has no field that the protocol does not describe."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, (type(value).__name__, value.model_extra)
        for name in type(value).model_fields:
            if name not in ("metadata", "snapshot", "value", "response_schema"):
                check_fields(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            check_fields(item)


@dataclass
class Page:
    """A page: its messages, and how its last run ended."""

    thread_id: str = "thread-1"
    version: str | None = "1.0"
    messages: list[dict[str, Any]] = field(default_factory=list)
    custom: list[dict[str, Any]] = field(default_factory=list)
    interrupts: list[dict[str, Any]] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    runs: int = 0

    def say(self, text: str) -> dict[str, Any]:
        """Return the input of a run with a new message."""
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})
        return self.input()

    def input(self, **fields: Any) -> dict[str, Any]:
        """Return the input of the next run."""
        self.runs += 1
        version = {} if self.version is None else {"protocolVersion": self.version}
        messages = [message for message in self.messages if message["role"] != "activity"]
        return {"threadId": self.thread_id, "runId": f"run-{self.runs}", "messages": messages, **version, **fields}

    def answer(self, *payloads: Any) -> dict[str, Any]:
        """Return the input that answers the interrupts in their order."""
        entries = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
            for interrupt, payload in zip(self.interrupts, payloads, strict=True)
        ]
        return self.input(resume=entries)

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Read a complete run; check the rules of its order."""
        events = events_of(data)
        used: set[tuple[str, str]] = set()
        active: set[tuple[str, str]] = set()
        assert events[0]["type"] == "RUN_STARTED"
        assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
        for event in events[1:-1]:
            assert event["type"] not in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")
        for event in events:
            kind = event["type"]
            for name, key in STARTS.items():
                part = (name, event.get(key, ""))
                if kind == f"{name}_START":
                    assert part not in used, f"{part} begins twice"
                    used.add(part)
                    active.add(part)
                elif kind == f"{name}_END":
                    active.remove(part)
                elif kind in (f"{name}_CONTENT", f"{name}_ARGS"):
                    assert part in active
            self._apply(event)
        assert not active, f"{active} are open at the end"
        ids = [message["id"] for message in self.messages]
        assert len(ids) == len(set(ids)), "two messages have one id"
        self.end = events[-1]
        outcome = self.end.get("outcome") or {"type": "success"}
        self.interrupts, self.pending = outcome.get("interrupts", []), outcome.get("pendingToolCallIds", [])
        if self.version is None:
            assert "pendingToolCallIds" not in outcome
            assert outcome["type"] in ("success", "interrupt")
        return events

    def _find(self, name: str) -> dict[str, Any]:
        return next(message for message in self.messages if message["id"] == name)

    def _call(self, name: str) -> dict[str, Any]:
        calls = [call for message in self.messages for call in message.get("toolCalls", ()) if call["id"] == name]
        assert len(calls) == 1
        found: dict[str, Any] = calls[0]
        return found

    def _apply(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START", "messageId": name, "role": role}:
                assert all(message["id"] != name for message in self.messages)
                self.messages.append({"id": name, "role": role, "content": ""})
            case {"type": "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": delta}:
                self._find(name)["content"] += delta
            case {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": tool, "parentMessageId": parent}:
                if all(message["id"] != parent for message in self.messages):
                    self.messages.append({"id": parent, "role": "assistant"})
                call = {"id": name, "type": "function", "function": {"name": tool, "arguments": ""}}
                assert self._find(parent)["role"] == "assistant"
                self._find(parent).setdefault("toolCalls", []).append(call)
            case {"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": delta}:
                self._call(name)["function"]["arguments"] += delta
            case {"type": "TOOL_CALL_RESULT", "toolCallId": name, "messageId": own, "content": content}:
                owners = [message for message in self.messages if name in str(message.get("toolCalls"))]
                at = self.messages.index(owners[0]) + 1
                while at < len(self.messages) and self.messages[at]["role"] == "tool":
                    assert self.messages[at]["toolCallId"] != name, "a call has two results"
                    at += 1
                self.messages.insert(at, {"id": own, "role": "tool", "toolCallId": name, "content": content})
            case {"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": name, "encryptedValue": value}:
                entity = self._call(name) if subtype == "tool-call" else self._find(name)
                entity["encryptedValue"] = value
            case {"type": "CUSTOM" | "ACTIVITY_SNAPSHOT" | "STATE_DELTA" | "STATE_SNAPSHOT"}:
                self.custom.append(event)
