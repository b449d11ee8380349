"""History as Responses input items, validated by the official SDK's request types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import request_validators
from hypothesis import given
from hypothesis import strategies as st

from streamkit import (
    Content,
    Turn,
    UnsupportedContent,
    execute_tool_calls_batched,
    parse_messages,
    parse_request,
    providers,
    render_request,
)
from streamkit import tool as as_tool
from streamkit.history import (
    Block,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
)
from streamkit.ids import normalize_to_history_tool_id
from streamkit.testing import validate_request

PROVIDER = providers.get("openai_responses")
OWN = {"provider": "openai_responses"}
IMAGE = "data:image/png;base64,QQ=="
CANONICAL = normalize_to_history_tool_id("a" * 24)


def ai(*blocks: Block) -> Content:
    return Content(speaker="ai", blocks=list(blocks))


def tool(*blocks: Block) -> Content:
    return Content(speaker="tool", blocks=list(blocks))


def render_valid(*contents: Content, **options: Any) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """Return the items, which the SDK's types accept, and the changes."""
    result = PROVIDER.render(contents, **options)
    # The type of a reasoning item requires an id; the API does not (NousResearch/hermes-agent#10217).
    typed = [{"id": "rs_0", **item} if item.get("type") == "reasoning" else item for item in result.messages]
    request_validators.openai_responses_input(json.loads(json.dumps(typed)))
    return result.messages, result.changes


def reasoning(id: str = "rs_1", **fields: Any) -> ReasoningBlock:
    item = {"type": "reasoning", "id": id, "summary": [], "encrypted_content": "E", **fields}
    return ReasoningBlock(opaque=item, metadata=OWN)


def call(id: str = CANONICAL, name: str = "look", **metadata: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters={"a": 1}, metadata={**OWN, **metadata})


def result(id: str = CANONICAL, value: Any = "ok", **fields: Any) -> ToolResponseBlock:
    return ToolResponseBlock(call_id=id, name="look", result=value, **fields)


# ---------------------------------------------------------------- user and system messages


def test_single_texts_are_strings_and_system_text_keeps_its_position() -> None:
    items, changes = render_valid(
        Content.system("Be brief."), Content.human("Hi"), Content.ai("Ho"), Content.system("Now rhyme.")
    )
    assert items == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Ho"},
        {"role": "system", "content": "Now rhyme."},
    ]
    assert changes == []


