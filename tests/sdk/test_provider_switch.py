"""One conversation relayed over three providers: each round on another wire, held to its rules by the embedded server.

Every request is rendered from the same neutral history and answered by a strict server, so an illegal one comes back
as that provider's 400 and fails the test.
"""

from __future__ import annotations

import re
from itertools import permutations

import httpx
import pytest
from waiting import PATIENCE

from streamkit import Content, execute_tool_calls_batched, providers, run_loop
from streamkit.reading.turn import Turn
from streamkit.testing import Call, Disconnect, Reasoning, Reply, list_rules, serve, validate_request

WIRES = [
    "openai_chat",
    "anthropic",
    "gemini",
    "openai_responses",
    "mistral",
    "kimi",
    "bedrock_converse",
    "cohere",
    "ollama",
]
MODELS = {"gemini": "gemini-3-pro-preview"}  # the one that also looks for signatures
PATHS = {
    "anthropic": "/v1/messages",
    "bedrock_converse": "/model/{model}/converse-stream",
    "bedrock_invoke": "/model/{model}/invoke-with-response-stream",
    "cohere": "/v2/chat",
    "gemini": "/v1beta/models/{model}:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
    "openai_responses": "/responses",
}
# All orders of two disjoint thirds and of every wire with its neighbours: each wire stands in each place.
TRIPLES = [
    *permutations(WIRES[:3]),
    *permutations(WIRES[3:6]),
    *permutations(WIRES[6:]),
    *((WIRES[i], WIRES[(i + step) % 9], WIRES[(i + 2 * step) % 9]) for i in range(9) for step in (2, 4)),
]


def get_weather(city: str) -> dict[str, object]:
    """The weather."""
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return {"city": city, "degrees": 4}


def get_time() -> str:
    """The time."""
    return "noon"


TOOLS = [get_weather, get_time]
FIRST = Reply(
    "Let me look. ",
    Call("get_weather", {"city": "Oslo"}),
    Call("get_weather", {"city": "Atlantis"}),
    Call("get_time"),
)
SECOND = Reply(Call("get_weather", {"city": "Tromsø"}), Call("get_weather", {"city": "Oslo"}))
THIRD = Reply("Four degrees in both; there is no Atlantis.")


#: What a wire requires beside the conversation.
REQUIRED = {"anthropic": {"max_tokens": 100}, "bedrock_invoke": {"max_tokens": 100}}


def url_and_body(server, name, conversation, contents, **more):
    model = MODELS.get(name, "some-model")
    path = PATHS.get(name, "/chat/completions").format(model=model)
    body = providers.render_request(contents, name, tools=more.pop("tools", ()), **more)
    return server.base_url(name, conversation) + path, {"model": model, **REQUIRED.get(name, {}), **body}


def ask(client, server, name, contents, *, conversation, turn_key="t", **more):
    """One answer, read to its end; the request is refused where the wire's provider would refuse it."""
    url, body = url_and_body(server, name, conversation, contents, **more)
    turn = Turn(name, turn_key=turn_key)
    try:
        with client.stream("POST", url, json=body) as response:
            assert response.status_code == 200, f"{name} refused: {response.read().decode()}"
            for piece in response.iter_bytes():
                turn.feed(piece)
    except httpx.RemoteProtocolError as error:
        turn.close(error)
    turn.close()
    return turn


class Scripts:
    """One server for all conversations; the wires that answer one walk its script together."""

    def __init__(self):
        self._turns = {}
        self.server = serve(lambda request: next(self._turns[request.conversation]))

    def begin(self, script):
        """The name of a conversation with a script of its own."""
        name = f"c{len(self._turns)}"
        self._turns[name] = iter(script)
        return name

    def statuses(self, conversation):
        return [request.status for request in self.server.requests if request.conversation == conversation]


def tools():
    from streamkit.tools import to_tools

    return list(to_tools(TOOLS).values())


