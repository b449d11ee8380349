"""Ollama's messages to history."""

from __future__ import annotations

from imported_messages import OLLAMA, calls_of, results_of

from streamkit.history import ImageBlock
from streamkit.providers import parse_messages


def test_calls_of_ollama_without_ids_have_their_results_by_order() -> None:
    contents = parse_messages(OLLAMA, "ollama")
    calls, results = calls_of(contents), results_of(contents)
    assert [call.parameters for call in calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert [result.result for result in results] == ["21", "9"]
    assert contents[1].blocks[1] == ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")
