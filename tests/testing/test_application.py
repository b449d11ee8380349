from __future__ import annotations

import pytest

from streamkit import providers
from streamkit.testing import Status
from streamkit.testing.application import ParsedRequest, find_other_response, parse_http_request


def endpoint_of(provider):
    return providers.get(provider).traits.endpoint


STREAM = {"model": "m", "stream": True}


@pytest.mark.parametrize(
    ("provider", "path", "body", "model"),
    [
        ("openai_chat", "/v1/chat/completions", STREAM, "m"),
        ("openai_compatible", "/chat/completions", STREAM, "m"),
        ("groq", "/openai/v1/chat/completions", STREAM, "m"),
        ("azure_openai", "/openai/deployments/gpt/chat/completions", {"stream": True}, "gpt"),
        ("azure_openai", "/openai/v1/chat/completions", STREAM, "m"),
        ("anthropic", "/v1/messages", STREAM, "m"),
        ("openai_responses", "/v1/responses", STREAM, "m"),
        ("cohere", "/v2/chat", STREAM, "m"),
        ("ollama", "/api/chat", {"model": "m"}, "m"),
        ("bedrock_converse", "/model/us.vendor.m-v1:0/converse-stream", {}, "us.vendor.m-v1:0"),
        ("bedrock_converse", "/model/arn:aws:bedrock:us-east-1:1:inference-profile/p/converse-stream", {}, None),
        ("bedrock_invoke", "/model/vendor.m-v1:0/invoke-with-response-stream", {}, "vendor.m-v1:0"),
        ("gemini", "/v1beta/models/flash:streamGenerateContent", {}, "flash"),
        ("gemini", "/v1/projects/p/locations/l/publishers/google/models/pro:streamGenerateContent", {}, "pro"),
    ],
)
def test_the_server_responds_at_the_paths_that_clients_use(provider, path, body, model):
    model = model or path.split("/", 2)[2].rpartition("/")[0]  # an ARN has slashes
    assert parse_http_request(endpoint_of(provider), "POST", path, {"alt": "sse"}, body) == ParsedRequest(model)


def test_gemini_gives_an_array_where_events_are_not_asked_for():
    asked = parse_http_request(endpoint_of("gemini"), "POST", "/v1beta/models/m:streamGenerateContent", {}, {})
    assert asked == ParsedRequest("m", as_array=True)


@pytest.mark.parametrize(
    ("provider", "path", "body"),
    [
        ("openai_chat", "/v1/chat/completions", {"model": "m"}),
        ("openai_chat", "/v1/chat/completions", {"model": "m", "stream": None}),
        ("openai_responses", "/v1/responses", {"model": "m", "stream": False}),
        ("anthropic", "/v1/messages", {"model": "m"}),
        ("gemini", "/v1beta/models/m:generateContent", {"stream": True}),
        ("cohere", "/v2/chat", {"model": "m"}),
        ("ollama", "/api/chat", {"model": "m", "stream": False}),
        ("bedrock_converse", "/model/m/converse", {}),
        ("bedrock_invoke", "/model/m/invoke", {}),
    ],
)
def test_a_request_that_asks_for_no_stream_gets_none(provider, path, body):
    assert parse_http_request(endpoint_of(provider), "POST", path, {}, body) == ParsedRequest("m", stream=False)


@pytest.mark.parametrize(
    ("provider", "method", "path", "body", "status"),
    [
        ("openai_chat", "GET", "/v1/chat/completions", None, 404),
        ("openai_chat", "POST", "/v1/completions", STREAM, 404),
        ("openai_chat", "POST", "/v1/messages", STREAM, 404),
        ("anthropic", "POST", "/v1/messages/count_tokens", STREAM, 404),
        ("anthropic", "POST", "/v1/messages", {"stream": "yes"}, 400),
        ("anthropic", "POST", "/v1/messages", [1], 400),
        ("gemini", "POST", "/v1beta/models/m:countTokens", {}, 404),
        ("cohere", "POST", "/v1/chat", STREAM, 404),
        ("ollama", "POST", "/api/generate", {}, 404),
        ("bedrock_converse", "POST", "/model/m/invoke-with-response-stream", {}, 404),
    ],
)
def test_other_requests_are_refused(provider, method, path, body, status):
    refused = parse_http_request(endpoint_of(provider), method, path, {}, body)
    assert isinstance(refused, Status)
    assert refused.status == status


@pytest.mark.parametrize(
    ("provider", "method", "path"),
    [
        ("openai_chat", "POST", "/v1/chat/completions"),
        ("openai_chat", "POST", "/v1/models"),
        ("openai_chat", "GET", "/v1/embeddings"),
        ("bedrock_converse", "GET", "/v1/models"),
        ("anthropic", "POST", "/v1/messages/count_tokens/more"),
    ],
)
def test_only_the_paths_of_a_wire_have_other_responses(provider, method, path):
    assert find_other_response(endpoint_of(provider), method, path, {}, ["m"]) is None


@pytest.mark.parametrize("path", ["/v1beta/models/m:countTokens", "/v1/models/m:countTokens"])
def test_a_count_needs_an_object(path):
    assert find_other_response(endpoint_of("gemini"), "POST", path, {"contents": []}, ["m"]) == {"totalTokens": 4}
    refused = find_other_response(endpoint_of("gemini"), "POST", path, [1], ["m"])
    assert isinstance(refused, Status)
    assert refused.status == 400


def test_an_empty_list_of_models_has_no_ends():
    listed = find_other_response(endpoint_of("anthropic"), "GET", "/v1/models", None, [])
    assert listed == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
