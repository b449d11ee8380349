"""Fields of one meaning between OpenAI's wires, failures of results, and schemas that a client's wire enforces."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import parse_request, render_request
from streamkit.values.request_changes import ChangeList, changes_meaning

Json = dict[str, Any]
SHARED: Json = {
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "service_tier": "flex",
    "user": "u",
}
OPENAI_WIRES = ("openai_chat", "openai_responses")
CHAT: Json = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
RESPONSES: Json = {"model": "m", "input": [{"role": "user", "content": "?"}]}


def translated(body: Json, client: str, target: str) -> tuple[Json, list[str]]:
    """Return the body for the target, and the changes."""
    changes = ChangeList()
    return render_request(parse_request(body, client, changes=changes), target, changes=changes), changes


@pytest.mark.parametrize(
    ("client", "body", "target"),
    [("openai_chat", CHAT, "openai_responses"), ("openai_responses", RESPONSES, "openai_chat")],
)
def test_fields_of_openai_have_one_meaning_on_both_wires(client: str, body: Json, target: str) -> None:
    written, changes = translated({**body, **SHARED}, client, target)
    assert {name: written.get(name) for name in SHARED} == SHARED
    assert changes == []


def test_metadata_of_chat_needs_a_stored_response() -> None:
    written, changes = translated({**RESPONSES, "metadata": {"a": "b"}}, "openai_responses", "openai_chat")
    assert (written["metadata"], written["store"]) == ({"a": "b"}, True)
    assert changes == []
    written, changes = translated(
        {**RESPONSES, "metadata": {"a": "b"}, "store": False}, "openai_responses", "openai_chat"
    )
    assert "metadata" not in written
    assert changes == ["left out the fields 'metadata.a': only openai_responses has them"]
    written, changes = translated({**CHAT, "metadata": {"a": "b"}, "store": True}, "openai_chat", "openai_responses")
    assert written["metadata"] == {"a": "b"}
    assert changes == []


def test_log_probabilities_are_requested_in_the_form_of_the_wire() -> None:
    written, changes = translated({**CHAT, "logprobs": True, "top_logprobs": 3}, "openai_chat", "openai_responses")
    assert (written["top_logprobs"], written["include"]) == (3, ["message.output_text.logprobs"])
    assert "logprobs" not in written
    assert changes == []
    body = {**RESPONSES, "top_logprobs": 3, "include": ["message.output_text.logprobs"]}
    written, changes = translated(body, "openai_responses", "openai_chat")
    assert (written["top_logprobs"], written["logprobs"]) == (3, True)
    assert changes == []


@pytest.mark.parametrize("target", ["groq", "gemini"])
def test_they_are_left_out_and_said_elsewhere(target: str) -> None:
    written, changes = translated({**RESPONSES, **SHARED}, "openai_responses", target)
    assert not SHARED.keys() & written.keys()
    assert len(changes) == 1
    assert all(repr(name) in changes[0] for name in SHARED)


USER = "0b3f7e52"
CLAUDE: Json = {"model": "m", "max_tokens": 9, "messages": CHAT["messages"]}


@pytest.mark.parametrize("target", OPENAI_WIRES)
def test_the_user_of_a_client_of_anthropic_is_the_safety_identifier_of_openai(target: str) -> None:
    written, changes = translated({**CLAUDE, "metadata": {"user_id": USER}}, "anthropic", target)
    assert (written["safety_identifier"], changes) == (USER, [])
    assert not {"user", "metadata"} & written.keys()
    long = "user_" + 64 * "a" + "_account__session_" + USER  # of Claude Code
    written, changes = translated({**CLAUDE, "metadata": {"user_id": long}}, "anthropic", target)
    assert not {"user", "safety_identifier"} & written.keys()
    assert changes == [f"left out the field 'metadata.user_id' of the request: {target} refuses its value"]
    assert not any(map(changes_meaning, changes))


@pytest.mark.parametrize(("client", "body"), [("openai_chat", CHAT), ("openai_responses", RESPONSES)])
def test_the_user_of_a_client_of_openai_is_that_of_anthropic(client: str, body: Json) -> None:
    for name in ("safety_identifier", "user"):
        written, changes = translated({**body, name: USER}, client, "anthropic")
        assert (written["metadata"], changes) == ({"user_id": USER}, [])
        for refused in ("ann@example.com", "+49 (30) 123456-7", 257 * "a", "", 5):
            written, changes = translated({**body, name: refused}, client, "anthropic")
            assert "metadata" not in written
            assert changes == [f"left out the field {name!r} of the request: anthropic refuses its value"]
    written, changes = translated({**body, "safety_identifier": USER, "user": "other"}, client, "anthropic")
    assert written["metadata"] == {"user_id": USER}
    assert changes == [f"left out the fields 'user': only {client} has them"]


# ---------------------------------------------------------------- failed results


def failed(text: str) -> Json:
    """Return a request of Anthropic's with a failed result."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": True}
    return {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
            {"role": "user", "content": [result]},
        ],
    }


