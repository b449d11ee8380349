"""Which messages each content made, on every provider."""

from __future__ import annotations

import pytest

from streamkit import Content, providers
from streamkit.history import ToolCallBlock, ToolResponseBlock

CALLS = [ToolCallBlock(id=f"call_{n}", name="look", parameters={"n": n}) for n in range(2)]
RESULTS = [ToolResponseBlock(call_id=f"call_{n}", name="look", result=f"sea {n}") for n in range(2)]
CONVERSATION = [
    Content.system("Be brief."),
    Content.human("Look twice."),
    Content.ai("I look.", *CALLS),
    Content(speaker="tool", blocks=RESULTS[1:]),
    Content(speaker="tool", blocks=RESULTS[:1]),
    Content.ai("The sea, twice."),
    Content.human("Thanks."),
]


@pytest.mark.parametrize("name", providers.names())
def test_spans_name_the_messages_of_each_content(name: str) -> None:
    rendered = providers.get(name).render(CONVERSATION)
    assert len(rendered.spans) == len(CONVERSATION)
    assert all(0 <= start <= stop <= len(rendered.messages) for start, stop in rendered.spans)

    def written(content: int) -> str:
        start, stop = rendered.spans[content]
        return str(rendered.messages[start:stop])

    assert "Look twice." in written(1)
    assert "I look." in written(2)
    assert written(2).count("look'") >= 2
    assert ("sea 1" in written(3), "sea 0" in written(4)) == (True, True)
    assert "The sea, twice." in written(5)
    assert "Thanks." in written(6)
    assert "Thanks." not in written(5)
    covered = {number for start, stop in rendered.spans for number in range(start, stop)}
    unclaimed = [message for number, message in enumerate(rendered.messages) if number not in covered]
    assert not unclaimed or name == "mistral"  # which needs an assistant message between a result and a person


@pytest.mark.parametrize("name", providers.names())
def test_a_content_without_a_message_has_an_empty_span(name: str) -> None:
    rendered = providers.get(name).render([Content.human("Hi"), Content(speaker="robot", blocks=[]), Content.ai("Yes")])
    start, stop = rendered.spans[1]
    assert start == stop
    assert rendered.spans[2] == (len(rendered.messages) - 1, len(rendered.messages))
