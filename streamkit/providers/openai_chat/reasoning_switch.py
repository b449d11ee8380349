"""Requests that are refused while the model reasons: forced calls, and messages whose reasoning is missing.

DeepSeek: "Thinking mode does not support this tool_choice" (deepseek-ai/DeepSeek-V3#1376). Kimi: "tool_choice
'specified' is incompatible with thinking enabled" (can1357/oh-my-pi#827, #1077). Qwen: "The tool_choice parameter does
not support being set to required or object in thinking mode" (cloudwego/eino#994).

DeepSeek: "The `reasoning_content` in the thinking mode must be passed back to the API" for a call without it
(anomalyco/opencode#24722), in a request with tools for every message of the model (openclaw/openclaw#73417,
bojieli/ai-agent-book#982). Kimi: "thinking is enabled but reasoning_content is missing in assistant tool call message"
(JohnnyZ93/oai-compatible-copilot#140). The reasoning of another provider's model, and one that the model did not have,
cannot be passed back. LiteLLM sends a space to both vendors, as the least that they accept (BerriAI/litellm#28045).
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.openai_chat.traits import ChatDialect

__all__ = ["BLANK_REASONING", "fill_reasoning", "is_reasoning", "reasoning_switch", "why_reasoning_is_refused"]

BLANK_REASONING = " "


def is_reasoning(traits: ChatDialect, model: str | None) -> bool:
    """Return True if the model is known to reason unless a request turns it off."""
    return traits.reasons_unless_off is not None and bool(traits.reasons_unless_off.match((model or "").casefold()))


def reasoning_switch(traits: ChatDialect, *, is_on: bool) -> dict[str, Any]:
    """Return the field with which a dialect turns reasoning on or off; empty if it has no such field."""
    if traits.reasoning_setting == "thinking":
        return {"thinking": {"type": "enabled" if is_on else "disabled"}}
    return {"enable_thinking": is_on} if traits.reasoning_setting == "enable_thinking" else {}


def why_reasoning_is_refused(body: dict[str, Any], traits: ChatDialect) -> str:
    """Return why a request is refused while the model reasons; ``""`` if it is not, or the dialect has no switch."""
    choice = body.get("tool_choice")
    is_forced = isinstance(choice, dict) or (choice is not None and choice == traits.required_choice)
    if is_forced and reasoning_switch(traits, is_on=False):
        return f"{traits.name} refuses it together with a tool choice that forces a call"
    return ""


def fill_reasoning(messages: list[dict[str, Any]], traits: ChatDialect) -> list[dict[str, Any]]:
    """Return messages in which every one of the model has reasoning, if only a blank one."""
    name = traits.reasoning_field
    if name is None:
        return messages
    return [
        {**message, name: BLANK_REASONING} if message.get("role") == "assistant" and name not in message else message
        for message in messages
    ]
