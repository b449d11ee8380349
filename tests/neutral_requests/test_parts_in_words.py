"""Parts of a client's messages that only its own wire has: text at every other provider, unchanged at their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import parse_request, render_request

Json = dict[str, Any]
WIRES = ("anthropic", "bedrock_converse", "cohere", "gemini", "ollama", "openai_chat", "openai_responses")


def user(part: Json) -> Json:
    """Return a message of a person with one part and a question."""
    return {"role": "user", "content": [part, {"type": "text", "text": "What is it?"}]}


def written(client: str, message: Json, target: str) -> tuple[str, list[str]]:
    """Return the body that a target gets for one message of a client, as JSON, and the changes."""
    field = "input" if client == "openai_responses" else "messages"
    body: Json = {"model": "m", field: [message]}
    changes: list[str] = []
    request = parse_request(body, client, changes=changes)
    return json.dumps(render_request(request, target, unsupported="text", changes=changes)), changes


TEXT = {"type": "text", "text": "Grass is green."}
#: The client, the part, and what a model must read of it.
PARTS: list[tuple[str, Json, tuple[str, ...]]] = [
    (
        "anthropic",
        {"type": "search_result", "source": "https://x/grass", "title": "Grass", "content": [TEXT]},
        ("https://x/grass", "Grass is green."),
    ),
    (
        "anthropic",
        {"type": "document", "source": {"type": "content", "content": [TEXT]}, "title": "Facts", "context": "A draft."},
        ("Facts", "A draft.", "Grass is green."),
    ),
    ("anthropic", {"type": "document", "source": {"type": "file", "file_id": "file_011"}}, ("file_011",)),
    ("anthropic", {"type": "image", "source": {"type": "file", "file_id": "file_012"}}, ("file_012",)),
    ("anthropic", {"type": "container_upload", "file_id": "file_013"}, ("file_013",)),
    ("openai_chat", {"type": "file", "file": {"file_id": "file-1"}}, ("file-1",)),
    ("openai_chat", {"type": "video_url", "video_url": {"url": "https://x/a.mp4"}}, ("https://x/a.mp4",)),
]


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize(("client", "part", "texts"), PARTS)
def test_a_part_of_one_wire_becomes_text_elsewhere(
    client: str, part: Json, texts: tuple[str, ...], target: str
) -> None:
    body, changes = written(client, user(part), target)
    for text in texts:
        assert text in body
    if client == target:
        assert json.dumps(part) in body
        assert changes == []
    elif "fileUri" not in body:  # Gemini has a field for the address of a video
        assert [change for change in changes if "text" in change], changes


@pytest.mark.parametrize("kind", ["input_file", "input_image"])
def test_stored_files_of_responses_become_text(kind: str) -> None:
    body, changes = written("openai_responses", user({"type": kind, "file_id": "file-7"}), "anthropic")
    assert "file-7" in body
    assert len(changes) == 1


@pytest.mark.parametrize("target", [wire for wire in WIRES if wire != "openai_responses"])
def test_a_compaction_says_that_the_conversation_before_it_is_lost(target: str) -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    request = parse_request({"model": "m", "input": [item, {"role": "user", "content": "Go on."}]}, "openai_responses")
    changes: list[str] = []
    body = json.dumps(render_request(request, target, changes=changes))
    assert "only openai_responses can read" in body
    assert "gAAA" not in body
    assert "a part (compaction) is lost, and a text says so: only openai_responses has it" in changes


def test_the_summary_of_a_compaction_of_anthropic_is_text_elsewhere() -> None:
    body, _ = written(
        "anthropic", {"role": "assistant", "content": [{"type": "compaction", "content": "We met."}]}, "gemini"
    )
    assert "We met." in body


@pytest.mark.parametrize("target", [wire for wire in WIRES if wire != "anthropic"])
def test_what_a_document_has_beside_its_text_is_said_or_text(target: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Grass is green."}
    part = {"type": "document", "source": source, "context": "A draft.", "citations": {"enabled": True}}
    body, changes = written("anthropic", user(part), target)
    assert "A draft." in body
    assert "the field 'citations' of an image or file was left out: only anthropic has it" in changes


@pytest.mark.parametrize("target", ["cohere", "ollama", "openai_chat", "openai_compatible", "groq", "vllm"])
def test_a_text_document_is_text_where_servers_refuse_files(target: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Grass is green."}
    body, changes = written("anthropic", user({"type": "document", "source": source, "title": "facts.txt"}), target)
    assert "facts.txt:\\nGrass is green." in body
    assert changes


def test_a_text_file_of_chat_goes_back_to_its_own_server_unchanged() -> None:
    part = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,QQ=="}}
    body, changes = written("openai_chat", user(part), "openai_chat")
    assert json.dumps(part) in body
    assert changes == []


@pytest.mark.parametrize("target", ["openrouter", "qwen", "vllm"])
def test_a_video_is_a_part_where_the_server_takes_it(target: str) -> None:
    part = {"fileData": {"fileUri": "https://x/a.mp4", "mimeType": "video/mp4"}}
    request = parse_request({"contents": [{"role": "user", "parts": [part, {"text": "?"}]}]}, "gemini")
    body = render_request(request, target)
    assert {"type": "video_url", "video_url": {"url": "https://x/a.mp4"}} in body["messages"][0]["content"]


def test_the_data_of_a_video_is_no_text() -> None:
    part = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,QUJDRA=="}}
    body, changes = written("openai_chat", user(part), "anthropic")
    assert "QUJDRA" not in body
    assert len(changes) == 1
    assert '"mimeType": "video/mp4"' in written("openai_chat", user(part), "gemini")[0]
