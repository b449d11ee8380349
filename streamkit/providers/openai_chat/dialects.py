"""The dialects of Chat Completions as data: the requests that each server expects, and the form of its streams.

A dialect is a row of ``DIALECTS``, which has what differs. Its fields are for requests and for the writer: one parser
reads the streams of every dialect. A field that differs from the default has its source next to it: a documented page,
a recorded stream, or the message with which the server refuses anything else. A server without a known difference has
only a name and an endpoint.

This module must not depend on sinks or history: a parser loads it without pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field, structs

from streamkit.calls import StreamError
from streamkit.ids import IdRule
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import MODEL_ENTRY, Endpoint, ModelFacts, SharedField, matches_no_head
from streamkit.providers.openai_chat.traits import (
    ERRORS,
    ILLEGAL_IN_NAME,
    IMPLIED,
    KIMI_IDS,
    MISTRAL_IDS,
    OPENAI_IDS,
    OPENAI_SETTINGS,
    RULES_OF_MODELS,
    SECOND_KEY,
    SERVER_IDS,
    SETTINGS,
    SETTINGS_WITH_TOP_K,
    call_state,
    is_chat_stream,
    rate_message,
    reasoning_state,
    signature_state,
)
from streamkit.providers.provider import Traits
from streamkit.providers.requests.models.openai import OPENAI_FIELDS, OPENAI_MODELS
from streamkit.values.message_format import RateMessage

__all__ = ["DIALECTS", "ChatDialect", "MediaForm", "MessageForm", "ReasoningRules", "StreamForm"]


class MessageForm(Struct, frozen=True, kw_only=True):
    """The roles, names and order of a dialect's messages."""

    developer_role: bool = False  #: a message may have the role ``developer``
    #: a message may have the ``name`` of its author. Mistral refuses one (microsoft/autogen#2748).
    author_names: bool = False
    #: the arguments of a call may be any text; elsewhere they are JSON, which vLLM and llama.cpp parse
    any_arguments: bool = False
    result_names: bool = False  #: a tool message has the tool's name
    prefix: bool = False  #: a last assistant message that the model shall continue has the field ``prefix``
    #: the text of an assistant message between a tool message and a user message, if the one must not follow the other;
    #: None if it may
    separator_text: str | None = None


class MediaForm(Struct, frozen=True, kw_only=True):
    """The images and files that a dialect's messages may have, and their form."""

    #: the media types of images that it takes; None if they are not documented
    image_types: frozenset[str] | None = None
    #: a tool message may have images. Elsewhere a user message after the results shows them.
    result_images: bool = False
    image_replay: bool = False  #: images that the model generated are sent back
    document_parts: bool = False  #: a file is a part of type ``document_url``; elsewhere of type ``file``
    #: a message may have a part of type ``video_url``
    video_parts: bool = False
    file_addresses: bool = False  #: a file may be sent as its address
    file_annotations: bool = False  #: annotations of type ``file`` are sent back, so that the file is not parsed again


class ReasoningRules(Struct, frozen=True, kw_only=True):
    """How a dialect's requests ask for reasoning, and which of them a server refuses because of it."""

    #: how it is requested: ``effort``, by ``reasoning_effort``; ``switch``, by that or by Together's ``reasoning``;
    #: ``object``, OpenRouter's ``reasoning``; ``thinking``, a switch; ``enable_thinking``, Qwen's, with a budget; None
    #: if it cannot be
    setting: Literal["effort", "switch", "object", "thinking", "enable_thinking"] | None = "effort"
    #: a request that turns reasoning on with ``thinking`` may have ``reasoning_effort``, too
    effort_with_switch: bool = False
    #: matches the names of the models, in lower case, that reason unless a request turns it off, and refuse some
    #: requests while they do (``requests.reasoning_switch``); None if there are none
    unless_off: re.Pattern[str] | None = None
    needed_with_tools: bool = False  #: a request with tools is refused if a message of these models has no reasoning
    #: a model without a setting for reasoning (``ModelFacts``) refuses reasoning in messages
    of_reasoners: bool = False


