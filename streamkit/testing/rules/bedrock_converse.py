"""The requests that Bedrock's Converse refuses.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. Some rules are the service's, some
those of Claude, which it runs. Rules of other models are not here, such as the one against text next to results
(langchain-ai/langchain-aws#141). Each rule reports the places of a body that break it. A rule must not raise an
exception for a body of another form: that is reported by the rule ``form``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

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
    """Return the client's calls; a ``toolUse`` with a type is run by the service."""
    return [(number, call) for number, call in _find_members(message, "toolUse") if "type" not in call]


def _find_results(message: Json) -> list[tuple[int, Json]]:
    return [(number, result) for number, result in _find_members(message, "toolResult") if "type" not in result]


def _find_members(message: Json, name: str) -> list[tuple[int, Json]]:
    """Return the member of that name of each block that has one, with the block's index."""
    members = ((number, block.get(name)) for number, block in objects(message.get("content")))
    return [(number, member) for number, member in members if isinstance(member, dict)]


def _messages_have_form(body: Json, _model: str) -> Iterator[Finding]:
    roles = ("user", "assistant", "system")  # the last since ConversationRole of boto3 1.44
    return check_message_form(body, field="messages", content_field="content", roles=roles, must_be_list=True)


def _roles_alternate(body: Json, _model: str) -> Iterator[Finding]:
    for (_, previous), (index, message) in pairwise(objects(body.get("messages"))):
        if message.get("role") == previous.get("role"):
            yield f"messages.{index}.role", "a conversation must alternate between user and assistant roles"


def _texts_are_not_blank(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        for number, block in objects(message.get("content")):
            path = f"messages.{index}.content.{number}"
            blocks = [(path, block)]
            if isinstance(block.get("toolResult"), dict):
                inner = objects(block["toolResult"].get("content"))
                blocks = [(f"{path}.toolResult.content.{position}", item) for position, item in inner]
            for text_path, item in blocks:
                if "text" in item and not (as_text_or_none(item["text"]) or "").strip():
                    yield (
                        f"{text_path}.text",
                        f"is {short_json(item['text'])}: the text field in the ContentBlock is blank",
                    )


def _failed_results_have_content(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        for number, result in _find_results(message):
            if result.get("status") == "error" and not objects(result.get("content")):
                path = f"messages.{index}.content.{number}.toolResult.content"
                yield path, "cannot be empty when status value is error"


def _calls_are_last(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        blocks = objects(message.get("content"))
        if message.get("role") == "assistant" and _find_calls(message) and "toolUse" not in blocks[-1][1]:
            path = f"messages.{index}.content.{blocks[-1][0]}"
            yield path, "is after a toolUse: the model takes it for a prefilled response"


def _tools_are_defined(body: Json, _model: str) -> Iterator[Finding]:
    config = body.get("toolConfig")
    tools = objects(config.get("tools")) if isinstance(config, dict) else []
    if not tools:
        for index, message in objects(body.get("messages")):
            if _find_members(message, "toolUse") or _find_members(message, "toolResult"):
                path = f"messages.{index}"
                yield path, "the toolConfig field must be defined when using toolUse and toolResult blocks"
                return
    names = {name for _, tool in tools if (name := read_chosen_tool(tool, "toolSpec", "name")) is not None}
    chosen_name = read_chosen_tool(config, "toolChoice", "tool", "name")
    yield from check_chosen_tool("toolConfig.toolChoice", chosen_name, names)


_BLOCKS = BlockRules(
    PairedBlocks("toolUse", "assistant", "toolUseId", _find_calls, path=".toolUse"),
    PairedBlocks("toolResult", "user", "toolUseId", _find_results, path=".toolResult"),
)
_REFERENCE = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_"
_FAILED_RESULT = "aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15"
_RULES = (
    Rule("form", _messages_have_form, f"{_REFERENCE}Message.html"),
    Rule("first_message_is_user", first_message_is_user, "langgenius/dify#12340, elastic/kibana#246393"),
    Rule("roles_alternate", _roles_alternate, "langchain-ai/langchain-aws#130, Portkey-AI/gateway#748"),
    Rule("text_not_blank", _texts_are_not_blank, "aws-samples/bedrock-engineer#8, NousResearch/hermes-agent#55092"),
    Rule("no_trailing_white_space", last_text_is_stripped, "junjiem/dify-plugin-agent-mcp_sse#118"),
    Rule("id_pattern", _BLOCKS.ids_are_legal, f"{_REFERENCE}ToolUseBlock.html"),
    Rule("id_unique", _BLOCKS.ids_are_unique, "trycua/cua#524, for Claude on Bedrock"),
    Rule("input_is_object", _BLOCKS.inputs_are_objects, f"{_REFERENCE}ToolUseBlock.html"),
    Rule("call_answered_next", _BLOCKS.calls_have_results, "genkit-ai/aws-bedrock-js-plugin#664, agno-agi/agno#6694"),
    Rule("result_has_call", _BLOCKS.results_have_calls, "strands-agents/harness-sdk#1435, pydantic/pydantic-ai#2327"),
    Rule("results_first", _BLOCKS.results_are_first, "langchain-ai/langchain-aws#451"),
    Rule("failed_result_not_empty", _failed_results_have_content, _FAILED_RESULT),
    Rule("answer_ends_with_calls", _calls_are_last, "NousResearch/hermes-agent#108209"),
    Rule("tools_defined", _tools_are_defined, "langgenius/dify#16421"),
)
