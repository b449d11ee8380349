"""The strict modes of Chat Completions' dialects, as data. A dialect's ``strict`` is the name of one of them.

The tools of a dialect without ``strict`` are sent without the field. These have none:
    xai            "strict": "Not supported. Only maintained for compatibility reasons"
                   (https://docs.x.ai/docs/api-reference)
    together       a tool has name, description and parameters, and no other field
                   (https://docs.together.ai/docs/inference/function-calling/best-practices)
    huggingface    the generated types of huggingface_hub (TGI) have no such field in a function
    fireworks      its page on tool calling names no such field (https://docs.fireworks.ai/guides/function-calling)
    perplexity, qwen  nothing is documented
    openai_compatible  the server is unknown; some refuse the field (NVIDIA NIM: "extra_forbidden")
"""

from __future__ import annotations

from dataclasses import replace

from streamkit.errors import UsageError
from streamkit.providers.strict import OPENAI
from streamkit.tools import StrictProfile

__all__ = ["STRICT_PROFILES", "strict_profile"]

#: The profiles by the name that a dialect's ``strict`` has.
STRICT_PROFILES: dict[str, StrictProfile] = {
    "openai": OPENAI,
    # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs: no constraint keyword is accepted,
    # "up to 100 object properties total, with up to five levels of nesting". It asks for parallel_tool_calls: false,
    # which the caller sets.
    "azure": replace(OPENAI, target="Azure OpenAI", keywords={}, properties=100, depth=5),
    # https://inference-docs.cerebras.ai/capabilities/structured-outputs: all properties are required, a list of types
    # is refused ("use anyOf instead"); for qwen no pattern, minLength, maxLength (capabilities/tool-use). 422
    # "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'".
    "cerebras": StrictProfile("Cerebras", every_required=True, type_lists=False, all_or_none=True),
    # https://api-docs.deepseek.com/guides/tool_calls#strict-mode-beta: all functions must be strict. It needs the base
    # address https://api.deepseek.com/beta, which the caller sets. A reference within anyOf is refused
    # (0xPlaygrounds/rig replaces it by its definition).
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
    # https://console.groq.com/docs/structured-outputs: all properties are required, all objects closed. "minItems is
    # not supported" (i-am-bee/beeai-framework#1215). References within a union are not followed
    # ("additionalProperties:false must be set on every object"), so they are replaced by their definitions.
    "groq": StrictProfile("Groq", every_required=True, references=False),
    # https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md: properties may be optional, definitions and
    # recursion are accepted, ``type`` is one string, no constraint keyword is accepted.
    "kimi": StrictProfile("Kimi", keywords={"default": None}, type_lists=False),
    # The SDK closes the objects and changes nothing else (mistralai.extra.utils, rec_strict_json_schema).
    "mistral": StrictProfile("Mistral", keywords=None),
    # It passes the field on to the server that it selects: the form that each of them accepts.
    "openrouter": StrictProfile("OpenRouter", every_required=True, type_lists=False, references=False),
    # https://docs.vllm.ai/en/latest/features/tool_calling: a tool's ``strict`` constrains the arguments by a
    # grammar of xgrammar, which accepts all keywords; older servers ignore the field.
    "vllm": StrictProfile("vLLM", keywords=None),
}


def strict_profile(name: str | None) -> StrictProfile | None:
    """Return the profile of that name; None for None.

    Raises:
        UsageError: there is no profile of that name.
    """
    if name is None:
        return None
    if name not in STRICT_PROFILES:
        raise UsageError(f"strict of a chat dialect is one of {', '.join(STRICT_PROFILES)}, not {name!r}")
    return STRICT_PROFILES[name]
