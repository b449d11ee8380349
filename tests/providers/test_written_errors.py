"""Errors of one provider as the clients of another recognize them: status, name and words."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import StreamError, providers
from streamkit.calls import ErrorCode
from streamkit.events import Failed
from streamkit.gateway.routes import CLIENTS

#: The words by which clients of a wire find an overflow, with and without token counts.
OVERFLOWS = {
    "anthropic": ("prompt is too long: 250000 tokens > 200000 maximum", "prompt is too long"),
    "openai_chat": ("maximum context length is 200000 tokens. However", "exceeds the context window"),
    "openai_responses": ("maximum context length is 200000 tokens. However", "exceeds the context window"),
    "gemini": (
        "The input token count (250000) exceeds the maximum number of tokens allowed (200000).",
        "The input token count exceeds the maximum number of tokens allowed.",
    ),
    "bedrock_converse": ("prompt is too long: 250000 tokens > 200000 maximum", "Input is too long for requested model"),
    "bedrock_invoke": ("prompt is too long: 250000 tokens > 200000 maximum", "Input is too long for requested model"),
    "ollama": ("prompt too long; exceeded max context length", "prompt too long; exceeded max context length"),
    "cohere": ("tokens in the prompt cannot exceed 200000 - received 250000", "too many tokens: size limit exceeded"),
}


def written(client: str, error: StreamError) -> tuple[int, str, str | None]:
    return providers.get(client).writer(stream=False).error_fields(error)


def overflow(message: str = "Too much of it.", **fields: Any) -> StreamError:
    return StreamError("provider_error", message, code="context_overflow", **{"status": 400, **fields})


@pytest.mark.parametrize("has_counts", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_overflow_has_the_words_of_the_clients_provider(client: str, has_counts: bool) -> None:
    counts = {"limit": 200_000, "requested": 250_000} if has_counts else {}
    status, message, _ = written(client, overflow(**counts))
    assert status == 400
    assert OVERFLOWS[client][not has_counts] in message
    assert "Too much of it." in message

    read = providers.get(client).traits.classify_error(StreamError("provider_error", message, status=400))
    assert read.code == "context_overflow"
    if has_counts and client != "ollama":  # its message has no counts
        assert (read.limit, read.requested) == (200_000, 250_000)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("anthropic", "prompt is too long: 201130 tokens > 200000 maximum"),
        ("anthropic", "input length and `max_tokens` exceed context limit: 196395 + 64000 > 204698"),
        ("openai_chat", "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."),
        ("openai_responses", "Your input exceeds the context window of this model."),
        ("gemini", "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
        ("bedrock_converse", "Input is too long for requested model."),
    ],
)
def test_the_providers_own_words_are_not_changed(client: str, message: str) -> None:
    assert written(client, overflow(message, limit=1, requested=2))[1] == message


def test_a_gateways_words_on_the_wire_of_another_provider_are_not_its_own() -> None:
    message = "This model's maximum context length is 128000 tokens."
    assert written("anthropic", overflow(message, limit=128_000))[1] == f"prompt is too long ({message})"


def test_a_limit_of_bytes_is_none_of_tokens() -> None:
    assert written("openai_chat", overflow("Request exceeds the maximum size", status=413)) == (
        413,
        "Request exceeds the maximum size",
        "context_length_exceeded",
    )


@pytest.mark.parametrize(
    ("client", "code", "status", "expected"),
    [
        ("openai_chat", "unauthorized", 400, 401),  # Google: API_KEY_INVALID
        ("openai_chat", "unauthorized", 403, 403),
        ("openai_chat", "overloaded", 529, 503),  # Anthropic; google-genai and botocore do not repeat a 529
        ("gemini", "overloaded", 529, 503),
        ("bedrock_converse", "overloaded", 529, 503),
        ("anthropic", "overloaded", 529, 529),
        ("anthropic", "overloaded", 503, 503),
        ("openai_chat", "context_overflow", 500, 400),  # llama.cpp; SDKs repeat a 500
        ("anthropic", "context_overflow", None, 400),  # within a stream
        ("openai_responses", "rate_limited", 400, 429),  # older services of AWS
        ("anthropic", "invalid_request", 422, 422),
        ("gemini", "quota_exceeded", 429, 429),
        ("gemini", "not_found", None, 404),
    ],
)
def test_the_status_means_the_same_to_the_client(
    client: str, code: ErrorCode, status: int | None, expected: int
) -> None:
    assert written(client, StreamError("provider_error", "No.", code=code, status=status))[0] == expected


@pytest.mark.parametrize(
    ("client", "code", "place", "name"),
    [
        # https://platform.claude.com/docs/en/api/errors: request_too_large is the type of a 413
        ("anthropic", "context_overflow", "type", "invalid_request_error"),
        ("anthropic", "overloaded", "type", "overloaded_error"),
        ("openai_chat", "invalid_request", "code", None),
        ("openai_chat", "context_overflow", "code", "context_length_exceeded"),
        ("openai_responses", "unauthorized", "code", "invalid_api_key"),
        ("gemini", "unauthorized", "status", "UNAUTHENTICATED"),
        ("gemini", "overloaded", "status", "UNAVAILABLE"),
    ],
)
def test_the_body_has_the_name_that_the_provider_sends(
    client: str, code: ErrorCode, place: str, name: str | None
) -> None:
    fields = written(client, StreamError("provider_error", "No.", code=code))
    assert providers.get(client).error_body(*fields)["error"][place] == name


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        ("overloaded", 529, b"serviceUnavailableException"),
        ("rate_limited", 429, b"throttlingException"),
        ("unauthorized", 401, b"validationException"),
        ("not_found", 404, b"validationException"),
        ("quota_exceeded", 402, b"validationException"),
        (None, 500, b"internalServerException"),
    ],
)
@pytest.mark.parametrize("client", ["bedrock_converse", "bedrock_invoke"])
def test_an_exception_within_a_stream_of_bedrock_is_one_of_streams(
    client: str, code: ErrorCode | None, status: int, name: bytes
) -> None:
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html: boto3 reports any
    # other exception as "An error occurred () when calling the ConverseStream operation: ".
    writer = providers.get(client).writer()
    data = writer.write(Failed(StreamError("provider_error", "Not now.", code=code, status=status))) + writer.close()
    assert name in data
    assert b"Not now." in data
