"""The opaque state that clients carry: only what this gateway has signed is read, up to one limit a request."""

from __future__ import annotations

import base64
import json
import logging
import random
import zlib
from typing import Any

import httpx
import pytest
from carried_states import KEY, SETTINGS, unwrap_state
from gateway.gateway_clients import Json
from gateway.gateway_server import Target, serve_gateway
from hypothesis import given
from hypothesis import strategies as st
from neutral_requests.test_gateway import MATRIX, reasoning_with_state, run_round, upstream_request

from streamkit import Content
from streamkit.errors import UsageError
from streamkit.gateway import Exchange, Gateway, GatewayLimits, Upstream
from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.gateway.translation.state_text import StateSettings, UpstreamState, wrap_state
from streamkit.history import Block, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.testing import Call, Reasoning, Reply, serve

ORIGIN = {"provider": "anthropic", "endpoint": "https://api.example.com", "model": "m"}
MARK = b"streamkit-state-1:"
OTHER = b"another key, of another gateway"


def reasoning_state(text: str, **fields: Any) -> UpstreamState:
    return UpstreamState(ORIGIN, "reasoning", {"text": text, **fields})


def message(*blocks: Block) -> Content:
    return Content(speaker="ai", blocks=list(blocks))


def restored_texts(contents: list[Content]) -> list[str]:
    return [block.text for content in contents for block in content.blocks if isinstance(block, ReasoningBlock)]


class Inflations:
    """Counts what is inflated, and the bytes that come of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        original = zlib.decompressobj

        def decompressobj(*arguments: Any) -> Any:
            counted, inner = self, original(*arguments)

            class Counting:
                def decompress(self, data: bytes, most: int) -> bytes:
                    assert most > 0  # 0 is no limit
                    result = inner.decompress(data, most)
                    counted.sizes.append(len(result))
                    return result

            return Counting()

        monkeypatch.setattr(zlib, "decompressobj", decompressobj)


# ---------------------------------------------------------------- what is read


def test_what_this_gateway_has_not_signed_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 65 kB was inflated to 64 MiB, any number of them in a request."""
    bomb = zlib.compress(bytes(1_000_000))
    forged = [base64.b64encode(MARK + bytes(size) + bomb).decode() for size in (0, 1, 16, 32)]
    forged += [wrap_state(reasoning_state("a"), OTHER), base64.b64encode(MARK).decode()]
    inflations = Inflations(monkeypatch)
    changes: list[str] = []
    blocks = [ReasoningBlock(text="kept", signature=text) for text in forged * 20]
    restored = restore_state([message(*blocks), message(*blocks)], SETTINGS, changes)
    assert inflations.sizes == []
    assert len(changes) == 1
    assert "a key that this gateway does not have" in changes[0]
    assert restored_texts(restored) == ["kept"] * 240
    assert all(block.signature is None for content in restored for block in content.blocks)  # type: ignore[union-attr]


@pytest.mark.parametrize("place", [24, 30, 60, -6])
def test_no_byte_of_a_state_can_be_changed(place: int) -> None:
    text = wrap_state(reasoning_state("Hm."), KEY)
    changed = "B" if text[place] != "B" else "C"
    assert unwrap_state(text) is not None
    assert unwrap_state(text[:place] + changed + text[place:][1:]) is None


def test_a_state_cannot_be_moved_to_another_origin() -> None:
    """The origin is within what is signed, so renderers decide by what the gateway has written."""
    data = base64.b64decode(wrap_state(reasoning_state("Hm."), KEY))
    signature, packed = data[18:34], data[34:]
    plain = zlib.decompress(packed, -zlib.MAX_WBITS)
    assert b"api.example.com" in plain
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    moved = compressor.compress(plain.replace(b"api.example.com", b"own.example.com")) + compressor.flush()
    assert unwrap_state(base64.b64encode(MARK + signature + moved).decode()) is None


