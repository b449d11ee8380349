"""A conversation whose upstream changes between its turns: by fallback, to another model, and back again.

Each upstream is held to its rules by the embedded server's application. What every request must have: all texts, calls
and results that the client has, each result with its call; the state of its own earlier responses and of no other; and
the request before it to the same upstream as its beginning, because prompt caches find nothing else.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from gateway.chat_clients import CHAT_CLIENTS, ChatClient
from gateway.gateway_clients import Json, client_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from streamkit import parse_request
from streamkit.gateway import Cooldowns, Gateway, Upstream
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers.contract.rendered import STATE_MARK
from streamkit.testing import Call, Reasoning, Reply, validate_request
from streamkit.testing.application import ScriptedApplication
from streamkit.testing.script import Item

#: The upstreams, each with a model of it. One is there with a second model.
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "anthropic other": "claude-opus-4-1",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5.1",
    "gemini": "gemini-3-pro-preview",
    "bedrock_converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "mistral": "mistral-large-latest",
    "deepseek": "deepseek-reasoner",
    "kimi": "kimi-k2-thinking",
    "xai": "grok-4",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "ollama": "qwen3",
    "cohere": "command-a-reasoning-08-2025",
}
#: The providers that sign reasoning here, so that it must come back.
SIGNING = ("anthropic", "openai_responses", "bedrock_converse", "openrouter")
#: What precedes the messages in a prompt. Settings may change: thinking is turned off if the last response had none.
HEAD = ("tools", "toolConfig", "system", "instructions", "systemInstruction")
#: The blocks of a response: reasoning, text, call.
RESPONSES = ("rc", "rtc", "cc", "rcc", "tc", "t", "rt", "trc", "rtrc", "rcrc")
NAMES = {"reasoning": "r", "text": "t", "tool_call": "c"}
#: These keep the blocks of a response in their order, so that the order must come back.
ORDERED = ("anthropic", "openai_responses", "bedrock_converse")


def provider_of(upstream: str) -> str:
    return upstream.partition(" ")[0]


def messages_of(body: Json) -> list[Json]:
    found: list[Json] = next(body[name] for name in ("messages", "input", "contents") if name in body)
    return found


def parts_of(body: Json) -> list[Any]:
    """Return the parts of a request in their order: what grows is the end of the list."""
    parts: list[Any] = [body.get(name) for name in HEAD]
    for message in messages_of(body):
        content = message.get("content", message.get("parts"))
        rest = {name: value for name, value in message.items() if name not in ("content", "parts")}
        if isinstance(content, list):
            parts += [(rest, part) for part in content]
        else:
            parts.append(message)
    return parts


class SwitchedConversation(RuleBasedStateMachine):
    """One client, one gateway over several upstreams, of which another one responds each time."""

    client: ChatClient

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.facts: list[tuple[str, str]] = []  # what the client has: the kind and the word of each text, call, result
        self.unanswered: list[tuple[str, str]] = []
        self.states: dict[str, str] = {}  # the upstream by the state of its reasoning
        self.forgotten: set[str] = set()
        self.shapes: dict[str, list[str]] = {}  # of its responses, by upstream
        self.last_parts: dict[str, list[Any]] = {}
        self.asked: list[tuple[str, Json]] = []
        self.responding = ""
        self.reply = Reply("")
        self.application = ScriptedApplication(
            lambda _: self.reply, delta_size=9, delay=0, read_size=None, strict=True, disconnect=lambda _: None
        )

    # ------------------------------------------------------------ what happens

    @initialize(
        kind=st.sampled_from(CHAT_CLIENTS),
        upstreams=st.lists(st.sampled_from(sorted(MODELS)), min_size=2, max_size=3, unique=True),
    )
    def begin(self, kind: type[ChatClient], upstreams: list[str]) -> None:
        self.client, self.upstreams = kind(), upstreams
        always = Cooldowns(longest=0, stated=0)
        self.gateway = Gateway(*[self.upstream(name) for name in upstreams], cooldowns=always)
        self.speak()

    @rule(number=st.integers(0, 2), blocks=st.sampled_from(RESPONSES), answers=st.booleans())
    def respond(self, number: int, blocks: str, answers: bool) -> None:
        """Let one upstream respond, those before it in the list being overloaded."""
        self.responding = self.upstreams[number % len(self.upstreams)]
        provider = provider_of(self.responding)
        self.signed: list[str] = []
        items, facts = self.items(provider, blocks)
        self.reply, self.asked = Reply(*items), []
        response = anyio.run(self.ask)
        assert response.status_code == 200, response.text
        for upstream, body in self.asked:
            self.check(upstream, body)
        calls = self.client.receive(response.json())
        assert [city for _, city in calls] == [word for kind, word in facts if kind == "c"]
        self.facts += facts
        self.states |= dict.fromkeys(self.signed, self.responding)
        self.shapes.setdefault(self.responding, []).append(blocks)
        if not calls:
            self.speak()
        elif answers:
            results = [(call_id, self.word("result")) for call_id, _ in calls]
            self.client.answer(results)
            self.facts += [("result", f"{city} {word}") for (_, city), (_, word) in zip(calls, results, strict=True)]
        else:
            self.facts = [fact for fact in self.facts if fact[0] != "c" or fact[1] not in dict(calls).values()]
            self.shapes = {}
            self.speak()

    @precondition(lambda self: self.states)
    @rule()
    def forget_reasoning(self) -> None:
        self.client.forget_reasoning()
        self.forgotten |= self.states.keys()
        self.last_parts, self.shapes = {}, {}

    # ------------------------------------------------------------ what must hold

    def check(self, upstream: str, body: Json) -> None:
        provider, sent = provider_of(upstream), json.dumps(body, ensure_ascii=False)
        assert validate_request(provider, body, model=MODELS[upstream]) == []
        assert STATE_MARK[:20] not in sent
        for state, owner in self.states.items():
            assert state not in sent or owner == upstream
            assert state in sent or owner != upstream or state in self.forgotten

        found, cities = [], {}
        blocks = [block for content in parse_request(body, provider).contents for block in content.blocks]
        for block in blocks:
            if isinstance(block, TextBlock):
                found += [("t", word) for word in re.findall(r"text\d+", block.text)]
            elif isinstance(block, ToolCallBlock):
                cities[block.id] = block.parameters["city"] if isinstance(block.parameters, dict) else ""
                found.append(("c", cities[block.id]))
            elif isinstance(block, ToolResponseBlock) and (words := re.findall(r"result\d+", str(block.result))):
                found += [("result", f"{cities[block.call_id]} {word}") for word in words]
        assert len(set(cities.values())) == len(cities)
        known = [fact for fact in self.facts if fact[0] != "t" or provider != "cohere"]  # plans are no texts
        assert [fact for fact in found if fact in known] == known

        if provider in ORDERED and upstream in self.shapes:
            shapes = [
                "".join(NAMES.get(block.type, "") for block in content.blocks)
                for content in parse_request(body, provider).contents
                if content.speaker == "ai"
            ]
            assert all(shape in shapes for shape in self.shapes[upstream])

        parts, last = parts_of(body), self.last_parts.get(upstream, [])
        assert parts[: len(last)] == last
        self.last_parts[upstream] = parts

    # ------------------------------------------------------------ the upstreams

    def upstream(self, name: str) -> Upstream:
        provider = provider_of(name)
        http = httpx.AsyncClient(transport=httpx.ASGITransport(self.application), base_url="http://upstream")

        @asynccontextmanager
        async def ask(request: Any) -> AsyncIterator[httpx.Response]:
            self.asked.append((name, json.loads(json.dumps(request.body))))
            if name != self.responding:
                yield httpx.Response(529, json={"error": {"message": "overloaded"}})
                return
            async with http.stream("POST", f"/{provider}{request.path}", json=request.body) as response:
                yield response

        endpoint = f"https://{provider}.example.com"
        return Upstream(provider=provider, ask=ask, endpoint=endpoint, models={"*": MODELS[name]})

    async def ask(self) -> httpx.Response:
        async with client_of(self.gateway) as http:
            return await http.post(self.client.path, json=self.client.body())

    def items(self, provider: str, blocks: str) -> tuple[list[Item], list[tuple[str, str]]]:
        """Return the items of a response, and its texts and calls."""
        make: dict[str, Callable[[], tuple[Item, str]]] = {
            "r": lambda: self.reasoning(provider),
            "t": lambda: ((word := self.word("text")) + "\n is long.", word),
            "c": lambda: (Call("weather", {"city": (word := self.word("city"))}), word),
        }
        made = [(kind, *make[kind]()) for kind in blocks]
        return [item for _, item, _ in made], [(kind, word) for kind, _, word in made if kind != "r"]

    def reasoning(self, provider: str) -> tuple[Item, str]:
        word = self.word("thought")
        signature = base64.b64encode(f"signature of {word}".encode()).decode()
        self.signed += [signature] if provider in SIGNING else []
        if provider == "openrouter":
            detail = {"type": "reasoning.text", "text": word, "signature": signature, "format": "anthropic-claude-v1"}
            details = [{**detail, "index": self.count}]
            block = ReasoningBlock(text=word, metadata={"provider": provider, "reasoning_details": details})
            return block, word
        return Reasoning(word, signature if provider in SIGNING else None), word

    def word(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count:03}"

    def speak(self) -> None:
        word = self.word("text")
        self.client.say(f"{word}?")
        self.facts.append(("t", word))


TestSwitchedConversation = SwitchedConversation.TestCase
TestSwitchedConversation.settings = settings(stateful_step_count=8, suppress_health_check=list(HealthCheck))