def test_images_and_files_are_parts() -> None:
    content = Content.human(
        "See",
        ImageBlock(data=IMAGE),
        ImageBlock(data="https://a.example/b.png"),
        FileBlock(media_type="application/pdf", data="QQ==", name="a.pdf"),
        FileBlock(data="data:text/plain;base64,QQ=="),
        FileBlock(url="https://a.example/c.pdf"),
        FileBlock(media_type="image/png", data="QQ=="),
    )
    items, _ = render_valid(content)
    assert items[0]["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        {"type": "input_file", "filename": "file", "file_data": "data:text/plain;base64,QQ=="},
        {"type": "input_file", "file_url": "https://a.example/c.pdf"},
        {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
    ]


@pytest.mark.parametrize("block", [ImageBlock(data="QQ=="), ImageBlock(data="data:image/png,x"), FileBlock(name="a")])
def test_media_that_the_api_rejects_raise(block: Block) -> None:
    with pytest.raises(UnsupportedContent):
        PROVIDER.render([Content.human("", block)])


def test_blocks_without_an_item_are_left_out_and_reported() -> None:
    items, changes = render_valid(
        Content(speaker="narrator", blocks=[TextBlock(text="Once")]),
        Content.human("", UnknownBlock(type="dance")),
        Content.system("x", ImageBlock(data=IMAGE)),
        ai(UnknownBlock(type="dance"), ImageBlock(data=IMAGE), FileBlock(media_type="image/png", data="QQ==")),
    )
    assert items == [{"role": "system", "content": "x"}]
    assert len(changes) == 6
    assert "narrator" in changes[0]


# ---------------------------------------------------------------- calls and results


def test_a_call_and_its_result_share_a_legal_id() -> None:
    for known in (CANONICAL, "x" * 86, "fc_" + "0" * 60, "functions.look:0", "ö|ö"):
        items, _ = render_valid(ai(call(known)), tool(result(known)))
        assert items[0]["call_id"] == items[1]["call_id"]
        assert 0 < len(items[0]["call_id"]) <= 64
        assert "id" not in items[0]


def test_origin_restores_the_raw_id_of_a_call_and_canonical_does_not() -> None:
    contents = (ai(call(raw_id="call_own")), tool(result()))
    assert [item["call_id"] for item in render_valid(*contents, ids="origin")[0]] == ["call_own"] * 2
    assert [item["call_id"] for item in render_valid(*contents, ids="canonical")[0]] == ["call_" + "a" * 24] * 2
    foreign = ToolCallBlock(id=CANONICAL, name="look", metadata={"provider": "kimi", "raw_id": "look:0"})
    assert render_valid(ai(foreign), ids="origin")[0][0]["call_id"] == "call_" + "a" * 24


def test_one_id_in_two_turns_becomes_two_ids_and_results_are_paired_by_order() -> None:
    items, _ = render_valid(
        ai(call("look:0")), tool(result("look:0", 1)), ai(call("look:0")), tool(result("look:0", 2))
    )
    first, one, second, two = (item["call_id"] for item in items)
    assert first == one != second == two


def test_results_follow_the_calls_directly_in_call_order() -> None:
    items, _ = render_valid(
        ai(call("a"), call("b"), TextBlock(text="Wait.")),
        tool(result("b", "2")),
        tool(result("a", "1"), result("z", "?")),
        Content.human("Go on"),
    )
    assert [item.get("output") or item.get("content") or item["name"] for item in items] == [
        *("look", "look", "Wait.", "1", "2", "?", "Go on"),
    ]


def test_a_result_in_the_assistant_content_follows_its_call() -> None:
    items, _ = render_valid(ai(call("a"), result("a", "1"), TextBlock(text="So.")))
    assert [item["type"] for item in items] == ["function_call", "function_call_output", "message"]


@pytest.mark.parametrize(
    ("block", "output"),
    [
        (result(value="21"), "21"),
        (result(value=None), ""),
        (result(value={"é": [1]}), '{"é":[1]}'),
        (result(value=0), "0"),
        (result(value=None, error="It broke."), "It broke."),
        (result(value=None, status="denied"), "The call did not complete: denied."),
        (result(value={"a": 1}, status="error"), '{"a":1}'),
        (result(value=[{"type": "text", "text": "a"}]), '[{"type":"text","text":"a"}]'),
        (result(value=[{"type": "audio", "data": "QQ=="}]), '[{"type":"audio","data":"QQ=="}]'),
        (result(value=[]), "[]"),
        (result(value=[{"type": "image", "data": "no image"}]), '[{"type":"image","data":"no image"}]'),
        (
            result(value=[{"type": "text", "text": "a"}, {"type": "image", "data": "QQ==", "mimeType": "image/png"}]),
            [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
            ],
        ),
    ],
)
def test_a_result_is_text_or_a_list_of_parts(block: ToolResponseBlock, output: Any) -> None:
    items, _ = render_valid(ai(call()), tool(block))
    assert items[1]["output"] == output


def test_a_custom_call_and_its_result_have_their_own_item_types() -> None:
    patch = ToolCallBlock(id=CANONICAL, name="patch", parameters="*** Begin", kind="custom")
    items, _ = render_valid(ai(patch), tool(result()))
    assert [(item["type"], item.get("input")) for item in items] == [
        ("custom_tool_call", "*** Begin"),
        ("custom_tool_call_output", None),
    ]


def test_illegal_tool_names_are_replaced_and_reported() -> None:
    items, changes = render_valid(ai(call(name="a.b c")), ai(call("x", name="")))
    assert [item["name"] for item in items] == ["a_b_c", "unnamed"]
    assert len(changes) == 2


def test_the_namespace_and_the_caller_of_a_call_are_replayed() -> None:
    program = {"type": "program", "caller_id": "call_p"}
    items, _ = render_valid(ai(call(namespace="crm", caller=program)), tool(result()))
    assert items[0]["namespace"] == "crm"
    assert items[0]["caller"] == items[1]["caller"] == program


# ---------------------------------------------------------------- reasoning


def test_reasoning_directly_precedes_its_call_and_item_ids_are_sent_with_it() -> None:
    items, changes = render_valid(
        ai(reasoning(), call(item_id="fc_1"), call("b", item_id="fc_2")), tool(result(), result("b"))
    )
    assert [(item["type"], item.get("id")) for item in items[:3]] == [
        ("reasoning", "rs_1"),
        ("function_call", "fc_1"),
        ("function_call", "fc_2"),
    ]
    assert items[0]["encrypted_content"] == "E"
    assert changes == []


def test_an_item_id_without_its_reasoning_is_not_sent() -> None:
    for blocks in ([call(item_id="fc_1")], [reasoning(), call(item_id="call_1")]):
        items, _ = render_valid(ai(*blocks))
        assert "id" not in items[-1]


def test_reasoning_without_its_following_item_is_left_out_and_reported() -> None:
    items, changes = render_valid(ai(reasoning()), Content.human("Go on"))
    assert items == [{"role": "user", "content": "Go on"}]
    assert changes == ["reasoning was left out: the item that it led to is not sent"]
    edited = ToolCallBlock(id="c", name="look")  # without the provider's metadata
    assert [item["type"] for item in render_valid(ai(reasoning(), edited))[0]] == ["function_call"]
    assert [
        item["type"] for item in render_valid(ai(reasoning(), UnknownBlock(type="x"), call(item_id="fc_1")))[0]
    ] == ["function_call"]


def test_reasoning_of_an_earlier_turn_does_not_permit_the_item_ids_of_a_later_one() -> None:
    items, _ = render_valid(ai(reasoning(), call(item_id="fc_1")), tool(result()), ai(call("b", item_id="fc_2")))
    assert "id" not in items[-1]


def test_the_parts_of_one_reasoning_item_are_replayed_as_one_item() -> None:
    part = ReasoningBlock(text="Two.", kind="summary", metadata={**OWN, "summary_index": 1})
    items, changes = render_valid(ai(reasoning(), part, call()))
    assert [item["type"] for item in items] == ["reasoning", "function_call"]
    assert changes == []


def test_reasoning_of_other_providers_or_without_an_item_is_left_out_and_reported() -> None:
    items, changes = render_valid(
        ai(
            ReasoningBlock(text="Hm", signature="S", metadata={"provider": "anthropic"}),
            ReasoningBlock(text="Hm", metadata=OWN),
            TextBlock(text="Hi"),
        )
    )
    assert [item["type"] for item in items] == ["message"]
    assert len(changes) == 2


def test_reasoning_in_an_opaque_block_is_replayed_like_a_reasoning_block() -> None:
    raw = {"type": "reasoning", "id": "rs_1", "encrypted_content": "E", "status": None}
    for block in (
        OpaqueBlock(raw=raw, metadata=OWN),
        ReasoningBlock(metadata={**OWN, "item": raw}),
        ReasoningBlock(opaque=raw, metadata=OWN),
    ):
        items, _ = render_valid(ai(block, call(item_id="fc_1")))
        assert items[0] == {"type": "reasoning", "id": "rs_1", "encrypted_content": "E", "summary": []}
        assert [item.get("id") for item in items] == ["rs_1", "fc_1"]


# ---------------------------------------------------------------- texts and items of the model


def test_a_message_with_its_reasoning_is_replayed_as_its_original_item() -> None:
    citations = [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}]
    items, _ = render_valid(
        ai(
            reasoning(),
            TextBlock(text="A", metadata={**OWN, "item_id": "msg_1", "phase": "final_answer", "citations": citations}),
            TextBlock(text="No.", metadata={**OWN, "item_id": "msg_1", "refusal": True}),
        )
    )
    assert items[1] == {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "A", "annotations": citations},
            {"type": "refusal", "refusal": "No."},
        ],
    }


