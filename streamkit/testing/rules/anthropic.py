"""The requests that the Messages API refuses; Bedrock's InvokeModel passes the same body on to it.

https://docs.anthropic.com/en/api/messages. Each rule reports the places of a body that break it. A rule must not raise
an exception for a body of another form: that is reported by the rule ``form``.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.provider import Traits
from streamkit.testing.rules.pairing import BlockRules, PairedBlocks, first_message_is_user, last_text_is_stripped
from streamkit.testing.rules.rule import (
    Finding,
    Json,
    Rule,
    as_text_or_none,
    check_chosen_tool,
    check_message_form,
    objects,
    read_chosen_tool,
    short_json,
)

__all__ = ["build_rules"]


def build_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES


def _find_calls(message: Json) -> list[tuple[int, Json]]:
    return _find_blocks(message, "tool_use")


def _find_results(message: Json) -> list[tuple[int, Json]]:
    return _find_blocks(message, "tool_result")


def _find_blocks(message: Json, block_type: str) -> list[tuple[int, Json]]:
    return [(number, block) for number, block in objects(message.get("content")) if block.get("type") == block_type]


def _blocks_of_type(body: Json, block_type: str) -> Iterator[tuple[str, Json]]:
    """Yield the path of each block of a type, and the block."""
    for index, message in objects(body.get("messages")):
        for number, block in _find_blocks(message, block_type):
            yield f"messages.{index}.content.{number}", block


def _is_setting(message: Json) -> bool:
    """Return True for a system message without content that only sets how its turn is answered.

    "A message with neither content nor output_config fields is rejected" (BetaSystemMessageParam); Claude Code sends an
    empty list after a compaction.
    """
    is_system = message.get("role") == "system" and message.get("content") in (None, "", [])
    return is_system and bool(message.get("output_config"))


def _messages_have_form(body: Json, _model: str) -> Iterator[Finding]:
    # The SDK's MessageParam has the role system since version 2; Claude Code sends it.
    roles = ("user", "assistant", "system")
    without_content = {
        f"messages.{index}.content" for index, message in objects(body.get("messages")) if _is_setting(message)
    }
    for path, problem in check_message_form(body, field="messages", content_field="content", roles=roles):
        if path not in without_content:
            yield path, problem
    for index, message in objects(body.get("messages")):
        for number, block in objects(message.get("content")):
            if not isinstance(block.get("type"), str):
                yield f"messages.{index}.content.{number}.type", f"is {short_json(block.get('type'))}, not text"


def _content_is_not_empty(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for index, message in messages:
        is_last_response = index == messages[-1][0] and message.get("role") == "assistant"
        if message.get("content") in ("", []) and not is_last_response and not _is_setting(message):
            yield f"messages.{index}.content", "is empty; only that of a last assistant message may be"


def _texts_are_not_blank(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        content = message.get("content")
        if isinstance(content, str) and content and not content.strip():
            yield f"messages.{index}.content", "is only white space"
    for path, block in _blocks_of_type(body, "text"):
        text = as_text_or_none(block.get("text"))
        if text is None or not text.strip():
            yield f"{path}.text", f"is {short_json(block.get('text'))}; a text block must contain non-whitespace text"


def _calls_have_one_result(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        seen: set[str] = set()
        for number, block in _find_results(message):
            call_id = as_text_or_none(block.get("tool_use_id"))
            if call_id in seen:
                yield f"messages.{index}.content.{number}", f"is a second result of {short_json(call_id)}"
            seen.add(call_id or "")


def _thinking_is_signed(body: Json, _model: str) -> Iterator[Finding]:
    for path, block in _blocks_of_type(body, "thinking"):
        if not as_text_or_none(block.get("signature")):
            yield f"{path}.signature", f"is {short_json(block.get('signature'))}; thinking must have its signature"


def _last_calls_begin_with_thinking(body: Json, _model: str) -> Iterator[Finding]:
    setting = body.get("thinking")
    if not (isinstance(setting, dict) and setting.get("type") == "enabled"):
        return
    responses = [item for item in objects(body.get("messages")) if item[1].get("role") == "assistant"]
    for index, message in responses[-1:]:
        first = next((block for _, block in objects(message.get("content"))), {})
        if _find_calls(message) and first.get("type") not in ("thinking", "redacted_thinking"):
            path = f"messages.{index}.content.0"
            yield path, f"expected thinking or redacted_thinking, found {short_json(first.get('type'))}"


def _chosen_tool_is_defined(body: Json, _model: str) -> Iterator[Finding]:
    tools = objects(body.get("tools"))
    names = {name for _, tool in tools if (name := as_text_or_none(tool.get("name"))) is not None}
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        yield "tool_choice", "there are no tools to choose from"
    elif isinstance(choice, dict) and choice.get("type") == "tool" and len(names) == len(tools):  # else: toolsets
        yield from check_chosen_tool("tool_choice", read_chosen_tool(choice, "name"), names)


_BLOCKS = BlockRules(
    PairedBlocks("tool_use", "assistant", "id", _find_calls),
    PairedBlocks("tool_result", "user", "tool_use_id", _find_results),
    # "Consecutive user or assistant turns in your request will be combined into a single turn"
    # (https://docs.anthropic.com/en/api/messages#body-messages), so each result may be a message of its own.
    joins_messages=True,
)
_REFERENCE = "https://docs.anthropic.com/en/api/messages"
_TOOL_USE = "https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use"
_PAIRED = "anthropics/claude-code#8210, #18947"
_RULES = (
    Rule("form", _messages_have_form, _REFERENCE),
    Rule("first_message_is_user", first_message_is_user, "livekit/agents#669"),
    Rule("content_not_empty", _content_is_not_empty, "anthropics/claude-code#6774"),
    Rule("text_not_blank", _texts_are_not_blank, "anthropics/claude-code#59812, NousResearch/hermes-agent#63983"),
    Rule("no_trailing_white_space", last_text_is_stripped, "anomalyco/opencode#1295, aaif-goose/goose#5967"),
    Rule("id_pattern", _BLOCKS.ids_are_legal, "maximhq/bifrost#5097, langchain-ai/langchain#37756"),
    Rule("id_unique", _BLOCKS.ids_are_unique, "trycua/cua#524, anthropics/claude-code#20901"),
    Rule("input_is_object", _BLOCKS.inputs_are_objects, "anthropics/claude-code#6696, prism-php/prism#659"),
    Rule("call_answered_next", _BLOCKS.calls_have_results, _PAIRED),
    Rule("result_has_call", _BLOCKS.results_have_calls, _PAIRED),
    Rule("one_result_a_call", _calls_have_one_result, "vectorize-io/hindsight#4250"),
    Rule("results_first", _BLOCKS.results_are_first, _TOOL_USE),
    Rule("thinking_signed", _thinking_is_signed, "alibaba/open-code-review#811, maximhq/bifrost#5638"),
    Rule("answer_begins_with_thinking", _last_calls_begin_with_thinking, "RooCodeInc/Roo-Code#10351"),
    Rule("tool_choice_known", _chosen_tool_is_defined, _REFERENCE),
)
