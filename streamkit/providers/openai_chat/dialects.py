"""What tells one dialect of Chat Completions from another, as data.

Facts of three kinds: how ids look, what a request wants differently (``render``), how streams look (``emit``). There
are none for reading: one parser reads what any of them sends. A fact stands here with its source, or it is the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from streamkit.ids import is_mistral_id, mistral_id_candidates, normalize_to_openai_tool_id
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.openai_chat.detect import is_chat_stream
from streamkit.providers.provider import Traits
from streamkit.target_ids import IdRule, prefixed_ids, safe_up_to

__all__ = ["DIALECTS", "ChatDialect"]


def _kimi_ids(id: str, name: str, number: int) -> Iterator[str]:
    return (f"functions.{name}:{running}" for running in count(number))


_OPENAI_IDS = IdRule(
    "openai_chat",
    safe_up_to(40),
    prefixed_ids("call_", 40, normalize_to_openai_tool_id),
    "400 string_above_max_length, at most 40 (agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171)",
)
_MISTRAL_IDS = IdRule(
    "mistral",
    is_mistral_id,
    mistral_id_candidates,
    '400 "must be a-z, A-Z, 0-9, with a length of 9" (langchain-ai/langchain#24668, anomalyco/opencode#1680)',
)
_KIMI_IDS = IdRule(
    "kimi",
    bool,
    _kimi_ids,
    "the model was trained on functions.{name}:{running index} and degrades on other ids"
    " (vybestack/llxprt-code#713, vllm-project/vllm#21259)",
)


@dataclass(frozen=True, kw_only=True)
class ChatDialect(Traits):
    """One dialect.

    Attributes:
        reasoning_field: the field in which reasoning is streamed and wanted back, None where it is not.
        thinking_parts: reasoning stands in ``content`` instead, as parts of type ``thinking``.
        reasoning_replay: which reasoning goes back: ``always``; ``tool_turns``, that of turns in which a tool was
            called; ``never``.
        stream_usage: whether usage must be asked for by ``stream_options``; False where that is refused.
        required_choice: the word for "one of the tools must be called".
        result_names: a tool's message names the tool.
        prefix: an assistant message that ends the thread, to be continued, must say so by ``prefix``.
        bridge: what the model says between a tool's result and a person's message, where one may not follow the other.
        custom_calls: there are custom tools; elsewhere such a call goes as a function of one text, ``input``.
        result_images: a tool's message takes images; elsewhere they are shown by the user behind the results.
        document_parts: a file is a part ``document_url``; elsewhere it is a ``file``.
        file_addresses: a file may be given by its address.
        file_annotations: annotations of type ``file`` go back, so that the file is not parsed again.
        image_replay: images that the model made go back.
        strict: whose strict mode it has for tools (a name of ``strict.MODES``); None where it has none.
        refuses_as: whose rules of requests it has (``request_rules.py``).
        one_chunk_calls: ``emit`` writes a call in one chunk.
        finish_with_last: the finish reason comes with the last piece, not in a chunk of its own.
        reasoning_details: reasoning is streamed a second time, in typed details.
        usage_in: where usage is streamed: in a chunk of its own, beside the finish, in ``x_groq`` there, in the choice
            there, or in a further chunk that says the finish again.
        reasoning_apart: ``completion_tokens`` does not hold the reasoning.
        opening: what a stream begins with: Azure's verdict on the prompt, or a comment.
        source_lists: sources come as top-level lists, not as annotations.
        error_in_band: an answer that breaks off says why in a chunk.
    """

    # facts of the wire that differ from those of most wires
    reuses_slots: bool = True
    whole_names: bool = False
    id_rule: IdRule = _OPENAI_IDS
    end_marker: str | None = "[DONE]"
    # what a request wants
    reasoning_field: str | None = None
    thinking_parts: bool = False
    reasoning_replay: Literal["always", "tool_turns", "never"] = "always"
    stream_usage: bool = True
    required_choice: str = "required"
    result_names: bool = False
    prefix: bool = False
    separator_text: str | None = None
    custom_calls: bool = False
    result_images: bool = False
    document_parts: bool = False
    file_addresses: bool = False
    file_annotations: bool = False
    image_replay: bool = False
    strict: str | None = None
    refuses_as: Literal["chat", "openai", "mistral"] = "chat"
    # how a stream looks
    one_chunk_calls: bool = False
    finish_in_last_delta: bool = False
    reasoning_details: bool = False
    usage_position: Literal["own", "finish", "x_groq", "choice", "again"] = "own"
    reasoning_excluded_from_output: bool = False
    first_chunk: Literal["prompt_filter", "comment"] | None = None
    source_lists: bool = False
    error_in_band: bool = False


DIALECTS = (
    ChatDialect(
        name="openai_chat",
        endpoint=Endpoint(
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            limit_field=("max_completion_tokens",),
        ),
        matches_head=is_chat_stream,  # the dialects cannot be told apart by their first bytes
        strict="openai",
        refuses_as="openai",
        # Only where it is known: Moonshot's servers revise earlier arguments (danny-avila/agents#181, #237), and so may
        # what answers under any other name.
        calls_end_in_order=True,
        custom_calls=True,  # https://platform.openai.com/docs/guides/function-calling#custom-tools
    ),
    ChatDialect(
        name="azure_openai",
        endpoint=Endpoint(
            base_url_variable="AZURE_OPENAI_ENDPOINT",
            path="/openai/deployments/{model}/chat/completions?api-version=2024-10-21",
            key_variables=("AZURE_OPENAI_API_KEY",),
            key_header=("api-key", "{}"),
            limit_field=("max_completion_tokens",),
            # The SDK's `azure_endpoint` has no path; it adds /openai/deployments/{deployment}/chat/completions itself.
            sdk_base_path="",
            route_example="/openai/deployments/{deployment}/chat/completions",
        ),
        strict="azure",
        refuses_as="openai",
        calls_end_in_order=True,
        custom_calls=True,
        first_chunk="prompt_filter",  # https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
    ),
    ChatDialect(
        name="cerebras",
        endpoint=Endpoint(base_url="https://api.cerebras.ai/v1", key_variables=("CEREBRAS_API_KEY",)),
        strict="cerebras",
        reasoning_field="reasoning",  # "reasoning_content" is refused (QwenLM/qwen-code#11045)
        usage_position="finish",
    ),
    ChatDialect(
        name="deepseek",
        endpoint=Endpoint(base_url="https://api.deepseek.com/v1", key_variables=("DEEPSEEK_API_KEY",)),
        strict="deepseek",
        reasoning_field="reasoning_content",
        # https://api-docs.deepseek.com/guides/thinking_mode: 400 where it is missing after a tool call (#tool-calls),
        # ignored elsewhere; the API before refused it there, when there were no tools (earendil-works/pi#3636).
        reasoning_replay="tool_turns",
        calls_need_reasoning=True,
    ),
    ChatDialect(
        name="fireworks",
        endpoint=Endpoint(base_url="https://api.fireworks.ai/inference/v1", key_variables=("FIREWORKS_API_KEY",)),
        reasoning_field="reasoning_content",  # https://docs.fireworks.ai/guides/reasoning: "safe to use broadly"
    ),
    ChatDialect(
        name="groq",
        endpoint=Endpoint(base_url="https://api.groq.com/openai/v1", key_variables=("GROQ_API_KEY",)),
        strict="groq",
        # The SDK's ChatCompletionAssistantMessageParam has it; "reasoning_content" is refused (janhq/jan#8136).
        reasoning_field="reasoning",
        one_chunk_calls=True,
        usage_position="x_groq",
    ),
    ChatDialect(
        name="huggingface",
        endpoint=Endpoint(base_url="https://router.huggingface.co/v1", key_variables=("HF_TOKEN",)),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="kimi",
        endpoint=Endpoint(
            base_url="https://api.moonshot.ai/v1",
            key_variables=("MOONSHOT_API_KEY",),
            call_id=None,  # functions.{name}:{index}, which the encoder makes
        ),
        strict="kimi",
        id_rule=_KIMI_IDS,
        default_ids="origin",  # its ids mean something to the model
        # https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model: keep it in the context, all of it
        reasoning_field="reasoning_content",
        # "reasoning_content is missing in assistant tool call message" (bytedance/deer-flow#3043, continue#11711)
        calls_need_reasoning=True,
        result_images=True,  # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        usage_position="choice",
    ),
    ChatDialect(
        name="mistral",
        endpoint=Endpoint(
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            call_id=None,  # nine letters and digits, which the encoder makes
        ),
        strict="mistral",
        refuses_as="mistral",
        id_rule=_MISTRAL_IDS,
        thinking_parts=True,  # https://docs.mistral.ai/capabilities/reasoning
        stream_usage=False,  # 422 "Extra inputs are not permitted" (openai-agents-python#442, avante.nvim#2347)
        required_choice="any",  # https://docs.mistral.ai/capabilities/function_calling
        result_names=True,  # the SDK's ToolMessage
        # 400 "Expected last role User or Tool (or Assistant with prefix True)" (huggingface/smolagents#757)
        prefix=True,
        # The SDK's ToolMessage holds content chunks; tried by mistralai/mistral-vibe#900. Another server of its models
        # refuses them (LibreChat-AI/agents#344), so a dialect of one's own is better based on openai_compatible.
        result_images=True,
        document_parts=True,  # https://docs.mistral.ai/capabilities/document_ai/document_qna: data URLs, too
        file_addresses=True,
        separator_text="Done.",  # 400 "Unexpected role 'user' after role 'tool'" (NousResearch/hermes-agent#20154)
        one_chunk_calls=True,
        finish_in_last_delta=True,
        usage_position="finish",
    ),
    ChatDialect(
        name="openai_compatible",
        endpoint=Endpoint(key_variables=("OPENAI_API_KEY",), key_required=False),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="openrouter",
        endpoint=Endpoint(base_url="https://openrouter.ai/api/v1", key_variables=("OPENROUTER_API_KEY",)),
        strict="openrouter",
        reasoning_field="reasoning",
        reasoning_details=True,  # https://openrouter.ai/docs/use-cases/reasoning-tokens
        # https://openrouter.ai/docs/guides/overview/multimodal/pdfs, both
        file_addresses=True,
        file_annotations=True,
        image_replay=True,  # mozilla-ai/any-llm#1344 tried it
        usage_position="again",
        first_chunk="comment",  # https://openrouter.ai/docs/api-reference/streaming, as the error in band
        error_in_band=True,
    ),
    ChatDialect(
        name="perplexity",
        endpoint=Endpoint(base_url="https://api.perplexity.ai", key_variables=("PERPLEXITY_API_KEY",)),
        usage_position="finish",
        source_lists=True,  # https://docs.perplexity.ai/api-reference/chat-completions-post
        line_end="\r\n",
        end_marker=None,
    ),
    ChatDialect(
        name="qwen",
        endpoint=Endpoint(
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1", key_variables=("DASHSCOPE_API_KEY",)
        ),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="together",
        endpoint=Endpoint(base_url="https://api.together.xyz/v1", key_variables=("TOGETHER_API_KEY",)),
        reasoning_field="reasoning",
        usage_position="finish",
    ),
    ChatDialect(
        name="vllm",
        endpoint=Endpoint(base_url="http://localhost:8000/v1", key_variables=("VLLM_API_KEY",), key_required=False),
        strict="vllm",
        reasoning_field="reasoning",
    ),
    ChatDialect(
        name="xai",
        endpoint=Endpoint(base_url="https://api.x.ai/v1", key_variables=("XAI_API_KEY",)),
        reasoning_field="reasoning_content",
        result_images=True,  # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        one_chunk_calls=True,
        reasoning_excluded_from_output=True,  # in recorded streams the total is prompt, completion and reasoning tokens
        source_lists=True,  # https://docs.x.ai/docs/guides/live-search
    ),
)