def test_streamed_texts_are_joined_and_written_texts_are_separate_lines() -> None:
    theirs = {"provider": "anthropic"}
    assert [
        item["content"]
        for item in render_valid(ai(TextBlock(text="a", metadata=theirs), TextBlock(text="b", metadata=theirs)))[0]
    ] == ["ab"]
    assert [
        item["content"] for item in render_valid(ai(TextBlock(text="a"), TextBlock(text=""), TextBlock(text="b")))[0]
    ] == ["a\nb"]
    messages = [TextBlock(text=name, metadata={**OWN, "item_id": name}) for name in ("m1", "m2")]
    assert [item["content"] for item in render_valid(ai(*messages))[0]] == ["m1", "m2"]


def test_a_refusal_without_its_item_becomes_text_and_is_reported() -> None:
    items, changes = render_valid(ai(TextBlock(text="No.", metadata={**OWN, "refusal": True})))
    assert items[0]["content"] == "No."
    assert len(changes) == 1


def test_own_items_are_replayed_unchanged_to_the_same_provider_only() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"}
    for metadata, types in ((OWN, ["reasoning", "web_search_call", "compaction"]), ({"provider": "xai"}, [])):
        items, changes = render_valid(
            ai(
                reasoning(),
                ServerToolBlock(id="ws_1", name="web_search", raw=[search], metadata=metadata),
                OpaqueBlock(raw=compaction, metadata=metadata),
            )
        )
        assert [item["type"] for item in items] == types
        assert bool(changes) is not bool(types)
        assert search not in items or items[1] is search


