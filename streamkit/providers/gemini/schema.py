"""The wire format of Gemini's ``streamGenerateContent``: the types of its chunks, and their other spellings.

Wire: https://ai.google.dev/api/generate-content
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse
Framing: SSE with ``alt=sse`` (CRLF, no event names, no terminator), else one JSON array of the same objects.

Containers are typed and leaves are ``Any``: one leaf of an unexpected type must not lose a chunk. Field names are those
of the wire. The structs refuse fields that they do not declare. Those of the first reading declare what most chunks
have; a chunk that has more is decoded again with the structs ``Wide...``, which declare every field of the
documentation, and a field that these lack is reported. This module must not depend on sinks, history or requests.
"""

# The fields of the structs have the names of the wire, so that decoding needs no second table of names.
# ruff: noqa: N815

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Struct

__all__ = [
    "CHUNK_DECODER",
    "DATA_FIELDS",
    "FURTHER_DATA_FIELDS",
    "NON_DATA_FIELDS",
    "PART_METADATA",
    "SIGNATURE",
    "TEXT_METADATA",
    "Candidate",
    "FunctionCall",
    "GenerateContentChunk",
    "PartialArg",
    "UsageMetadata",
    "WideCandidate",
    "WideChunk",
    "WireContent",
    "WirePart",
    "is_rest_form",
    "signature_of",
    "to_camel_case",
]

SIGNATURE = "thoughtSignature"  #: the field's name in a part on the wire, and in the metadata of its block
# https://ai.google.dev/api/caching#Part: the fields of a part that are not its data, then the union field ``data``
# without text and calls. ``toolCall`` and ``toolResponse`` are in the SDK's Part
# (https://googleapis.github.io/python-genai/genai.html#genai.types.Part), and of google-genai 3.4 are the fields for
# speech, the processing of media, documents, spreadsheets and audio.
TEXT_METADATA = ("partMetadata", "speechMetadata")
PART_METADATA = (
    *TEXT_METADATA,
    "mediaResolution",
    "videoMetadata",
    "mediaProcessing",
    "documentMetadata",
    "spreadsheetMetadata",
    "audioMetadata",
)
NON_DATA_FIELDS = frozenset(("text", "thought", SIGNATURE, *PART_METADATA))
DATA_FIELDS = frozenset(("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"))
FURTHER_DATA_FIELDS = frozenset(("functionResponse", "audioTranscription"))  # data without an event of its own


class PartialArg(Struct, gc=False, forbid_unknown_fields=True):
    """One fragment of streamed arguments: a value or a part of a string, with its JSON path.

    Only Vertex sends it: "This data type is not supported in Gemini API"
    (https://googleapis.github.io/python-genai/genai.html#genai.types.PartialArg).
    """

    jsonPath: Any = None
    stringValue: Any = UNSET  #: None only in a dump of all fields; there a None ``nullValue`` is an absent one too
    numberValue: Any = None
    boolValue: Any = None
    nullValue: Any = UNSET  #: JSON's null is a value here (protobuf's NullValue), so absence needs another default
    willContinue: Any = None


class FunctionCall(Struct, gc=False, forbid_unknown_fields=True):
    """A call: complete with ``args``, or started, continued and ended by parts with ``willContinue``."""

    id: Any = None
    name: Any = None
    args: Any = None
    partialArgs: list[PartialArg] | None = None
    willContinue: Any = None


class WirePart(Struct, gc=False, forbid_unknown_fields=True):
    """A part of a response: text, a call, or other data that is read from the undecoded part.

    ``thought`` and ``thoughtSignature`` may accompany each of them.
    """

    text: Any = None
    thought: Any = None
    thoughtSignature: Any = None
    functionCall: FunctionCall | None = None


class WireContent(Struct, gc=False, forbid_unknown_fields=True):
    """The content of a candidate. ``parts`` may be missing if the chunk has only a finish reason."""

    parts: list[WirePart] | None = None
    role: Any = None


class Candidate(Struct, gc=False, forbid_unknown_fields=True):
    """One choice of several. ``index`` 0 may be left out."""

    index: Any = None
    content: WireContent | None = None
    finishReason: Any = None
    finishMessage: Any = None
    groundingMetadata: Any = None
    citationMetadata: Any = None
    urlContextMetadata: Any = None


class UsageMetadata(Struct, gc=False):
    """The token counts of ``usageMetadata`` from which ``Usage`` is calculated."""

    promptTokenCount: Any = None
    toolUsePromptTokenCount: Any = None
    candidatesTokenCount: Any = None
    thoughtsTokenCount: Any = None
    cachedContentTokenCount: Any = None


class GenerateContentChunk(Struct, gc=False, forbid_unknown_fields=True):
    """One GenerateContentResponse, or an error body in its place."""

    candidates: list[Candidate] | None = None
    usageMetadata: UsageMetadata | None = None
    modelVersion: Any = None
    responseId: Any = None
    promptFeedback: Any = None
    createTime: Any = None  #: of Vertex
    error: Any = None