def test_all_state_of_a_request_has_one_limit_and_the_latest_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    large = wrap_state(reasoning_state("a" * 1_000_000), KEY)
    assert len(large) < 5000
    small = wrap_state(reasoning_state("b"), KEY)
    inflations = Inflations(monkeypatch)
    contents = [message(ReasoningBlock(text=f"{number}", signature=large)) for number in range(100)]
    contents += [message(ReasoningBlock(text="last", signature=small))]
    changes: list[str] = []
    restored = restore_state(contents, StateSettings(KEY, 3_500_000), changes)
    assert [len(text) for text in restored_texts(restored)] == [*[1] * 10, *[2] * 87, *[1_000_000] * 3, 1]
    assert sum(inflations.sizes) == 3_500_001
    assert changes == [
        "opaque state of earlier responses was left out: a request may have 3500000 bytes of it, in 10000 texts"
    ]


def test_the_number_of_texts_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    state = wrap_state(reasoning_state("b"), KEY)
    inflations = Inflations(monkeypatch)
    restored = restore_state([message(*[ReasoningBlock(text="a", signature=state)] * 10_500)], SETTINGS)
    assert len(inflations.sizes) == 10_000
    assert restored_texts(restored).count("b") == 10_000
    assert restored_texts(restored).count("a") == 500


# ---------------------------------------------------------------- keys


def test_a_key_is_replaced_without_losing_state() -> None:
    old, new = wrap_state(reasoning_state("a"), OTHER), wrap_state(reasoning_state("b"), KEY)
    both = StateSettings([KEY, OTHER.decode()], 1000)
    assert both.keys[0] == KEY
    assert [unwrap_state(text, both) for text in (old, new)] == [reasoning_state("a"), reasoning_state("b")]
    assert [unwrap_state(text) for text in (old, new)] == [None, reasoning_state("b")]


@pytest.mark.parametrize("key", ["", "short", b"short", [], [KEY, ""], 5 * [None]])
def test_a_key_that_can_be_guessed_is_refused(key: Any) -> None:
    with pytest.raises(UsageError, match="at least 16 bytes"):
        Gateway(Upstream(provider="anthropic", ask=print), state_key=key)  # type: ignore[arg-type]


def test_a_gateway_without_a_key_makes_one_and_logs_that(caplog: pytest.LogCaptureFixture) -> None:
    upstream = Upstream(provider="anthropic", ask=print)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "streamkit.gateway"):
        first, second = Gateway(upstream), Gateway(upstream)
        assert len(caplog.records) == 2
        Gateway(upstream, state_key=KEY)
    assert len(caplog.records) == 2
    assert "a restart" in caplog.records[0].message
    assert first._state.carried.keys != second._state.carried.keys