def test_an_item_that_ended_after_others_is_replayed_at_its_end() -> None:
    started = ServerToolBlock(id="ws_1", name="web_search", metadata=OWN)
    items, changes = render_valid(ai(started, call(), ServerToolBlock(raw=[SEARCH], metadata=OWN)))
    assert [item["type"] for item in items] == ["function_call", "web_search_call"]
    assert changes == []
    assert render_valid(ai(started))[1] == ["the provider's tool 'web_search' was left out: it is incomplete"]


def test_an_image_of_a_server_tool_is_replayed_with_its_item() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QQ=="}
    turn = Turn("openai_responses", turn_key="t")
    turn.feed({"object": "response", "id": "resp_1", "status": "completed", "output": [item]})
    turn.close()
    items, changes = render_valid(turn.content)
    assert items == [item]
    assert changes == []


# ---------------------------------------------------------------- the request


def test_a_request_has_the_fields_that_the_conversation_decides() -> None:
    def look(city: str) -> str:
        """Look out of the window."""
        return city

    body = render_request([Content.human("Hi")], "openai_responses", tools=[look], tool_choice="look")
    parameters = body["tools"][0].pop("parameters")
    assert parameters["required"] == ["city"]
    assert body == {
        "input": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "name": "look", "description": "Look out of the window.", "strict": False}],
        "tool_choice": {"type": "function", "name": "look"},
        "stream": True,
    }


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_of_the_api_is_sent_unchanged(choice: str) -> None:
    def look() -> None: ...

    body = render_request([], "openai_responses", tools=[look], tool_choice=choice, stream=False)
    assert set(body) == {"input", "tools", "tool_choice"}
    assert set(render_request([], "openai_responses", tools=[look])) == {"input", "tools", "stream"}
    assert body["tool_choice"] == choice
    assert "tool_choice" not in render_request([], "openai_responses", tool_choice=choice)


# ---------------------------------------------------------------- random histories

TEXTS = st.text(max_size=8)
METADATA = st.sampled_from(
    [
        {},
        {"provider": "anthropic", "signature": "S", "item_id": "fc_9"},
        OWN,
        {**OWN, "item_id": "fc_1", "raw_id": "call_1"},
        {**OWN, "item_id": "msg_1", "phase": "commentary"},
        {**OWN, "item_id": 7, "phase": 7, "namespace": "n", "refusal": True},
        {**OWN, "summary_index": 1},
    ]
)
ITEMS = st.sampled_from(
    [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {"type": "reasoning", "id": "rs_2", "summary": None, "status": None, "content": None},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"},
    ]
)
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
IDS = st.sampled_from(["a", "b", CANONICAL, "x" * 80, "look:0", "ö"])
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=METADATA),
    st.builds(ReasoningBlock, text=TEXTS, opaque=st.none() | ITEMS, metadata=METADATA),
    st.builds(ToolCallBlock, id=IDS, name=TEXTS, parameters=st.just({"a": 1}), metadata=METADATA),
    st.builds(ToolCallBlock, id=IDS, name=TEXTS, parameters=TEXTS, kind=st.just("custom"), metadata=METADATA),
    st.builds(ToolResponseBlock, call_id=IDS, result=TEXTS | st.none(), status=st.sampled_from([None, "error"])),
    st.builds(OpaqueBlock, raw=ITEMS, metadata=METADATA),
    st.builds(ServerToolBlock, id=IDS, raw=st.lists(st.just(SEARCH), max_size=1), metadata=METADATA),
    st.just(ImageBlock(data=IMAGE)),
    st.just(UnknownBlock(type="dance")),
)
CONTENTS = st.builds(
    Content, speaker=st.sampled_from(["human", "ai", "tool", "system"]), blocks=st.lists(BLOCKS, max_size=5)
)


_AFTER_REASONING = ("reasoning", "message", "function_call", "custom_tool_call", "compaction", "web_search_call")