class WidePart(WirePart, gc=False):
    """A part with every documented field (https://ai.google.dev/api/caching#Part)."""

    inlineData: Any = None
    fileData: Any = None
    executableCode: Any = None
    codeExecutionResult: Any = None
    toolCall: Any = None
    toolResponse: Any = None
    functionResponse: Any = None
    partMetadata: Any = None
    mediaResolution: Any = None
    videoMetadata: Any = None
    # google-genai 3.4, ``types.Part``
    audioTranscription: Any = None
    speechMetadata: Any = None
    mediaProcessing: Any = None
    documentMetadata: Any = None
    spreadsheetMetadata: Any = None
    audioMetadata: Any = None


class WideContent(WireContent, gc=False):
    """A content with every documented field."""

    parts: list[WidePart] | None = None  # type: ignore[assignment]  # it is only read


class WideCandidate(Candidate, gc=False):
    """A candidate with every documented field (https://ai.google.dev/api/generate-content#candidate)."""

    content: WideContent | None = None
    safetyRatings: Any = None
    avgLogprobs: Any = None
    logprobsResult: Any = None
    tokenCount: Any = None
    groundingAttributions: Any = None
    continuationToken: Any = None  #: google-genai 3.4, ``types.Candidate``


class WideChunk(GenerateContentChunk, gc=False):
    """A chunk with every documented field, and those of google-genai's ``GenerateContentResponse``."""

    candidates: list[WideCandidate] | None = None  # type: ignore[assignment]  # it is only read
    modelStatus: Any = None
    automaticFunctionCallingHistory: Any = None
    parsed: Any = None
    sdkHttpResponse: Any = None


CHUNK_DECODER: msgspec.json.Decoder[GenerateContentChunk] = msgspec.json.Decoder(GenerateContentChunk)
# ---------------------------------------------------------------- chunks as dicts
#: Names in REST's spelling that nearly every chunk has. A dict with one of them is in REST's spelling.
_REST_NAMES = ("responseId", "modelVersion", "usageMetadata")
_SCALARS = frozenset((str, int, float, bool))
#: The values of these keys contain names and values of the user.
_USER_DATA = frozenset(("args", "response", "partMetadata"))
_MAX_DEPTH = 64  # no typed message is nested deeper; anything deeper is left unchanged
_MAX_CACHED_NAMES = 512  # the names of the schema are fewer; a stream of invented names must not fill memory
_camel_case_names: dict[str, str] = {}


def is_rest_form(data: Mapping[str, Any]) -> bool:
    """Return True if a chunk's names are in REST's spelling. Its values may still be the SDK's (bytes, enums)."""
    return any(name in data for name in _REST_NAMES)


def signature_of(value: Any) -> str | None:
    """Return a thought signature as text, or None if there is none. The SDK decodes signatures to bytes."""
    if isinstance(value, str):
        return value or None
    return base64.b64encode(value).decode("ascii") if isinstance(value, (bytes, bytearray)) and value else None


def to_camel_case(data: Mapping[str, Any], *, rename: bool = True, depth: int = 0) -> dict[str, Any]:
    """Return a chunk in REST's spelling.

    Names become camelCase, enum members their values, and bytes standard base64 (the url-safe alphabet would change a
    signature, which the API then refuses). Absent fields that were dumped as None are left out. Values of ``args`` and
    ``response`` belong to the user and are not changed.

    Args:
        data: a chunk from REST, or from google-genai's ``model_dump`` with or without aliases.
        rename: False leaves names unchanged.
        depth: the depth of ``data`` within the chunk.
    """
    converted: dict[str, Any] = {}
    for name, value in data.items():
        key = name
        if rename and name.__class__ is str and "_" in name:
            key = _camel_case_names.get(name, "")
            if not key:
                head, *rest = name.split("_")
                key = head + "".join(word[:1].upper() + word[1:] for word in rest)
                if len(_camel_case_names) < _MAX_CACHED_NAMES:
                    _camel_case_names[name] = key
        kind = value.__class__
        if kind in _SCALARS:
            converted[key] = value
        elif value is None:
            # A dumped PartialArg has all four of its values, one of them set; REST's own has only ``nullValue``.
            if key == "nullValue" and "stringValue" not in data and "string_value" not in data:
                converted[key] = None
        elif key in _USER_DATA or depth >= _MAX_DEPTH:
            converted[key] = value
        else:
            converted[key] = _to_rest_value(value, rename, depth + 1)
    return converted


def _to_rest_value(value: Any, rename: bool, depth: int) -> Any:
    if isinstance(value, Mapping):
        return to_camel_case(value, rename=rename, depth=depth)
    if isinstance(value, (list, tuple)):
        return [_to_rest_value(item, rename, depth + 1) for item in value] if depth < _MAX_DEPTH else list(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return value.value if isinstance(value, Enum) else value
