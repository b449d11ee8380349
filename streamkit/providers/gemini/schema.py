"""The vocabulary of Gemini's ``streamGenerateContent``, as types; and other spellings of it brought to this one.

Wire      https://ai.google.dev/api/generate-content
          https://docs.cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse
Framing   SSE with ``alt=sse`` (CRLF, no event names, no terminator), else one JSON array of the same objects.

Containers are typed and leaves are ``Any``: one odd leaf must not lose a chunk. Field names are the wire's own. This
file knows nothing of what a chunk means.
"""

# The structs' fields are the wire's names, so that decoding needs no second table of them.
# ruff: noqa: N815

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from streamkit.calls import FinishReason

__all__ = [
    "BLOCKED",
    "CHUNK_DECODER",
    "FAMILY",
    "SIGNATURE",
    "Candidate",
    "Counts",
    "FunctionCall",
    "GenerateContentChunk",
    "PartialArg",
    "WirePart",
    "finish_reason",
    "is_rest_form",
    "signature_of",
    "to_camel_case",
]


FAMILY = frozenset({"gemini"})  #: whose signatures and own parts these are

SIGNATURE = "thoughtSignature"  #: under this name in a part on the wire, and in the metadata of its block


class PartialArg(Struct, gc=False):
    """One fragment of streamed arguments (Vertex): a value, or a piece of a string, and where it belongs."""

    jsonPath: Any = None
    stringValue: Any = UNSET  #: a dump of all fields has None here; then a None ``nullValue`` is an absent one too
    numberValue: Any = None
    boolValue: Any = None
    nullValue: Any = UNSET  #: JSON's null is a value here (protobuf's NullValue), so absence needs a sign of its own
    willContinue: Any = None


class FunctionCall(Struct, gc=False):
    """A call: whole with ``args``, or opened, continued and ended by parts with ``willContinue``."""

    id: Any = None
    name: Any = None
    args: Any = None
    partialArgs: list[PartialArg] | None = None
    willContinue: Any = None


class WirePart(Struct, gc=False):
    """A part of an answer: a piece of text, a call, or something else that is read from the part as it came.

    ``thought`` and ``thoughtSignature`` stand beside any of them.
    """

    text: Any = None
    thought: Any = None
    thoughtSignature: Any = None
    functionCall: FunctionCall | None = None


class WireContent(Struct, gc=False):
    """What a candidate says; ``parts`` may be missing where there is only a finish reason."""

    parts: list[WirePart] | None = None


class Candidate(Struct, gc=False):
    """One answer of several; ``index`` 0 may be left out."""

    index: Any = None
    content: WireContent | None = None
    finishReason: Any = None
    finishMessage: Any = None
    groundingMetadata: Any = None
    citationMetadata: Any = None
    urlContextMetadata: Any = None


class Counts(Struct, gc=False):
    """The token counts of ``usageMetadata`` that add up to a usage."""

    promptTokenCount: Any = None
    toolUsePromptTokenCount: Any = None
    candidatesTokenCount: Any = None
    thoughtsTokenCount: Any = None
    cachedContentTokenCount: Any = None


class GenerateContentChunk(Struct, gc=False):
    """One GenerateContentResponse, or the error body that takes its place."""

    candidates: list[Candidate] | None = None
    usageMetadata: Counts | None = None
    modelVersion: Any = None
    responseId: Any = None
    promptFeedback: Any = None
    error: Any = None


CHUNK_DECODER: msgspec.json.Decoder[GenerateContentChunk] = msgspec.json.Decoder(GenerateContentChunk)

#: Finish reasons in the order of their numbers in google.ai.generativelanguage.v1beta, which is what
#: ``$alt=json;enum-encoding=int`` sends. Vertex numbers them differently from 6 on (there 6 is BLOCKLIST and 9
#: MALFORMED_FUNCTION_CALL) and nothing in the bytes tells the two apart; from 7 on both say that nothing may run.
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
)

BLOCKED: FinishReason = "content_filter"