class StreamForm(Struct, frozen=True, kw_only=True):
    """What a dialect's streams have that others have not, or elsewhere."""

    #: a choice may be a list of messages, with the calls that the server ran and their results
    message_lists: bool = False
    one_chunk_calls: bool = False  #: a call is sent in one chunk
    reasoning_details: bool = False  #: reasoning is streamed a second time, in typed details
    #: the place of the usage: ``own``, a chunk of its own; ``finish``, the chunk with the finish reason; ``x_groq``,
    #: that field of the same chunk as well; ``choice``, the choice with the finish reason; ``again``, a further chunk
    #: that repeats the finish reason
    usage_position: Literal["own", "finish", "x_groq", "choice", "again"] = "own"
    reasoning_excluded_from_output: bool = False  #: ``completion_tokens`` does not include the reasoning
    #: what a stream begins with: ``prompt_filter``, Azure's filter results of the prompt; ``comment``, an SSE comment
    first_chunk: Literal["prompt_filter", "comment"] | None = None
    source_lists: bool = False  #: sources are lists of the chunk, not annotations of the text
    error_in_band: bool = False  #: a response that breaks off has its error in the last chunk


class ChatDialect(Traits, frozen=True, kw_only=True):
    """Declared facts of one dialect, in addition to those of every provider.

    Attributes:
        reasoning_field: the field in which reasoning is streamed and sent back; None if there is none.
        thinking_parts: reasoning is in ``content`` instead, as parts of type ``thinking``.
        reasoning_replay: which reasoning is sent back: ``always``; ``tool_turns``, that of turns with a call;
            ``never``.
        reasoning, messages, media, stream: groups of facts.
        required_choice: the value of ``tool_choice`` for "one of the tools must be called".
        cache_marks: parts of content have ``cache_control``, in the form of Anthropic's blocks. Tools have none: a mark
            on the system text, which follows them, caches them too.
        strict: the name of its strict mode for tools in ``requests.STRICT_PROFILES``; None if it has none.
    """

    # defaults of Traits that differ for this wire
    request_rules: str | None = "streamkit.testing.rules.openai_chat"
    reuses_slots: bool = True
    whole_names: bool = False
    second_key: str | None = SECOND_KEY
    id_rule: IdRule = SERVER_IDS
    model_id_rules: Mapping[str, IdRule] = field(default_factory=lambda: RULES_OF_MODELS)
    stream_usage: bool = True  # https://platform.openai.com/docs/api-reference/chat/create, "stream_options"
    end_marker: str | None = "[DONE]"
    classify_error: Callable[[StreamError], StreamError] = ERRORS.classify
    output: OutputSupport = OutputSupport(has_field=True)
    signature_fields: tuple[str, ...] = ("extra_content", "thought_signature")  # of Gemini's OpenAI-compatible endpoint
    setting_fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: SETTINGS)
    implied_fields: Mapping[str, Any] = field(default_factory=lambda: IMPLIED)
    # The rule of OpenAI, which most servers took over ("'tools[0].function.name': string does not match pattern").
    illegal_in_name: re.Pattern[str] | None = ILLEGAL_IN_NAME
    reasoning_state: Callable[[str, bool], tuple[str | None, dict[str, Any]]] | None = reasoning_state
    joins_blocks: bool = True
    call_state: Callable[[str], dict[str, Any]] | None = call_state
    rate_message: RateMessage = rate_message
    # what dialects differ in
    reasoning_field: str | None = None
    thinking_parts: bool = False
    reasoning_replay: Literal["always", "tool_turns", "never"] = "always"
    reasoning: ReasoningRules = ReasoningRules()
    messages: MessageForm = MessageForm()
    media: MediaForm = MediaForm()
    stream: StreamForm = StreamForm()
    required_choice: str = "required"
    image_details: bool = True
    strict: str | None = None

    def __post_init__(self) -> None:
        """Derive whether reasoning without a signature is sent back, which the fields about reasoning decide."""
        has_place = self.thinking_parts or self.reasoning_field is not None
        structs.force_setattr(self, "plain_reasoning", has_place and self.reasoning_replay != "never")