SAID = "that a result is an error was written into its text: the target has no field for it"


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "cohere", "ollama"])
def test_a_failed_result_says_that_it_failed(target: str) -> None:
    written, changes = translated(failed("no such file"), "anthropic", target)
    last = written["input" if target == "openai_responses" else "messages"][-1]
    assert "Error: no such file" in str(last)
    assert changes == [SAID]
    written, changes = translated(failed("Error: no such file"), "anthropic", target)
    assert "Error: Error" not in str(written)
    assert changes == []


@pytest.mark.parametrize("target", ["anthropic", "bedrock_converse", "gemini"])
def test_a_wire_with_a_field_for_failures_has_the_text_as_it_was(target: str) -> None:
    written, changes = translated(failed("no such file"), "anthropic", target)
    assert "Error:" not in str(written)
    assert "rror" in str(written)
    assert changes == []


# ---------------------------------------------------------------- schemas that are enforced

CLOSED: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPTIONAL: Json = {**CLOSED, "required": []}


def formatted(client: str, schema: Json) -> Json:
    """Return a request of a client that asks for an output of a schema."""
    if client == "anthropic":
        output = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        return {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "?"}], **output}
    if client == "gemini":
        config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
        return {"contents": [{"role": "user", "parts": [{"text": "?"}]}], "generationConfig": config}
    if client == "cohere":
        return {**CHAT, "response_format": {"type": "json_object", "json_schema": schema}}
    return {**CHAT, "format": schema}


def strict_of(body: Json) -> Any:
    """Return whether a body of OpenAI's wires asks for a schema that is enforced."""
    return (
        body["response_format"]["json_schema"]["strict"]
        if "response_format" in body
        else body["text"]["format"]["strict"]
    )


@pytest.mark.parametrize("target", OPENAI_WIRES)
@pytest.mark.parametrize("client", ["anthropic", "cohere", "gemini", "ollama"])
def test_a_schema_that_is_enforced_stays_so_at_openai(client: str, target: str) -> None:
    written, changes = translated(formatted(client, CLOSED), client, target)
    assert strict_of(written) is True
    assert changes == []
    written, changes = translated(formatted(client, OPTIONAL), client, target)
    assert strict_of(written) is False
    reason = "OpenAI has no strict mode for properties that are not required"
    assert changes == [f"the schema of the output format is not enforced: {reason}"]


def test_a_dialect_without_a_strict_mode_is_said() -> None:
    _, changes = translated(formatted("anthropic", CLOSED), "anthropic", "fireworks")
    assert changes == ["the schema of the output format is not enforced: fireworks has no strict mode"]


@pytest.mark.parametrize("target", ["ollama", "together"])
def test_a_strict_tool_without_a_strict_mode_is_said(target: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": CLOSED, "strict": True}}
    _, changes = translated({**CHAT, "tools": [tool]}, "openai_chat", target)
    name = "Ollama" if target == "ollama" else target
    assert changes == [f"tools are not strict in this request: {name} has no strict mode"]