class Relay:
    def __init__(self, client, scripts):
        self.client, self.scripts = client, scripts

    def ask(self, name, contents, reply):
        """One answer, on a conversation of its own."""
        conversation = self.scripts.begin([reply])
        return ask(self.client, self.scripts.server, name, contents, conversation=conversation, tools=tools())

    def __call__(self, names, script, history=(), *, ids="origin"):
        """The history after a conversation whose rounds are answered by *names* in turn."""
        contents = [*(history or [Content.system("Be brief."), Content.human("How warm is it?")])]
        where = self.scripts.begin(script)
        for number, name in enumerate(names):
            more = {"conversation": where, "turn_key": f"t{number}", "tools": tools(), "ids": ids}
            turn = ask(self.client, self.scripts.server, name, contents, **more)
            assert turn.error is None, (name, turn.error)
            if turn.calls:
                contents += execute_tool_calls_batched(turn, tools=TOOLS).run_sync().contents
            else:
                contents.append(turn.content)
        assert self.scripts.statuses(where) == [200] * len(names)
        return contents


@pytest.fixture(scope="module")
def relay():
    scripts = Scripts()
    with scripts.server, httpx.Client(timeout=PATIENCE) as client:
        yield Relay(client, scripts)


@pytest.mark.slow
@pytest.mark.parametrize("names", TRIPLES, ids="-".join)
@pytest.mark.parametrize("ids", ["canonical", "origin"])
def test_a_conversation_continues_on_two_other_providers(relay, names, ids):
    unserved = [name for name in names if name != "openai_chat" and name not in providers.names()]
    if unserved:
        pytest.skip(f"no server for {', '.join(unserved)}")
    contents = relay(names, [FIRST, SECOND, THIRD], ids=ids)
    results = [block for content in contents for block in content.blocks if block.type == "tool_response"]
    assert [result.error is None for result in results] == [True, False, True, True, True]
    assert contents[-1].blocks[-1].text == "Four degrees in both; there is no Atlantis."


@pytest.mark.parametrize("name", WIRES)
def test_a_conversation_of_nine_providers_continues_on_each(relay, name):
    rounds = [Reply(Call("get_weather", {"city": "Oslo"}), Call("get_time")) for _ in WIRES]
    relay([*WIRES, name], [*rounds, THIRD])


@pytest.mark.anyio
@pytest.mark.parametrize("names", TRIPLES[::4], ids="-".join)
async def test_each_run_of_the_loop_can_have_another_provider(names):
    history = [Content.human("How warm is it?")]
    scripts = Scripts()
    where = scripts.begin([FIRST, THIRD, SECOND, THIRD, FIRST, THIRD])
    async with scripts.server as server, httpx.AsyncClient() as client:
        for number, name in enumerate(names):

            async def stream(context, name=name):
                model = MODELS.get(name, "some-model")
                path = PATHS.get(name, "/chat/completions").format(model=model)
                url = server.base_url(name, where) + path
                return client.stream("POST", url, json={"model": model, **REQUIRED.get(name, {}), **context.request})

            run = await run_loop(stream, provider=name, tools=TOOLS, history=history, run_key=f"r{number}")
            assert run.ended == "answered"
            history = [*run.history, Content.human("And now?")]
    assert {request.status for request in server.requests} == {200}


@pytest.mark.parametrize("name", WIRES)
def test_signed_thinking_is_accepted_on_every_wire(relay, name):
    signed = Reply(
        Reasoning("Two cities.", signature="c2ln"), "I look.", Call("get_weather", {"city": "Oslo"}), Call("get_time")
    )
    contents = relay(["anthropic", name, "anthropic"], [signed, SECOND, THIRD])
    body = providers.render_request(contents[:-1], "anthropic", tools=tools())
    thinking = [part for message in body["messages"] for part in message["content"] if part["type"] == "thinking"]
    assert thinking == [{"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"}]


@pytest.mark.parametrize("name", WIRES)
def test_gemini_accepts_its_own_and_foreign_calls_in_one_turn(relay, name):
    relay(["gemini", name, "gemini", name, "gemini"], [FIRST, SECOND, FIRST, SECOND, THIRD])


@pytest.mark.parametrize("name", WIRES)
def test_gemini_gets_its_signatures_back_at_their_positions(relay, name):
    turn = relay.ask("gemini", [Content.human("Time?")], Reply(Call("get_time")))
    signature = turn.content.blocks[-1].metadata["thoughtSignature"]
    history = [Content.human("Time?"), *execute_tool_calls_batched(turn, tools=TOOLS).run_sync().contents]
    contents = relay([name, "gemini"], [SECOND, THIRD], history)
    sent = providers.render_request(contents[:-1], "gemini")["contents"]
    marks = [part.get("thoughtSignature") for content in sent for part in content["parts"] if "functionCall" in part]
    assert marks[0] == signature
    assert marks[1] is not None
    assert validate_request("gemini", {"contents": sent}, model="gemini-3-flash") == []