_GROQ_REASONING = "https://console.groq.com/docs/reasoning"
#: "`reasoning_effort` is not supported with this model" (https://console.groq.com/docs/reasoning)
_GROQ_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"openai/gpt-oss": ModelFacts(
        source=_GROQ_REASONING, reasoning="effort", efforts=("low", "medium", "high"), reasoning_is_optional=False
    ),
    # ``reasoning_effort`` in the SDK groq 1.7: "qwen3 models support `none` to disable reasoning and `default`", and
    # "qwen/qwen3.8-27b additionally supports `low`, `medium`, and `high`"
    r"qwen/qwen3\.8": ModelFacts(
        source=_GROQ_REASONING, reasoning="effort", efforts=("low", "medium", "high", "default")
    ),
    r"qwen/qwen3": ModelFacts(source=_GROQ_REASONING, reasoning="effort", efforts=("default",)),
    r"": ModelFacts(source=_GROQ_REASONING, reasoning="none"),
}
#: "invalid temperature: only 1 is allowed for this model", "invalid top_p: only 0.95 is allowed for this model"
#: (odysseus-dev/odysseus#3959, CherryHQ/cherry-studio#12731). Without reasoning it is another temperature, so both are
#: left out (HKUDS/nanobot#4967).
_KIMI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"kimi-k(?:2\.[5-9]|[3-9])": ModelFacts(
        source="https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart#parameters-differences-in-request-body",
        refused=frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"}),
    ),
}
_MISTRAL_REASONING = "https://docs.mistral.ai/inference/conversations/reasoning"
#: "Must be one of (<ReasoningEffort.none: 'none'>, <ReasoningEffort.high: 'high'>)" with status 400 for other efforts
#: (architects-toolkit/SmartHopper#647); models whose reasoning is not adjustable refuse the field
#: (NousResearch/hermes-agent#11243, tontinton/maki#396).
_MISTRAL_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"mistral-small-(?:latest|2[6-9]|4)|mistral-medium-(?:latest|2[6-9]|3[-.]5)": ModelFacts(
        source=_MISTRAL_REASONING, reasoning="effort", efforts=("high",)
    ),
    r"mistral-large-4": ModelFacts(source=_MISTRAL_REASONING, reasoning="effort", efforts=("low", "medium", "high")),
    r"zai-glm": ModelFacts(source="vercel/ai#20587", reasoning="effort"),
    r"": ModelFacts(source=_MISTRAL_REASONING, reasoning="none"),
}
#: "presencePenalty, frequencyPenalty and stop are not supported by reasoning models"
_REFUSED_BY_REASONING_GROKS = frozenset({"presence_penalty", "frequency_penalty", "stop"})
_XAI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"grok-3-mini": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning",
        refused=_REFUSED_BY_REASONING_GROKS,
        reasoning="effort",
        efforts=("low", "high"),
        reasoning_is_optional=False,
    ),
    r"grok-(?:4|code)": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning", refused=_REFUSED_BY_REASONING_GROKS, reasoning="none"
    ),
}

