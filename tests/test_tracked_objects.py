"""How many objects of an open turn the garbage collector looks at, counted: a server with many turns pays for each.

The collector looks at all of them again and again while turns are opened; texts, bytes and numbers cost nothing.
"""

from __future__ import annotations

import gc

import pytest
from compiled import interpreted_only

from streamkit import Content, Turn, providers
from streamkit.events import ToolCallDelta, ToolCallEnd
from streamkit.history import ToolCallBlock

pytestmark = interpreted_only

TURNS = 50
MOST = 36  #: of a turn after 30 deltas, with a call that is open
CONTENT = Content.ai(
    "word " * 30,
    ToolCallBlock(id="call_1", name="f", parameters={"cities": "Hamburg, Berlin, Munich, Stuttgart, Cologne, Essen"}),
)


def frames_with_an_open_call(provider: str) -> list[bytes]:
    """Return the frames of a turn of a text and a call, up to the last one before the call's end."""
    frames = list(providers.get(provider).emit(CONTENT, response_id="response_1", model="model", delta_size=4))
    turn, events = Turn(provider, turn_key="turn-1"), []
    for number, frame in enumerate(frames):
        more = turn.feed(frame)
        if any(isinstance(event, ToolCallEnd) for event in more):
            assert number >= 30
            assert isinstance(events[-1], ToolCallDelta)
            return frames[:number]
        events += more
    raise AssertionError(f"no call of {provider} ends before the turn does")


def count_tracked() -> int:
    gc.collect()  # a tuple or a dict of texts alone is tracked until its first collection
    return len(gc.get_objects())


@pytest.mark.parametrize(
    "provider", ["anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "openai_chat", "openai_responses"]
)
def test_a_turn_with_an_open_call_has_few_tracked_objects(provider: str) -> None:
    frames = frames_with_an_open_call(provider)
    before = count_tracked()
    turns = [Turn(provider, turn_key="turn-1") for _ in range(TURNS)]
    for turn in turns:
        for frame in frames:
            turn.feed(frame)
    assert (count_tracked() - before) // len(turns) <= MOST