@given(st.lists(CONTENTS, max_size=5), st.sampled_from(["canonical", "origin"]))
def test_any_history_is_legal_and_reasoning_is_never_alone(contents: list[Content], ids: Any) -> None:
    items, _ = render_valid(*contents, ids=ids)
    calls = [item["call_id"] for item in items if item.get("type") in ("function_call", "custom_tool_call")]
    assert len(set(calls)) == len(calls)
    assert all(0 < len(item["call_id"]) <= 64 for item in items if "call_id" in item)
    following = [*items, {}][1:]
    for item, next_item in zip(items, following, strict=True):
        if item.get("type") == "reasoning":
            assert next_item.get("type") in _AFTER_REASONING
    led = False
    for item in items:
        led = item.get("type") == "reasoning" or (led and item.get("role") not in ("user", "system"))
        assert led or not str(item.get("id", "")).startswith(("fc_", "msg_"))


# ---------------------------------------------------------------- ids of other servers, and interrupted responses


def test_ids_of_another_server_are_left_out() -> None:
    foreign = reasoning("capture-1")
    items, _ = render_valid(ai(foreign, call(item_id="tool_1")), tool(result()))
    assert [item.get("id") for item in items] == [None, None, None]
    items, _ = render_valid(ai(reasoning(), TextBlock(text="Hi", metadata={**OWN, "item_id": "abc"})))
    assert [item.get("id") for item in items] == ["rs_1", None]


def test_reasoning_of_another_server_is_left_out_if_nothing_is_left_of_it() -> None:
    text = TextBlock(text="Hi", metadata=OWN)
    items, changes = render_valid(ai(reasoning("x", encrypted_content=None), text))
    assert [item["type"] for item in items] == ["message"]
    assert "did not retain" in changes[0]
    items = PROVIDER.render([ai(reasoning("x", encrypted_content=None, content=[{"text": "a"}]), text)]).messages
    assert [item["type"] for item in items] == ["reasoning", "message"]


def test_a_search_with_the_id_of_another_server_is_left_out() -> None:
    items, changes = render_valid(ai(ServerToolBlock(raw=[{**SEARCH, "id": "abc"}], metadata=OWN)))
    assert items == []
    assert "its id is of another server" in changes[0]


def test_an_interrupted_response_is_sent_without_references() -> None:
    interrupted = Content(
        speaker="ai",
        blocks=[
            reasoning("rs_0", encrypted_content=None),
            ServerToolBlock(id="ws_1", raw=[SEARCH], metadata=OWN),
            reasoning(),
            TextBlock(text="Half", metadata={**OWN, "item_id": "msg_1"}),
            call(item_id="fc_1", raw_id="call_1"),
        ],
        metadata={"interrupted": True},
    )
    items, changes = render_valid(interrupted, tool(result()))
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call_output"]
    assert not [item for item in items if "id" in item]
    assert items[1] == {"type": "message", "role": "assistant", "content": "Half"}
    assert len(changes) == 2


def test_a_response_after_an_interrupted_one_keeps_its_ids() -> None:
    half = Content(speaker="ai", blocks=[TextBlock(text="Half", metadata=OWN)], metadata={"interrupted": True})
    items, _ = render_valid(half, ai(reasoning(), call(item_id="fc_1")), tool(result()))
    assert [item.get("id") for item in items] == [None, "rs_1", "fc_1", None]


def test_async_calls_stay_so_and_need_no_output_while_they_run() -> None:
    asked = [
        {"role": "user", "content": "How warm is it?"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "async": True},
        {"type": "message", "role": "assistant", "content": "I am looking. Bring a coat."},
        {"role": "user", "content": "And?"},
    ]
    output = {"type": "function_call_output", "call_id": "call_1", "output": "4 degrees"}
    contents = parse_messages(asked, "openai_responses")
    sent = render_request(contents, "openai_responses")["input"]
    assert sent == asked
    assert validate_request("openai_responses", {"model": "m", "input": sent}) == []
    answered = render_request(parse_messages([*asked, output], "openai_responses"), "openai_responses")["input"]
    assert [item for item in answered if item != output] == asked
    assert output in answered


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
def test_other_targets_get_a_neutral_result_of_an_async_call(target: str) -> None:
    turn = Turn("openai_responses")
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": "{}",
        "async": True,
    }
    turn.feed({"object": "response", "id": "resp_1", "model": "m", "status": "completed", "output": [item]})
    turn.close()
    body = render_request([Content.human("Look."), turn.content], target)
    assert validate_request(target, {"model": "m", "max_tokens": 9, **body}) == []