@pytest.mark.parametrize("origin", WIRES)
def test_a_history_with_a_truncated_call_is_accepted_everywhere(relay, origin):
    cut = Reply("I look. ", Call("get_weather", {"city": "Oslo"}), Disconnect(), Call("get_time"))
    turn = relay.ask(origin, [Content.human("Hi")], cut)
    assert turn.error is not None
    for name in WIRES:
        relay([name], [THIRD], [Content.human("Hi"), turn.content, Content.human("Go on.")])


@pytest.mark.parametrize("origin", ["openai_chat", "anthropic", "openai_responses", "kimi"])
def test_arguments_truncated_at_the_length_limit_are_accepted_everywhere(relay, origin):
    turn = relay.ask(origin, [Content.human("Hi")], Reply(Call("get_weather", '{"city": "Os'), finish="length"))
    assert [call.state for call in turn.calls] == ["incomplete"]
    update = execute_tool_calls_batched(turn, tools=TOOLS).run_sync()
    for name in WIRES:
        relay([name], [THIRD], [Content.human("Hi"), *update.contents])


@pytest.mark.parametrize("origin", WIRES)
def test_canceled_calls_without_results_are_accepted_everywhere(relay, origin):
    turn = relay.ask(origin, [Content.human("Hi")], FIRST)
    results = execute_tool_calls_batched(turn, tools=TOOLS).run_sync().contents[1:]
    kept = results[0].model_copy(update={"blocks": results[0].blocks[1:2]})
    for name in WIRES:
        relay([name], [THIRD], [Content.human("Hi"), turn.content, kept, Content.human("Never mind.")])
        relay([name], [THIRD], [Content.human("Hi"), turn.content, Content.human("Never mind.")])


@pytest.mark.parametrize("name", WIRES)
def test_a_history_that_begins_in_the_middle_is_accepted_everywhere(relay, name):
    whole = relay(["openai_chat", "anthropic"], [FIRST, THIRD])
    for start in range(1, len(whole)):
        relay([name], [THIRD], [*whole[start:], Content.human("And now?")])


@pytest.mark.parametrize("name", WIRES)
def test_a_response_that_ends_in_white_space_and_a_blank_one_are_accepted(relay, name):
    history = [Content.human("Hi"), Content.ai("Yes. \n"), Content.human("?"), Content.ai("\n\n"), Content.human("Go")]
    relay([name], [THIRD], history)
    relay([name], [THIRD], history[:2])


def test_unsigned_calls_of_an_older_gemini_are_accepted_by_a_newer_one(relay):
    history = relay(["openai_chat"], [SECOND])
    older = Content.ai("", *history[-2].blocks)
    for block in older.blocks:
        block.metadata = {"provider": "gemini"}
    older.metadata = {"provider": "gemini", "model": "gemini-2.5-flash"}
    relay(["gemini"], [THIRD], [*history[:-2], older, history[-1]])


def test_an_illegal_history_is_rejected_by_the_server(relay):
    server, url = relay.scripts.server, relay.scripts.begin([THIRD])
    broken = [
        Content.human("Hi"),
        Content.ai("", *relay.ask("openai_chat", [Content.human("Hi")], FIRST).content.blocks),
    ]
    pairing = {"call_answered", "call_answered_next", "as_many_results_as_calls"}
    names = [name for name in WIRES if pairing & {rule.name for rule in list_rules(name)}]
    assert {"anthropic", "openai_chat", "openai_responses", "gemini"} <= set(names)
    for name in names:
        address, body = url_and_body(server, name, url, broken)
        messages = providers.render(broken, name, repair=False)
        field = next(field for field in ("messages", "contents", "input") if field in body)
        response = relay.client.post(address, json={**body, field: messages})
        assert response.status_code == 400, name
        assert "rule " in response.text


def test_every_wire_has_a_path():
    for name in WIRES:
        path = PATHS.get(name, "/chat/completions").format(model="m").partition("?")[0]
        endpoint = providers.get(name).traits.endpoint
        assert re.fullmatch(endpoint.route, endpoint.sdk_base_path + path)
