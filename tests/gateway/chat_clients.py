"""Clients that keep their conversation as their own wire has it, and send it whole with each request."""

from __future__ import annotations

import copy
import json
from typing import Any, ClassVar

from gateway.gateway_clients import CITY, Json

SYSTEM = "You know the weather."
TOOL = "weather"


class ChatClient:
    """A client of one wire.

    Attributes:
        messages: the conversation, in the form of the wire.
    """

    wire: ClassVar[str]
    path: ClassVar[str]
    responder: ClassVar[str] = "assistant"  #: the role of the model
    content_field: ClassVar[str] = "content"

    def __init__(self) -> None:
        self.messages: list[Json] = []

    def body(self) -> Json:
        """Return the next request, without a stream."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Add a message of the person."""
        self.messages.append({"role": "user", self.content_field: self.part(text)})

    def part(self, text: str) -> Any:
        """Return the content of a person's message."""
        return text

    def receive(self, response: Json) -> list[tuple[str, str]]:
        """Keep a response, and return the id and the city of each call."""
        raise NotImplementedError

    def answer(self, results: list[tuple[str, str]]) -> None:
        """Add the results of calls, by their ids."""
        raise NotImplementedError

    def forget_reasoning(self) -> None:
        """Leave reasoning out of the conversation, as some clients do."""
        for message in self.messages:
            content = message.get(self.content_field)
            if message.get("role") == self.responder and isinstance(content, list):
                message[self.content_field] = [part for part in content if not self.is_reasoning(part)]

    def is_reasoning(self, part: Json) -> bool:
        """Return True for a part with reasoning or its state."""
        return part.get("type") in ("thinking", "redacted_thinking")


class AnthropicClient(ChatClient):
    wire, path = "anthropic", "/v1/messages"

    def body(self) -> Json:
        tools = [{"name": TOOL, "input_schema": CITY}]
        thinking = {"type": "enabled", "budget_tokens": 2000}
        settings = {"model": "m", "max_tokens": 20000, "thinking": thinking}
        return {**settings, "system": SYSTEM, "tools": tools, "messages": copy.deepcopy(self.messages)}

    def receive(self, response: Json) -> list[tuple[str, str]]:
        self.messages.append({"role": "assistant", "content": response["content"]})
        return [(part["id"], part["input"]["city"]) for part in response["content"] if part["type"] == "tool_use"]

    def answer(self, results: list[tuple[str, str]]) -> None:
        parts = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in results]
        self.messages.append({"role": "user", "content": parts})


class ConverseClient(ChatClient):
    wire, path = "bedrock_converse", "/model/m/converse"

    def body(self) -> Json:
        tools = [{"toolSpec": {"name": TOOL, "inputSchema": {"json": CITY}}}]
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
        settings = {"inferenceConfig": {"maxTokens": 20000}, "additionalModelRequestFields": thinking}
        system = [{"text": SYSTEM}]
        messages = copy.deepcopy(self.messages)
        return {**settings, "system": system, "toolConfig": {"tools": tools}, "messages": messages}

    def say(self, text: str) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append({"text": text})
        else:
            super().say(text)

    def part(self, text: str) -> Any:
        return [{"text": text}]

    def receive(self, response: Json) -> list[tuple[str, str]]:
        message = response["output"]["message"]
        self.messages.append(message)
        calls = [part["toolUse"] for part in message["content"] if "toolUse" in part]
        return [(call["toolUseId"], call["input"]["city"]) for call in calls]

    def answer(self, results: list[tuple[str, str]]) -> None:
        parts = [{"toolResult": {"toolUseId": call_id, "content": [{"text": text}]}} for call_id, text in results]
        self.messages.append({"role": "user", "content": parts})

    def is_reasoning(self, part: Json) -> bool:
        return "reasoningContent" in part


class CompletionsClient(ChatClient):
    wire, path = "openai_chat", "/v1/chat/completions"

    def body(self) -> Json:
        tools = [{"type": "function", "function": {"name": TOOL, "parameters": CITY}}]
        messages = [{"role": "system", "content": SYSTEM}, *copy.deepcopy(self.messages)]
        return {"model": "m", "reasoning_effort": "low", "tools": tools, "messages": messages}

    def receive(self, response: Json) -> list[tuple[str, str]]:
        message = response["choices"][0]["message"]
        self.messages.append(message)
        calls = message.get("tool_calls") or []
        return [(call["id"], json.loads(call["function"]["arguments"])["city"]) for call in calls]

    def answer(self, results: list[tuple[str, str]]) -> None:
        self.messages += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]

    def forget_reasoning(self) -> None:
        for message in self.messages:
            for name in ("reasoning", "reasoning_content", "reasoning_details"):
                message.pop(name, None)


class ResponsesClient(ChatClient):
    wire, path = "openai_responses", "/v1/responses"

    def body(self) -> Json:
        tools = [{"type": "function", "name": TOOL, "parameters": CITY, "strict": False}]
        settings = {"model": "m", "store": False, "reasoning": {"effort": "low"}, "instructions": SYSTEM}
        return {**settings, "tools": tools, "input": copy.deepcopy(self.messages)}

    def receive(self, response: Json) -> list[tuple[str, str]]:
        self.messages += response["output"]
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        return [(call["call_id"], json.loads(call["arguments"])["city"]) for call in calls]

    def answer(self, results: list[tuple[str, str]]) -> None:
        outputs = [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in results]
        self.messages += outputs

    def forget_reasoning(self) -> None:
        self.messages = [item for item in self.messages if item.get("type") != "reasoning"]


class GeminiClient(ChatClient):
    wire, path = "gemini", "/v1beta/models/m:generateContent"
    responder, content_field = "model", "parts"

    def body(self) -> Json:
        tools = [{"functionDeclarations": [{"name": TOOL, "parametersJsonSchema": CITY}]}]
        thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000}}
        system = {"parts": [{"text": SYSTEM}]}
        contents = copy.deepcopy(self.messages)
        return {"systemInstruction": system, "tools": tools, "generationConfig": thinking, "contents": contents}

    def part(self, text: str) -> Any:
        return [{"text": text}]

    def receive(self, response: Json) -> list[tuple[str, str]]:
        content = response["candidates"][0]["content"]
        self.messages.append(content)
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        return [(call["id"], call["args"]["city"]) for call in calls]

    def answer(self, results: list[tuple[str, str]]) -> None:
        responses = [{"id": call_id, "name": TOOL, "response": {"output": text}} for call_id, text in results]
        self.messages.append({"role": "user", "parts": [{"functionResponse": each} for each in responses]})

    def is_reasoning(self, part: Json) -> bool:
        return part.get("thought") is True


CHAT_CLIENTS: tuple[type[ChatClient], ...] = (
    AnthropicClient,
    ConverseClient,
    CompletionsClient,
    ResponsesClient,
    GeminiClient,
)
