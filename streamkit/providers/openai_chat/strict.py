"""The strict modes of Chat Completions' dialects, as data: a dialect's fact ``strict`` names one of them.

Without the fact the tool is sent as any other. That is so for
    xai            "strict": "Not supported. Only maintained for compatibility reasons"
                   (https://docs.x.ai/docs/api-reference)
    together       a tool has name, description and parameters, and no other field
                   (https://docs.together.ai/docs/inference/function-calling/best-practices)
    huggingface    the generated types of huggingface_hub (TGI) have no such field in a function
    fireworks      its page of tool calling names no such field (https://docs.fireworks.ai/guides/function-calling)
    perplexity, qwen  nothing documented
    openai_compatible  who knows what is there; some refuse the field (NVIDIA NIM: "extra_forbidden")
"""

from __future__ import annotations

from dataclasses import replace

from streamkit.errors import UsageError
from streamkit.providers.strict import OPENAI
from streamkit.tools import StrictProfile

__all__ = ["MODES", "mode"]

MODES: dict[str, StrictProfile] = {
    "openai": OPENAI,
    # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs: no word that constrains is taken,
    # "up to 100 object properties total, with up to five levels of nesting". It asks for parallel_tool_calls: false,
    # which is the caller's.
    "azure": replace(OPENAI, target="Azure OpenAI", keywords={}, properties=100, depth=5),
    # https://inference-docs.cerebras.ai/capabilities/structured-outputs: all required, a list of types is not taken
    # ("use anyOf instead"); for qwen no pattern, minLength, maxLength (capabilities/tool-use). 422 "Tools with mixed
    # values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'".
    "cerebras": StrictProfile("Cerebras", every_required=True, type_lists=False, all_or_none=True),
    # https://api-docs.deepseek.com/guides/tool_calls#strict-mode-beta: all functions must be strict. It needs the base
    # address https://api.deepseek.com/beta, which is the caller's. A reference within anyOf is refused
    # (0xPlaygrounds/rig writes it out).
    "deepseek": StrictProfile(
        "DeepSeek",
        every_required=True,
        keywords={
            "pattern": None,
            "format": frozenset(["email", "hostname", "ipv4", "ipv6", "uuid"]),
            "minimum": None,
            "maximum": None,
            "exclusiveMinimum": None,
            "exclusiveMaximum": None,
            "multipleOf": None,
        },
        references=False,
        all_or_none=True,
    ),
    # https://console.groq.com/docs/structured-outputs: all required, all closed. "minItems is not supported"
    # (i-am-bee/beeai-framework#1215); references within a union are not followed ("additionalProperties:false must be
    # set on every object"), so they are written out.
    "groq": StrictProfile("Groq", every_required=True, references=False),
    # https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md: optional properties may stay so, definitions and
    # recursion are taken, ``type`` is one word, nothing that constrains is taken.
    "kimi": StrictProfile("Kimi", keywords={"default": None}, type_lists=False),
    # The SDK closes the objects and leaves all else as it is (mistralai.extra.utils, rec_strict_json_schema).
    "mistral": StrictProfile("Mistral", keywords=None),
    # Hands the field on to whoever answers: the form that each of them takes.
    "openrouter": StrictProfile("OpenRouter", every_required=True, type_lists=False, references=False),
    # https://docs.vllm.ai/en/latest/features/tool_calling: a tool's ``strict`` pins the arguments to its schema by a
    # grammar of xgrammar's, which takes all words; older servers do not mind the field.
    "vllm": StrictProfile("vLLM", keywords=None),
}


def mode(name: str | None) -> StrictProfile | None:
    """The rules of that name; None for None.

    Raises:
        UsageError: there are none of that name.
    """
    if name is None:
        return None
    if name not in MODES:
        raise UsageError(f"a chat dialect's strict mode is one of {', '.join(MODES)}, not {name!r}")
    return MODES[name]
