"""Cohere's messages to history."""

from __future__ import annotations

from imported_messages import PNG, results_of

from streamkit.providers import parse_messages


def test_cohere_reads_documents_and_unknown_parts() -> None:
    contents = parse_messages(
        [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}, {"type": "odd"}]},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}, 3]},
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [{"type": "document", "document": {"data": "a"}}, {"type": "text", "text": "b"}],
            },
            {"role": "narrator", "content": "Meanwhile"},
        ],
        "cohere",
    )
    assert [block.type for block in contents[0].blocks] == ["image", "opaque"]
    assert [block.type for block in contents[1].blocks] == ["tool_call", "opaque"]
    assert [result.result for result in results_of(contents)] == ["a\nb"]
    assert contents[3].speaker == "narrator"
