"""What Cohere's and Ollama's renderers share: one text a message, and a sentence for what has no field."""

from __future__ import annotations

import pytest

from streamkit import Content, ImageBlock, ReasoningBlock, TextBlock, providers
from streamkit.history import OpaqueBlock
from streamkit.testing import validate_request

PIXEL = "data:image/png;base64,iVBORw0KGgo="

pytestmark = pytest.mark.parametrize("provider", ["cohere", "ollama"])


def test_text_of_every_speaker(provider: str) -> None:
    rendered = providers.get(provider).render(
        [
            Content.system("Be brief.", TextBlock(text="Be kind.")),
            Content.human("Hi", TextBlock(text="there")),
            Content.ai("Hello"),
        ]
    )
    assert rendered.messages == [
        {"role": "system", "content": "Be brief.\nBe kind."},
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": "Hello"},
    ]
    assert rendered.changes == []
    assert validate_request(provider, {"model": "m", "messages": rendered.messages}) == []


def test_an_assistant_message_without_text_and_calls_is_left_out_and_reported(provider: str) -> None:
    rendered = providers.get(provider).render(
        [Content.ai("", ReasoningBlock(text="hm", metadata={"provider": provider})), Content.ai("")]
    )
    assert rendered.messages == []
    assert rendered.changes == ["left out an assistant message: it has neither text nor calls"]


def test_unknown_speakers_and_misplaced_blocks_are_left_out_and_reported(provider: str) -> None:
    rendered = providers.get(provider).render(
        [
            Content(speaker="narrator", blocks=[TextBlock(text="x")]),
            Content(speaker="tool", blocks=[TextBlock(text="x")]),
            Content.system("", ImageBlock(data=PIXEL)),
            Content.human("", OpaqueBlock(raw=1)),
        ]
    )
    assert rendered.messages == []
    assert len(rendered.changes) == 4
