"""Messages of every provider, for tests that parse them: one conversation, and drawn rounds of any conversation."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from streamkit.history import Content, ToolCallBlock, ToolResponseBlock

__all__ = [
    "ARGUMENTS",
    "COHERE",
    "CONVERSATIONS",
    "CONVERSE",
    "NAMES",
    "OLLAMA",
    "PNG",
    "REDACTED",
    "SERVED",
    "SPOKEN",
    "Json",
    "calls_of",
    "compact",
    "results_of",
    "rounds",
]
Json = dict[str, Any]
PNG = "data:image/png;base64,iVBORw0KGgo="


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def calls_of(contents: list[Content]) -> list[ToolCallBlock]:
    return [block for content in contents for block in content.blocks if isinstance(block, ToolCallBlock)]


def results_of(contents: list[Content]) -> list[ToolResponseBlock]:
    return [block for content in contents for block in content.blocks if isinstance(block, ToolResponseBlock)]


# ---------------------------------------------------------------- one conversation as every provider's messages

CHAT: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"t":21}'},
    {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    {"role": "assistant", "content": "21 degrees."},
]
RESPONSES: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {"type": "message", "role": "assistant", "content": "I look."},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Oslo"}'},
    {"type": "function_call", "call_id": "call_2", "name": "clock", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": '{"t":21}'},
    {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
    {"type": "message", "role": "assistant", "content": "21 degrees."},
]
ANTHROPIC: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "call_2", "name": "clock", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": '{"t":21}'},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "noon"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "21 degrees."}]},
]
GEMINI: list[Json] = [
    {"role": "user", "parts": [{"text": "Weather?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "I look."},
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}},
            {"functionCall": {"name": "clock", "args": {}, "id": "call_2"}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "weather", "response": {"result": '{"t":21}'}, "id": "call_1"}},
            {"functionResponse": {"name": "clock", "response": {"result": "noon"}, "id": "call_2"}},
        ],
    },
    {"role": "model", "parts": [{"text": "21 degrees."}]},
]
VERCEL: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool-call", "toolCallId": "call_1", "toolName": "weather", "input": {"city": "Oslo"}},
            {"type": "tool-call", "toolCallId": "call_2", "toolName": "clock", "input": {}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "call_1",
                "toolName": "weather",
                "output": {"type": "text", "value": '{"t":21}'},
            },
            {
                "type": "tool-result",
                "toolCallId": "call_2",
                "toolName": "clock",
                "output": {"type": "text", "value": "noon"},
            },
        ],
    },
    {"role": "assistant", "content": "21 degrees."},
]
CONVERSATIONS: dict[str, tuple[list[Json], Any]] = {
    "openai_chat": (CHAT, None),
    "openai_responses": (RESPONSES, None),
    "anthropic": (ANTHROPIC, [{"type": "text", "text": "Be brief."}]),
    "gemini": (GEMINI, {"parts": [{"text": "Be brief."}]}),
    "vercel": (VERCEL, None),
}

COHERE: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "tool_plan": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"t":21}'},
    {"role": "tool", "tool_call_id": "c2", "content": "noon"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "21."}]},
]
OLLAMA: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?", "images": ["iVBORw0KGgo="]},
    {
        "role": "assistant",
        "content": "I look.",
        "thinking": "hm",
        "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Oslo"}}},
            {"id": "call_7", "function": {"name": "weather", "arguments": {"city": "Bergen"}}},
        ],
    },
    {"role": "tool", "content": "21", "tool_name": "weather"},
    {"role": "tool", "content": "9", "tool_name": "weather", "tool_call_id": "call_7"},
    {"role": "assistant", "content": "21 and 9."},
]
SIGNED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "SIG"}}}
REDACTED = {"reasoningContent": {"redactedContent": "QQ=="}}
CITED = {"citationsContent": {"content": [{"text": "So."}], "citations": [{"title": "t"}]}}
SERVED = [
    {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "s1", "content": [{"json": {"a": 1}}], "type": "nova_grounding_result"}},
]
CONVERSE: list[Json] = [
    {
        "role": "user",
        "content": [
            {"text": "Weather?"},
            {"image": {"format": "jpeg", "source": {"bytes": "/9j/"}}},
            {"document": {"format": "pdf", "name": "report", "source": {"s3Location": {"uri": "s3://b/r.pdf"}}}},
            {"cachePoint": {"type": "default"}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            SIGNED,
            REDACTED,
            *SERVED,
            CITED,
            {"text": "I look."},
            {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Oslo"}}},
            {"toolUse": {"toolUseId": "tooluse_2", "name": "clock", "input": {}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"t": 21}}]}},
            {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "broken"}], "status": "error"}},
            {"text": "And?"},
        ],
    },
]

# ---------------------------------------------------------------- drawn rounds

NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,8}", fullmatch=True)
SPOKEN = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() == text)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=2)


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[str, list[tuple[str, str, Json, str]], str]]:
    """Draw the rounds of a conversation: a text, calls (id, name, arguments, result), the next question."""
    number = 0
    rendered = []
    for _ in range(draw(st.integers(1, 3))):
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            calls.append((f"id_{number}", draw(NAMES), draw(ARGUMENTS), draw(st.text(max_size=6))))
        text = draw(SPOKEN) if not calls else draw(SPOKEN | st.just(""))
        rendered.append((text, calls, draw(SPOKEN)))
    return rendered