#: 400 "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
#: (langchain-ai/langchainjs#9804)
# `true is not of type "number"` for the exclusiveMinimum of draft 4: https://github.com/Dokploy/mcp/issues/83
_OPENAI_SCHEMAS = ToolSchemaRules(
    refused_at_root=frozenset({"anyOf", "oneOf", "allOf", "enum", "not"}), numeric_bounds=True
)
# https://platform.openai.com/docs/guides/images-vision#image-input-requirements
_OPENAI_MEDIA = MediaForm(image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"}))
# https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages, and the SDK of Azure
_OPENAI_MESSAGES = MessageForm(developer_role=True, author_names=True, any_arguments=True)

_OPENAI = ChatDialect(
    name="openai_chat",
    messages=_OPENAI_MESSAGES,
    media=_OPENAI_MEDIA,
    setting_fields=OPENAI_SETTINGS,
    shared_fields={
        **OPENAI_FIELDS,
        # "The 'metadata' parameter is only allowed when 'store' is enabled."
        "metadata": SharedField(("metadata",), {"store": True}),
        "top_logprobs": SharedField(("top_logprobs",), {"logprobs": True}),
    },
    models=OPENAI_MODELS,
    max_stop_texts=4,
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
    # Only for servers that are known to do so: Moonshot's revise earlier arguments (danny-avila/agents#181, #237),
    # and others may, too.
    calls_end_in_order=True,
    custom_calls=True,  # https://platform.openai.com/docs/guides/function-calling#custom-tools
)

DIALECTS = (
    _OPENAI,
    structs.replace(
        _OPENAI,
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
        matches_head=matches_no_head,
        strict="azure",
        # https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
        stream=StreamForm(first_chunk="prompt_filter"),
    ),
    ChatDialect(
        name="cerebras",
        endpoint=Endpoint(base_url="https://api.cerebras.ai/v1", key_variables=("CEREBRAS_API_KEY",)),
        strict="cerebras",
        reasoning_field="reasoning",  # "reasoning_content" is refused (QwenLM/qwen-code#11045)
        stream=StreamForm(usage_position="finish"),
    ),
    ChatDialect(
        name="deepseek",
        # https://api-docs.deepseek.com/guides/thinking_mode: "enabled by default", ignored in a request without tools,
        # and 400 if it is missing in one with tools (bojieli/ai-agent-book#982 on the page of August 2026,
        # openclaw/openclaw#73417)
        reasoning=ReasoningRules(
            setting="thinking", effort_with_switch=True, unless_off=re.compile(""), needed_with_tools=True
        ),
        markup_families=frozenset({"dsml", "deepseek"}),
        endpoint=Endpoint(base_url="https://api.deepseek.com/v1", key_variables=("DEEPSEEK_API_KEY",)),
        strict="deepseek",
        output=OutputSupport(),  # 400 "This response_format type is unavailable now" (llm-exe/llm-exe#662)
        reasoning_field="reasoning_content",
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
        messages=MessageForm(author_names=True),  # the SDK, as OpenAI's
        models=_GROQ_MODELS,
        endpoint=Endpoint(base_url="https://api.groq.com/openai/v1", key_variables=("GROQ_API_KEY",)),
        strict="groq",
        # "Streaming and tool use are not currently supported with Structured Outputs"
        # (https://console.groq.com/docs/structured-outputs, read 2026-11)
        output=OutputSupport(has_field=True, with_stream=False, with_tools=False),
        # The SDK's ChatCompletionAssistantMessageParam has it; "reasoning_content" is refused (janhq/jan#8136).
        reasoning_field="reasoning",
        reasoning=ReasoningRules(of_reasoners=True),  # "reasoning is not supported with this model" (vercel/ai#8057)
        stream=StreamForm(one_chunk_calls=True, usage_position="x_groq"),
    ),
    ChatDialect(
        name="huggingface",
        endpoint=Endpoint(base_url="https://router.huggingface.co/v1", key_variables=("HF_TOKEN",)),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="kimi",
        # https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart, and can1357/oh-my-pi#1077
        reasoning=ReasoningRules(setting="thinking", unless_off=re.compile(r"kimi-k(?:2\.[5-9]|[3-9])")),
        models=_KIMI_MODELS,
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
        # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        media=MediaForm(result_images=True),
        stream=StreamForm(usage_position="choice"),
    ),
    ChatDialect(
        name="mistral",
        # 400 "Invalid tool schema" (https://github.com/SylphxAI/pdf-reader-mcp/issues/63)
        tool_schema=ToolSchemaRules(numeric_bounds=True),
        # https://docs.mistral.ai/api/endpoint/chat: another name, and 422 "Extra inputs are not permitted" for others
        setting_fields={**SETTINGS, "seed": ("random_seed",)},
        models=_MISTRAL_MODELS,
        markup_families=frozenset(),
        endpoint=Endpoint(
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            # the SDK's BaseModelCard
            model_entry={
                **MODEL_ENTRY,
                "type": "base",
                "capabilities": {"completion_chat": True, "function_calling": True},
            },
            call_id=None,  # nine letters and digits, which the encoder generates
        ),
        strict="mistral",
        id_rule=MISTRAL_IDS,
        thinking_parts=True,  # https://docs.mistral.ai/capabilities/reasoning
        reasoning_state=signature_state,
        stream_usage=False,  # 422 "Extra inputs are not permitted" (openai-agents-python#442, avante.nvim#2347)
        required_choice="any",  # https://docs.mistral.ai/capabilities/function_calling
        messages=MessageForm(
            result_names=True,  # the SDK's ToolMessage
            # 400 "Expected last role User or Tool (or Assistant with prefix True)" (huggingface/smolagents#757)
            prefix=True,
            separator_text="Done.",  # 400 "Unexpected role 'user' after role 'tool'" (NousResearch/hermes-agent#20154)
        ),
        media=MediaForm(
            # The SDK's ToolMessage takes content chunks; tried by mistralai/mistral-vibe#900. Another server of its
            # models refuses them (LibreChat-AI/agents#344): base a dialect for it on openai_compatible.
            result_images=True,
            document_parts=True,  # https://docs.mistral.ai/capabilities/document_ai/document_qna, also for data URLs
            file_addresses=True,
        ),
        stream=StreamForm(
            message_lists=True,  # https://docs.mistral.ai/cookbooks/mistral-connectors-05-connectors-in-completions
            one_chunk_calls=True,
            usage_position="finish",
        ),
    ),
    ChatDialect(
        name="openai_compatible",
        endpoint=Endpoint(key_variables=("OPENAI_API_KEY",), key_required=False),
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="openrouter",
        # the request schema of https://openrouter.ai/docs/api-reference/overview
        messages=MessageForm(author_names=True),
        reasoning=ReasoningRules(setting="object"),  # https://openrouter.ai/docs/use-cases/reasoning-tokens
        setting_fields={**SETTINGS_WITH_TOP_K, "verbosity": ("verbosity",)},
        endpoint=Endpoint(base_url="https://openrouter.ai/api/v1", key_variables=("OPENROUTER_API_KEY",)),
        strict="openrouter",
        tool_schema=_OPENAI_SCHEMAS,  # of the servers behind it (HKUDS/nanobot#2287)
        reasoning_field="reasoning",
        media=MediaForm(
            video_parts=True,  # https://openrouter.ai/docs/guides/overview/multimodal/videos
            # https://openrouter.ai/docs/guides/overview/multimodal/pdfs, both
            file_addresses=True,
            file_annotations=True,
            image_replay=True,  # mozilla-ai/any-llm#1344 tried it
        ),
        cache_marks=True,  # https://openrouter.ai/docs/features/prompt-caching
        stream=StreamForm(
            reasoning_details=True,  # https://openrouter.ai/docs/use-cases/reasoning-tokens
            usage_position="again",
            first_chunk="comment",  # https://openrouter.ai/docs/api-reference/streaming, also for the next field
            error_in_band=True,
        ),
    ),
    ChatDialect(
        name="perplexity",
        markup_families=frozenset(),
        endpoint=Endpoint(base_url="https://api.perplexity.ai", key_variables=("PERPLEXITY_API_KEY",)),
        # https://docs.perplexity.ai/api-reference/chat-completions-post
        stream=StreamForm(usage_position="finish", source_lists=True),
        line_end="\r\n",
        end_marker=None,
    ),
    ChatDialect(
        name="qwen",
        # https://help.aliyun.com/zh/model-studio/deep-thinking, and can1357/oh-my-pi#886
        reasoning=ReasoningRules(setting="enable_thinking", unless_off=re.compile(r"qwen(?:3\.[5-9]|[4-9])")),
        setting_fields=SETTINGS_WITH_TOP_K,
        media=MediaForm(video_parts=True),  # https://help.aliyun.com/zh/model-studio/vision
        cache_marks=True,  # DashScope's explicit cache (BerriAI/litellm#25330, agentscope-ai/agentscope-java#1363)
        markup_families=frozenset({"hermes", "qwen"}),
        endpoint=Endpoint(
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1", key_variables=("DASHSCOPE_API_KEY",)
        ),
        output=OutputSupport(),  # JSON without a schema only (langchain4j/langchain4j#4111)
        reasoning_field="reasoning_content",
    ),
    ChatDialect(
        name="together",
        # The SDK together 3.1: ``reasoning`` is {"enabled"}, and ``reasoning_effort`` has no ``none``.
        reasoning=ReasoningRules(setting="switch"),
        setting_fields=SETTINGS_WITH_TOP_K,  # https://docs.together.ai/reference/chat-completions-1
        endpoint=Endpoint(base_url="https://api.together.xyz/v1", key_variables=("TOGETHER_API_KEY",)),
        reasoning_field="reasoning",
        stream=StreamForm(usage_position="finish"),
    ),
    ChatDialect(
        name="vllm",
        setting_fields=SETTINGS_WITH_TOP_K,  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
        endpoint=Endpoint(base_url="http://localhost:8000/v1", key_variables=("VLLM_API_KEY",), key_required=False),
        strict="vllm",
        media=MediaForm(video_parts=True),  # https://docs.vllm.ai/en/latest/features/multimodal_inputs
        # https://docs.vllm.ai/en/latest/features/structured_outputs
        output=OutputSupport(has_field=True, any_root=True),
        reasoning_field="reasoning",
    ),
    ChatDialect(
        name="xai",
        models=_XAI_MODELS,
        markup_families=frozenset(),
        endpoint=Endpoint(base_url="https://api.x.ai/v1", key_variables=("XAI_API_KEY",)),
        reasoning_field="reasoning_content",
        # tried, by lm15-dev/lm15-contract research/tool-result-content (September 2026)
        media=MediaForm(result_images=True),
        stream=StreamForm(
            one_chunk_calls=True,
            reasoning_excluded_from_output=True,  # in recorded streams the total is the prompt, the completion and it
            source_lists=True,  # https://docs.x.ai/docs/guides/live-search
        ),
    ),
)
