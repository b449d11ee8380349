"""Messages of Converse to history, and back."""

from __future__ import annotations

from typing import Any

import pytest
from imported_messages import CONVERSE, REDACTED, SERVED, Json, results_of

from streamkit import providers
from streamkit.history import ReasoningBlock, ServerToolBlock
from streamkit.providers import parse_messages, render


def test_converse_keeps_what_only_it_understands() -> None:
    contents = parse_messages(CONVERSE, "bedrock_converse", system=[{"text": "a"}, {"cachePoint": {"type": "default"}}])
    assert contents[0].blocks[0].metadata == {"cache": {}}
    assert contents[1].blocks[2].metadata == {"cache": {}}
    signed, redacted, served, cited = contents[2].blocks[:4]
    assert isinstance(signed, ReasoningBlock)
    assert (signed.text, signed.signature) == ("hm", "SIG")
    assert isinstance(redacted, ReasoningBlock)
    assert redacted.opaque == REDACTED
    assert isinstance(served, ServerToolBlock)
    assert served.raw == SERVED
    assert cited.metadata["citations"] == [{"title": "t"}]
    assert [(result.result, result.error, result.status) for result in results_of(contents)] == [
        ({"t": 21}, None, None),
        (None, "broken", "error"),
    ]


def test_converse_keeps_system_messages_tool_changes_and_guarded_system_text() -> None:
    system = [{"guardContent": {"text": {"text": "a"}}}, {"text": "b"}, {"cachePoint": {"type": "default"}}]
    change = {"toolAddition": {"tool": {"type": "tool_reference", "name": "get_rate"}}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}]},
        {"role": "system", "content": [change, {"text": "Be brief."}, {"cachePoint": {"type": "default"}}]},
        {"role": "assistant", "content": [{"text": "."}]},
    ]
    contents = parse_messages(provider_messages, "bedrock_converse", system=system)
    body = providers.render_request(contents, "bedrock_converse")
    assert (body["system"], body["messages"]) == (system, provider_messages)
    assert [message["content"] for message in render(contents, "openai_chat")] == ["b", "?", "Be brief.", "."]


@pytest.mark.parametrize(
    "part",
    [
        {"searchResult": {"source": "https://e.org", "title": "A page", "content": [{"text": "It says"}]}},
        {"document": {"format": "pdf", "name": "a", "source": {"bytes": "QQ=="}, "citations": {"enabled": True}}},
        {"document": {"name": "a", "source": {"text": "A text"}}},
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png", "bucketOwner": "123456789012"}}}},
        {"video": {"format": "mpg", "source": {"bytes": "QQ=="}}},
    ],
)
def test_converse_keeps_the_parts_of_a_result(part: Json) -> None:
    content = [{"text": "found"}, part]
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": content}}]},
    ]
    contents = parse_messages(provider_messages, "bedrock_converse")
    assert render(contents, "bedrock_converse", ids="origin") == provider_messages


def test_converse_reads_the_bytes_of_boto3_as_base64() -> None:
    document = {"format": "txt", "name": "a", "source": {"bytes": b"hello"}}
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    cited = {"document": {**document, "name": "b", "citations": {"enabled": True}}}
    use = {"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {}}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}, {"document": document}, image, cited]},
        {"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"hidden"}}, use]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_1", "content": [{"document": {**document, "name": "c"}}]}}
            ],
        },
    ]
    contents = parse_messages(provider_messages, "bedrock_converse")
    assert [block.type for block in contents[0].blocks] == ["text", "file", "image", "opaque"]
    asked, answered, result = render(contents, "bedrock_converse", ids="origin")
    assert asked["content"][1]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert asked["content"][2]["image"]["source"] == {"bytes": "iVBORw=="}
    assert asked["content"][3]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert answered["content"][0] == {"reasoningContent": {"redactedContent": "aGlkZGVu"}}
    assert result["content"][0]["toolResult"]["content"][0]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert provider_messages[0]["content"][1]["document"]["source"] == {"bytes": b"hello"}
    deep: Any = {"text": "x"}
    for _ in range(5000):
        deep = {"deep": deep}
    assert parse_messages([{"role": "user", "content": [{"text": "?"}, deep]}], "bedrock_converse")


def test_converse_reads_several_parts_of_data_and_a_failure_with_an_image() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "QQ=="}}}
    uses = [{"toolUse": {"toolUseId": f"tooluse_{number}", "name": "f", "input": {}}} for number in (1, 2)]
    results = [
        {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"a": 1}}, {"text": "b"}, 3]}},
        {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "broken"}, image], "status": "error"}},
    ]
    contents = parse_messages(
        [{"role": "assistant", "content": uses}, {"role": "user", "content": results}], "bedrock_converse"
    )
    several, failed = results_of(contents)
    assert several.result == [{"type": "text", "text": '{"a":1}'}, {"type": "text", "text": "b"}, 3]
    assert (failed.error, failed.status) == ("broken", "error")