_MEANINGS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": BLOCKED,
    "RECITATION": BLOCKED,
    "BLOCKLIST": BLOCKED,
    "PROHIBITED_CONTENT": BLOCKED,
    "SPII": BLOCKED,
    "MODEL_ARMOR": BLOCKED,
    "IMAGE_SAFETY": BLOCKED,
    "IMAGE_PROHIBITED_CONTENT": BLOCKED,
    "IMAGE_RECITATION": BLOCKED,
    # The model's own output could not be read, or the request's history was refused: trying again may help.
    "MALFORMED_FUNCTION_CALL": "error",
    "MALFORMED_RESPONSE": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
}


def finish_reason(raw: Any) -> FinishReason | None:
    """What a finish reason means; None where it is none (absent, empty, unspecified, or no name and no number).

    A name comes as the wire writes it, as the SDK prints its enum (``FinishReason.STOP``), or as its number.
    """
    if raw.__class__ is int:
        name = _NUMBERED[raw] if 0 <= raw < len(_NUMBERED) else "OTHER"
    elif isinstance(raw, str) and raw:
        name = raw.rpartition(".")[2].upper()
    else:
        return None
    return None if name == "FINISH_REASON_UNSPECIFIED" else _MEANINGS.get(name, "other")


# ---------------------------------------------------------------- the dict door

#: REST's names of what (nearly) every chunk has. A dict with one of them is spelled as REST spells it.
_REST_NAMES = ("responseId", "modelVersion", "usageMetadata")
_SCALARS = frozenset((str, int, float, bool))
#: Below these keys stand the user's own names and values.
_FREE = frozenset(("args", "response", "partMetadata"))
_DEEPEST = 64  # no typed message nests deeper; what does is left as it is
_camel_of: dict[str, str] = {}


def is_rest_form(data: Mapping[str, Any]) -> bool:
    """Whether a chunk's names are REST's, so that only its values may be the SDK's (bytes, enum members)."""
    return any(name in data for name in _REST_NAMES)


def signature_of(value: Any) -> str | None:
    """A thought signature as text; None where there is none. The SDK decodes it to bytes."""
    if isinstance(value, str):
        return value or None
    return base64.b64encode(value).decode("ascii") if isinstance(value, (bytes, bytearray)) and value else None


def to_camel_case(data: Mapping[str, Any], *, rename: bool = True, depth: int = 0) -> dict[str, Any]:
    """A chunk as REST spells it: from REST itself, or from google-genai's ``model_dump``, with or without aliases.

    Names become camelCase (with ``rename``), enum members their values, bytes standard base64 (the url-safe alphabet
    would change a signature, which the API then refuses), and absent fields that were dumped as None are left out.
    What stands below ``args`` and ``response`` is the user's and is not touched.
    """
    found: dict[str, Any] = {}
    for name, value in data.items():
        key = _camel(name) if rename and name.__class__ is str and "_" in name else name
        kind = value.__class__
        if kind in _SCALARS:
            found[key] = value
        elif value is None:
            # A dumped PartialArg has all four of its values, one of them set; REST's own has only ``nullValue``.
            if key == "nullValue" and "stringValue" not in data and "string_value" not in data:
                found[key] = None
        elif key in _FREE or depth >= _DEEPEST:
            found[key] = value
        else:
            found[key] = _rest_value(value, rename, depth + 1)
    return found


def _rest_value(value: Any, rename: bool, depth: int) -> Any:
    if isinstance(value, Mapping):
        return to_camel_case(value, rename=rename, depth=depth)
    if isinstance(value, (list, tuple)):
        return [_rest_value(item, rename, depth + 1) for item in value] if depth < _DEEPEST else list(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return value.value if isinstance(value, Enum) else value


def _camel(name: str) -> str:
    known = _camel_of.get(name)
    if known is None:
        head, *rest = name.split("_")
        known = head + "".join(word[:1].upper() + word[1:] for word in rest)
        if len(_camel_of) < 512:  # names are the vocabulary's; a stream of invented ones must not fill memory
            _camel_of[name] = known
    return known
