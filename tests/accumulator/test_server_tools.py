"""The arguments of tools that the provider runs (docs/rules.md, "Text and reasoning")."""

from __future__ import annotations

from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.calls import ServerCall
from streamkit.events import ServerTool


def test_argument_deltas_are_events_until_the_parsed_arguments_replace_them() -> None:
    accumulator = Accumulator("openai_chat", WireTraits(), turn_key="k")
    choice = accumulator.choice(0)
    choice.text("I search.")
    accumulator.events.clear()
    choice.server_tool("s1", "web_search", "started")
    choice.server_tool_delta("s1", "web_search", '{"query"')
    choice.server_tool_delta("s1", "web_search", "")
    choice.server_tool_delta("s1", "web_search", ':"x"}')
    assert [event for event in accumulator.events if isinstance(event, ServerTool)] == [
        ServerTool("s1", "web_search", "started"),
        ServerTool("s1", "web_search", "arguments", '{"query"'),
        ServerTool("s1", "web_search", "arguments", ':"x"}'),
    ]
    assert choice.server_calls == [ServerCall(id="s1", name="web_search", arguments='{"query":"x"}')]
    choice.server_tool("s1", "web_search", "arguments", {"query": "x"})
    assert accumulator.events[-1] == ServerTool("s1", "web_search", "arguments", {"query": "x"})
    assert choice.server_calls == [ServerCall(id="s1", name="web_search", arguments={"query": "x"})]
