"""The dialects of Chat Completions as data: the requests that each server expects, and the form of its streams.

A dialect is a row of ``DIALECTS``. Its fields are for requests and for the writer only: one parser reads the streams of
every dialect. A field that differs from the default has its source next to it: a documented page, a recorded stream,
or the message with which the server refuses anything else. A server without a known difference has only a name.

This module must not depend on sinks or history: a parser loads it without pydantic.
"""

from __future__ import annotations

import re

from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.openai_chat.traits import (
    GROQ_MODELS,
    KIMI_IDS,
    KIMI_MODELS,
    MISTRAL_IDS,
    MISTRAL_MODELS,
    OPENAI_IDS,
    OPENAI_SETTINGS,
    SETTINGS,
    SETTINGS_WITH_TOP_K,
    XAI_MODELS,
    ChatDialect,
    is_chat_stream,
    signature_state,
)
from streamkit.providers.requests.models.openai import OPENAI_MODELS

__all__ = ["DIALECTS"]

#: 400 "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
#: (langchain-ai/langchainjs#9804)
# `true is not of type "number"` for the exclusiveMinimum of draft 4: https://github.com/Dokploy/mcp/issues/83
_OPENAI_SCHEMAS = ToolSchemaRules(
    refused_at_root=frozenset({"anyOf", "oneOf", "allOf", "enum", "not"}), numeric_bounds=True
)

# https://platform.openai.com/docs/guides/images-vision#image-input-requirements
_OPENAI_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})

