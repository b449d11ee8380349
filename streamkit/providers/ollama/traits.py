"""Declared facts of Ollama's native API."""

from __future__ import annotations

from typing import Final

from streamkit.calls import FinishReason
from streamkit.providers.detection import HeadChunk, HeadMatcher
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.model_facts import ModelFacts
from streamkit.providers.ollama.errors import ERRORS
from streamkit.providers.ollama.message_format import rate_message
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.provider import Traits

__all__ = ["FINISH_REASONS", "TRAITS"]

#: ``done_reason`` of https://docs.ollama.com/api/chat. ``load`` and ``unload`` end a request without messages, which
#: only loads the model into memory or unloads it: they are ``other``, as every name that is not listed.
FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


def _is_own(chunk: HeadChunk) -> bool:
    line = chunk.data
    if "type" in line or "object" in line:
        return False
    has_content = isinstance(line.get("message"), dict) or isinstance(line.get("response"), str)
    has_origin = isinstance(line.get("model"), str) and isinstance(line.get("created_at"), str)
    return has_origin or (isinstance(line.get("done"), bool) and has_content)


TRAITS = Traits(
    name="ollama",
    rate_message=rate_message,
    framing="ndjson",
    matches_head=HeadMatcher(_is_own),
    whole_calls=True,
    plain_reasoning=True,
    # The schema constrains every token of the response, so that the model could not call a tool.
    output=OutputSupport(has_field=True, with_tools=False, any_root=True),
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="http://localhost:11434",
        path="/api/chat",
        key_variables=("OLLAMA_API_KEY",),
        key_required=False,
        limit_field=("options", "num_predict"),
        sdk_base_path="",
        route=r"/api/chat",
        route_example="/api/chat",
        limit_headers=(),
        response_id=("", 0),
        call_id=("call_", 8),
        # "stream: if false the response will be returned as a single response object", https://docs.ollama.com/api/chat
        streams_by_default=True,
    ),
    # https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx#valid-parameters-and-values
    setting_fields={
        "temperature": ("options", "temperature"),
        "top_p": ("options", "top_p"),
        "top_k": ("options", "top_k"),
        "stop": ("options", "stop"),
        "seed": ("options", "seed"),
        "frequency_penalty": ("options", "frequency_penalty"),
        "presence_penalty": ("options", "presence_penalty"),
    },
    models={
        r"(?:.*/)?gpt-oss": ModelFacts(
            source="https://docs.ollama.com/capabilities/thinking",
            reasoning="effort",
            efforts=("low", "medium", "high"),
            reasoning_is_optional=False,
        ),
    },
)