def test_the_agents_of_messages_and_calls_are_replayed() -> None:
    agent = {"agent_name": "reviewer"}
    text = {"type": "output_text", "text": "Found.", "annotations": []}
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E", "agent": agent},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [text],
            "agent": agent,
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}", "agent": agent},
    ]
    turn = Turn("openai_responses")
    turn.feed({"object": "response", "id": "resp_1", "model": "m", "status": "completed", "output": output})
    turn.close()
    contents = [turn.content, Content(speaker="tool", blocks=[result(turn.content.blocks[-1].id)])]
    sent = render_request(contents, "openai_responses", model="m")["input"]
    assert sent[:3] == output
    assert render_request(parse_messages(sent, "openai_responses"), "openai_responses")["input"] == sent
    written = Turn("openai_responses")
    for frame in PROVIDER.emit(turn.content, response_id="resp_1", model="m"):
        written.feed(frame)
    written.close()
    assert [block.metadata.get("agent") for block in written.content.blocks] == [None, agent, agent]
    others = render_request(contents, "openai_responses", model="other-model")["input"]
    assert not any("agent" in item for item in others)


def test_uploaded_files_and_details_of_an_output_stay_for_their_own_provider() -> None:
    asked = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    parts = [
        {"type": "input_text", "text": "Here."},
        {"type": "input_image", "file_id": "file_1", "detail": "high"},
        {"type": "input_image", "image_url": "https://a.example/a.png", "detail": "original"},
        {"type": "input_file", "file_id": "file_2"},
    ]
    items = [asked, {"type": "function_call_output", "call_id": "call_1", "output": parts}]
    contents = parse_messages([{"role": "user", "content": "Look."}, *items], "openai_responses")
    assert render_request(contents, "openai_responses")["input"][1:] == items
    (content,) = [message["content"] for message in render_request(contents, "openai_chat")["messages"][-1:]]
    assert "file_1" in json.dumps(content)


def test_the_detail_of_images_and_files_is_replayed() -> None:
    asked = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    image = {"type": "input_image", "image_url": "https://a.example/a.png", "detail": "original"}
    files = [
        {"type": "input_file", "file_url": "https://a.example/a.pdf", "detail": "high"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ==", "detail": "low"},
    ]
    items = [
        {"role": "user", "content": [image, *files]},
        asked,
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "A"}, image]},
    ]
    changes: list[str] = []
    contents = parse_messages(items, "openai_responses", changes=changes)
    assert render_request(contents, "openai_responses", changes=changes)["input"] == items
    assert changes == []


def test_the_output_of_a_stored_call_names_the_program_that_made_it() -> None:
    program = {"type": "program", "caller_id": "call_p"}
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "ok", "caller": program}
    body = {"model": "m", "previous_response_id": "resp_1", "input": [output], "stream": True}
    assert render_request(parse_request(body, "openai_responses"), "openai_responses") == body
    turn = Turn("openai_responses")
    turn.feed({"object": "response", "id": "resp_1", "status": "completed", "output": [{**item, "caller": program}]})
    turn.close()
    update = execute_tool_calls_batched(turn, tools=[as_tool(lambda: "ok", name="look")]).run_sync()
    assert PROVIDER.render([update.contents[1]]).messages == [output]


def test_an_unknown_part_of_a_system_message_is_no_item() -> None:
    part = {"type": "input_image", "file_id": "file_1", "detail": "low"}
    items = [{"role": "developer", "content": [part]}, {"role": "user", "content": "Look."}]
    assert render_request(parse_messages(items, "openai_responses"), "openai_responses")["input"] == items


def test_an_output_of_a_tool_without_a_call_goes_back_as_it_came() -> None:
    """The SDK's type has an optional ``call_id``, and the tool's name and namespace."""
    output = {"type": "function_call_output", "name": "notify", "namespace": "crm", "output": "A deal was closed."}
    items = [{"role": "user", "content": "Wait."}, output]
    assert render_request(parse_messages(items, "openai_responses"), "openai_responses")["input"] == items
    body = {"model": "m", "previous_response_id": "resp_1", "input": [output], "stream": True}
    assert render_request(parse_request(body, "openai_responses"), "openai_responses") == body