DIALECTS = (
    ChatDialect(
        name="openai_chat",
        author_names=True,  # https://platform.openai.com/docs/api-reference/chat/create, and the SDKs of Azure and Groq
        image_types=_OPENAI_IMAGES,
        setting_fields=OPENAI_SETTINGS,
        models=OPENAI_MODELS,
        max_stop_texts=4,
        developer_role=True,  # https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
        id_rule=OPENAI_IDS,
        markup_families=frozenset({"harmony"}),
        endpoint=Endpoint(
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            limit_field=("max_completion_tokens",),
        ),
        matches_head=is_chat_stream,  # of this row alone: the first bytes of all dialects are alike
        strict="openai",
        tool_schema=_OPENAI_SCHEMAS,
        refuses_as="openai",
        # Only for servers that are known to do so: Moonshot's revise earlier arguments (danny-avila/agents#181, #237),
        # and others may, too.
        calls_end_in_order=True,
        custom_calls=True,  # https://platform.openai.com/docs/guides/function-calling#custom-tools
    ),
    ChatDialect(
        name="azure_openai",
        author_names=True,
        image_types=_OPENAI_IMAGES,
        setting_fields=OPENAI_SETTINGS,
        models=OPENAI_MODELS,
        max_stop_texts=4,
        developer_role=True,  # https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
        id_rule=OPENAI_IDS,
        markup_families=frozenset({"harmony"}),
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
        tool_schema=_OPENAI_SCHEMAS,
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
        reasoning_setting="thinking",  # https://api-docs.deepseek.com/guides/thinking_mode
        effort_with_switch=True,  # the same page, as the next field: "enabled by default"
        reasons_unless_off=re.compile(""),
        markup_families=frozenset({"dsml", "deepseek"}),
        endpoint=Endpoint(base_url="https://api.deepseek.com/v1", key_variables=("DEEPSEEK_API_KEY",)),
        strict="deepseek",
        output=OutputSupport(),  # 400 "This response_format type is unavailable now" (llm-exe/llm-exe#662)
        refuses_as="deepseek",
        reasoning_field="reasoning_content",
        # https://api-docs.deepseek.com/guides/thinking_mode: ignored in a request without tools, and 400 if it is
        # missing in one with tools (bojieli/ai-agent-book#982 on the page of August 2026, openclaw/openclaw#73417)
        tools_need_reasoning=True,
        calls_need_reasoning=True,
    ),
    ChatDialect(
        name="fireworks",
        setting_fields=SETTINGS_WITH_TOP_K,  # https://docs.fireworks.ai/api-reference/post-chatcompletions
        endpoint=Endpoint(base_url="https://api.fireworks.ai/inference/v1", key_variables=("FIREWORKS_API_KEY",)),
        # 400 "JSON Schema not supported: could not understand the instance `{'required': ['criteria']}`", also of a
        # description or items without a type (earendil-works/pi#5352, code-yeongyu/oh-my-openagent#2961). A list of
        # types is accepted (docker/mcp-gateway#234).
        tool_schema=ToolSchemaRules(typed=True),
        reasoning_field="reasoning_content",  # https://docs.fireworks.ai/guides/reasoning: "safe to use broadly"
    ),
    ChatDialect(
        name="groq",
        author_names=True,
        models=GROQ_MODELS,
        endpoint=Endpoint(base_url="https://api.groq.com/openai/v1", key_variables=("GROQ_API_KEY",)),
        strict="groq",
        # "Streaming and tool use are not currently supported with Structured Outputs"
        # (https://console.groq.com/docs/structured-outputs, read 2026-11)
        output=OutputSupport(has_field=True, with_stream=False, with_tools=False),
        # The SDK's ChatCompletionAssistantMessageParam has it; "reasoning_content" is refused (janhq/jan#8136).
        reasoning_field="reasoning",
        reasoning_of_reasoners=True,  # "reasoning is not supported with this model" (vercel/ai#8057)
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
        reasoning_setting="thinking",  # https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart
        models=KIMI_MODELS,
        reasons_unless_off=re.compile(r"kimi-k(?:2\.[5-9]|[3-9])"),  # can1357/oh-my-pi#1077
        markup_families=frozenset({"kimi"}),
        endpoint=Endpoint(
            base_url="https://api.moonshot.ai/v1",
            key_variables=("MOONSHOT_API_KEY",),
            call_id=None,  # functions.{name}:{index}, which the encoder generates
        ),
        strict="kimi",
        # 400 "not a valid moonshot flavored json schema": "type is not defined", "type should be defined in anyOf items
        # instead of the parent schema" (MoonshotAI/kimi-code#2661, MoonshotAI/kimi-cli#1595, #2061);
        # https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md
        tool_schema=ToolSchemaRules(
            refused_at_root=frozenset({"anyOf", "oneOf", "allOf", "if", "then", "else", "not", "enum"}),
            refused_keywords=frozenset({"$schema"}),
            one_type=True,
        ),
        id_rule=KIMI_IDS,
        # https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model: keep it in the context, all of it
        reasoning_field="reasoning_content",
        # "reasoning_content is missing in assistant tool call message" (bytedance/deer-flow#3043, continue#11711)
        calls_need_reasoning=True,
        result_images=True,  # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        usage_position="choice",
    ),
    ChatDialect(
        name="mistral",
        # 400 "Invalid tool schema" (https://github.com/SylphxAI/pdf-reader-mcp/issues/63)
        tool_schema=ToolSchemaRules(numeric_bounds=True),
        # https://docs.mistral.ai/api/endpoint/chat: another name, and 422 "Extra inputs are not permitted" for others
        setting_fields={**SETTINGS, "seed": ("random_seed",)},
        models=MISTRAL_MODELS,
        markup_families=frozenset(),
        endpoint=Endpoint(
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            call_id=None,  # nine letters and digits, which the encoder generates
        ),
        strict="mistral",
        refuses_as="mistral",
        id_rule=MISTRAL_IDS,
        thinking_parts=True,  # https://docs.mistral.ai/capabilities/reasoning
        reasoning_state=signature_state,
        stream_usage=False,  # 422 "Extra inputs are not permitted" (openai-agents-python#442, avante.nvim#2347)
        required_choice="any",  # https://docs.mistral.ai/capabilities/function_calling
        result_names=True,  # the SDK's ToolMessage
        # 400 "Expected last role User or Tool (or Assistant with prefix True)" (huggingface/smolagents#757)
        prefix=True,
        # The SDK's ToolMessage takes content chunks; tried by mistralai/mistral-vibe#900. Another server of its models
        # refuses them (LibreChat-AI/agents#344); a custom dialect for it is better based on openai_compatible.
        result_images=True,
        document_parts=True,  # https://docs.mistral.ai/capabilities/document_ai/document_qna, also for data URLs
        file_addresses=True,
        message_lists=True,  # https://docs.mistral.ai/cookbooks/mistral-connectors-05-connectors-in-completions
        separator_text="Done.",  # 400 "Unexpected role 'user' after role 'tool'" (NousResearch/hermes-agent#20154)
        one_chunk_calls=True,
        usage_position="finish",
    ),
    ChatDialect(
        name="openai_compatible",
        endpoint=Endpoint(key_variables=("OPENAI_API_KEY",), key_required=False),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="openrouter",
        author_names=True,  # the request schema of https://openrouter.ai/docs/api-reference/overview
        reasoning_setting="object",  # https://openrouter.ai/docs/use-cases/reasoning-tokens
        setting_fields={**SETTINGS_WITH_TOP_K, "verbosity": ("verbosity",)},
        endpoint=Endpoint(base_url="https://openrouter.ai/api/v1", key_variables=("OPENROUTER_API_KEY",)),
        strict="openrouter",
        tool_schema=_OPENAI_SCHEMAS,  # of the servers behind it (HKUDS/nanobot#2287)
        reasoning_field="reasoning",
        reasoning_details=True,  # https://openrouter.ai/docs/use-cases/reasoning-tokens
        # https://openrouter.ai/docs/guides/overview/multimodal/pdfs, both
        file_addresses=True,
        file_annotations=True,
        image_replay=True,  # mozilla-ai/any-llm#1344 tried it
        cache_marks=True,  # https://openrouter.ai/docs/features/prompt-caching
        usage_position="again",
        first_chunk="comment",  # https://openrouter.ai/docs/api-reference/streaming, also for the next field
        error_in_band=True,
    ),
    ChatDialect(
        name="perplexity",
        markup_families=frozenset(),
        endpoint=Endpoint(base_url="https://api.perplexity.ai", key_variables=("PERPLEXITY_API_KEY",)),
        usage_position="finish",
        source_lists=True,  # https://docs.perplexity.ai/api-reference/chat-completions-post
        line_end="\r\n",
        end_marker=None,
    ),
    ChatDialect(
        name="qwen",
        # https://help.aliyun.com/zh/model-studio/deep-thinking
        reasoning_setting="enable_thinking",
        reasons_unless_off=re.compile(r"qwen(?:3\.[5-9]|[4-9])"),  # can1357/oh-my-pi#886
        setting_fields=SETTINGS_WITH_TOP_K,
        cache_marks=True,  # DashScope's explicit cache (BerriAI/litellm#25330, agentscope-ai/agentscope-java#1363)
        markup_families=frozenset({"hermes", "qwen"}),
        endpoint=Endpoint(
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1", key_variables=("DASHSCOPE_API_KEY",)
        ),
        refuses_as="qwen",
        output=OutputSupport(),  # JSON without a schema only (langchain4j/langchain4j#4111)
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="together",
        # The SDK together 3.1: ``reasoning`` is {"enabled"}, and ``reasoning_effort`` has no ``none``.
        reasoning_setting="switch",
        setting_fields=SETTINGS_WITH_TOP_K,  # https://docs.together.ai/reference/chat-completions-1
        endpoint=Endpoint(base_url="https://api.together.xyz/v1", key_variables=("TOGETHER_API_KEY",)),
        reasoning_field="reasoning",
        usage_position="finish",
    ),
    ChatDialect(
        name="vllm",
        setting_fields=SETTINGS_WITH_TOP_K,  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
        endpoint=Endpoint(base_url="http://localhost:8000/v1", key_variables=("VLLM_API_KEY",), key_required=False),
        strict="vllm",
        output=OutputSupport(
            has_field=True, any_root=True
        ),  # https://docs.vllm.ai/en/latest/features/structured_outputs
        reasoning_field="reasoning",
    ),
    ChatDialect(
        name="xai",
        models=XAI_MODELS,
        markup_families=frozenset(),
        endpoint=Endpoint(base_url="https://api.x.ai/v1", key_variables=("XAI_API_KEY",)),
        reasoning_field="reasoning_content",
        result_images=True,  # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        one_chunk_calls=True,
        reasoning_excluded_from_output=True,  # in recorded streams the total is prompt, completion and reasoning tokens
        source_lists=True,  # https://docs.x.ai/docs/guides/live-search
    ),
)
