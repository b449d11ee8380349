"""Where each wire is asked for an answer, and the kinds of ids that it makes. Facts for the embedded server only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamkit.testing.script import Status

__all__ = ["ParsedRequest", "Endpoint", "endpoint_of"]

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a request asks for.

    Attributes:
        model: the model that is asked.
        as_array: the answer is to be one JSON array instead of events (Gemini without ``alt=sse``).
    """

    model: str
    as_array: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One wire's side of HTTP.

    Attributes:
        base: what follows the server's prefix in the base URL that the vendor's SDK wants.
        path: the path after the prefix, with the group ``model`` where the model stands there, and the group ``verb``
            where it is the path that asks for a stream.
        shown: that path, for people.
        response_id: beginning and length of the rest of the ids of answers.
        call_id: the same of calls; None where the wire gives its calls none, or its ``emit`` makes them.
        streams: a body that says nothing of it asks for a stream.
        arrays: the answer is one JSON array where the query does not ask for events.
    """

    base: str
    path: re.Pattern[str]
    shown: str
    response_id: tuple[str, int]
    call_id: tuple[str, int] | None
    streams: bool = False
    arrays: bool = False

    def asked(self, method: str, path: str, query: Mapping[str, str], body: Any) -> ParsedRequest | Status:
        """What a request asks for, or how it is refused. *path* is what follows the server's prefix."""
        match = self.path.fullmatch(path)
        if match is None or method != "POST":
            return Status(404, f"this wire is asked by POST {self.shown}, not by {method} {path}")
        if not isinstance(body, dict):
            return Status(400, "the body of the request is no JSON object")
        found = match.groupdict()
        verb = found.get("verb")
        if not ("stream" in verb if verb else body.get("stream", self.streams) is True):
            return Status(400, "only streaming is scripted here: ask for a stream")
        return ParsedRequest(
            model=str(body.get("model") or found.get("model") or "scripted"),
            as_array=self.arrays and query.get("alt") != "sse",
        )

    def make_response_id(self, seed: str) -> str:
        """The id of an answer; the same seed gives the same."""
        return _identifier(self.response_id, f"response|{seed}")

    def make_call_id(self, seed: str) -> str | None:
        """The id of a call, None where the wire has none."""
        return None if self.call_id is None else _identifier(self.call_id, f"call|{seed}")


def _identifier(kind: tuple[str, int], seed: str) -> str:
    prefix, length = kind
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest())
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[digit])
    return prefix + "".join(letters)


# The shapes of ids are those that the vendors' streams show (call_WY2R9D3MQrwbUTvQFtua91zx,
# toolu_01EKqbqmZrGRXy18eN7m9kvY; Gemini's calls mostly have none).
_CHAT = Endpoint(
    base="/v1",
    path=re.compile(r"(?:/openai/deployments/(?P<model>[^/]+)|/.+)?/chat/completions"),
    shown="/v1/chat/completions",
    response_id=("chatcmpl-", 29),
    call_id=("call_", 24),
)
_WIRES = {
    # functions.{name}:{index}, and nine letters and digits: rules that their dialects' facts hold already.
    "kimi": replace(_CHAT, call_id=None),
    "mistral": replace(_CHAT, call_id=None),
    # The SDK's `azure_endpoint` has no path; it adds /openai/deployments/{deployment}/chat/completions itself.
    "azure_openai": replace(_CHAT, base="", shown="/openai/deployments/{deployment}/chat/completions"),
    "anthropic": Endpoint(
        base="",
        path=re.compile(r"/v1/messages"),
        shown="/v1/messages",
        response_id=("msg_01", 22),
        call_id=("toolu_01", 22),
    ),
    "openai_responses": replace(
        _CHAT,
        path=re.compile(r"(?:/.+)?/responses"),
        shown="/v1/responses",
        response_id=("resp_", 50),
    ),
    "gemini": Endpoint(
        base="",
        path=re.compile(
            r"/v\d\w*/(?:.+/)?models/(?P<model>[^/:]+):(?P<verb>(?:streamGenerate|generate)Content)",
        ),
        shown="/v1beta/models/{model}:streamGenerateContent",
        response_id=("", 22),
        call_id=None,
        arrays=True,
    ),
    "cohere": Endpoint(
        base="",
        path=re.compile(r"/v2/chat"),
        shown="/v2/chat",
        response_id=("", 32),
        call_id=("call_", 12),
    ),
    "ollama": Endpoint(
        base="",
        path=re.compile(r"/api/chat"),
        shown="/api/chat",
        response_id=("", 0),
        call_id=("call_", 8),
        streams=True,  # "stream: if false the response will be returned as a single response object" (its API)
    ),
    "bedrock_converse": Endpoint(
        base="",
        path=re.compile(r"/model/(?P<model>.+)/(?P<verb>converse(?:-stream)?)"),
        shown="/model/{modelId}/converse-stream",
        response_id=("", 0),
        call_id=("tooluse_", 22),
    ),
    "bedrock_invoke": Endpoint(
        base="",
        path=re.compile(r"/model/(?P<model>.+)/(?P<verb>invoke(?:-with-response-stream)?)"),
        shown="/model/{modelId}/invoke-with-response-stream",
        response_id=("msg_bdrk_01", 22),
        call_id=("toolu_bdrk_01", 22),
    ),
}


def endpoint_of(provider: str) -> Endpoint:
    """The wire of a provider; those not named here speak chat completions."""
    return _WIRES.get(provider, _CHAT)