@pytest.mark.parametrize(
    ("keys", "is_kept"), [([KEY, KEY], True), ([KEY, [OTHER, KEY]], True), ([KEY, OTHER], False), ([None, None], False)]
)
def test_the_next_gateway_reads_the_state_if_it_has_the_key(keys: list[Any], is_kept: bool) -> None:
    """A restart, or another worker. Without the key the conversation goes on without the state."""
    ask: Json = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Weather?"}],
                 "tools": [{"name": "weather", "input_schema": {"type": "object"}}]}  # fmt: skip
    reports: list[Exchange] = []
    with serve([Reply(Reasoning("Hm."), Call("weather", {})), "Cold."]) as server:
        target = Target("openai_responses", server.base_url("openai_responses"), models={"*": "gpt-5"})
        with serve_gateway(target, state_key=keys[0]) as url:
            content = httpx.post(f"{url}/v1/messages", json=ask).json()["content"]
        (call,) = [block for block in content if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "4"}
        ask["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        with serve_gateway(target, state_key=keys[1], reports=reports) as url:
            response = httpx.post(f"{url}/v1/messages", json=ask)
        sent = json.dumps(server.requests[1].json)
    assert response.status_code == 200
    assert ('"id": "rs_' in sent) is is_kept
    assert "c3RyZWFta2l0" not in sent
    dropped = [change for change in reports[0].changes if "opaque state of earlier responses" in change]
    assert len(dropped) == (not is_kept)


def test_the_limit_is_an_option_of_the_gateway() -> None:
    gateway = Gateway(
        Upstream(provider="anthropic", ask=print),  # type: ignore[arg-type]
        limits=GatewayLimits(state=7),
        state_key=KEY,
    )
    assert gateway._state.carried.limit == 7


# ---------------------------------------------------------------- the way there and back


def reordered(value: Any, order: random.Random) -> Any:
    """Return JSON as a client writes it that has other classes: the same values, the fields in another order."""
    if isinstance(value, dict):
        names = [*value]
        order.shuffle(names)
        return {name: reordered(value[name], order) for name in names}
    return [reordered(item, order) for item in value] if isinstance(value, list) else value


@pytest.mark.hypothesis
@given(pair=st.sampled_from([tuple(each.values) for each in MATRIX]), order=st.randoms(use_true_random=False))
def test_what_comes_back_is_what_was_hidden(pair: tuple[str, str], order: random.Random) -> None:
    client, name = pair
    turns = run_round(client, name)
    body = json.loads(json.dumps(reordered(turns.next_body, order), ensure_ascii=order.random() < 0.5))
    text, contents = upstream_request(body, client, name)
    restored = next(content for content in contents if content.speaker == "ai")
    expected = turns.upstream.choices[0].content
    assert reasoning_with_state(restored, name) == reasoning_with_state(expected, name)
    calls = [
        [block.metadata.get("thoughtSignature") for block in each.blocks if isinstance(block, ToolCallBlock)]
        for each in (restored, expected)
    ]
    assert calls[0] == calls[1]
    assert "c3RyZWFta2l0LXN0YXRl" not in text


@given(
    lengths=st.lists(st.integers(0, 12), max_size=5),
    pieces=st.lists(st.sampled_from(["a", "ab", "b", ""]), max_size=6),
    texts=st.lists(st.sampled_from(["", "Cold", "Warm."]), max_size=4),
)
@pytest.mark.hypothesis
def test_a_client_that_sends_anything_beside_the_state_keeps_its_texts(
    lengths: list[int], pieces: list[str], texts: list[str]
) -> None:
    before = tuple(
        reasoning_state("ab" * (number % 2 + 1), signature=str(number), text_length=length)
        for number, length in enumerate(sorted(lengths))
    )
    state = wrap_state(UpstreamState(ORIGIN, "call", {"name": "f", "number": 0}, {}, before), KEY)
    call = ToolCallBlock(id="x", name="f", metadata={"thoughtSignature": state})
    blocks: list[Block] = [*(ReasoningBlock(text=piece) for piece in pieces), *(TextBlock(text=each) for each in texts)]
    (content,) = restore_state([message(*blocks, call)], SETTINGS)
    assert "".join(block.text for block in content.blocks if isinstance(block, TextBlock)) == "".join(texts)
    signed = [block for block in content.blocks if isinstance(block, ReasoningBlock) and block.signature is not None]
    assert sorted(block.signature or "" for block in signed) == [str(number) for number in range(len(lengths))]
    assert [type(block) for block in content.blocks].count(ToolCallBlock) == 1


@pytest.mark.parametrize(
    ("value", "kept"), [("x\ud83dy", "x\ufffdy"), (2**70, 2**70), (10**400, 10**400), (float("inf"), None)]
)
def test_state_that_json_or_utf8_lacks_is_carried_as_it_is_stored(value: Any, kept: Any) -> None:
    opaque = {"type": "t", "half": "\ud83d", "value": value}
    state = unwrap_state(wrap_state(reasoning_state("Hm.", opaque=opaque), KEY))
    assert state is not None
    assert state.fields["opaque"] == {"type": "t", "half": "\ufffd", "value": kept}
