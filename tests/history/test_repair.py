from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from operator import is_
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import providers
from streamkit.history import (
    Block,
    Content,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
    convert_to_vercel_messages,
    repair,
)
from streamkit.history.pairing import NO_RESULT
from streamkit.history.repair import HistoryCheck, _Repairer
from streamkit.ids import is_canonical


def call(id: str = "a", name: str = "f", **given: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, **given)


def response(call_id: str = "a", result: Any = "ok", **given: Any) -> ToolResponseBlock:
    return ToolResponseBlock(call_id=call_id, result=result, **given)


def tool(*blocks: Block, **metadata: Any) -> Content:
    return Content(speaker="tool", blocks=list(blocks), metadata=metadata)


def neutral(call_id: str = "a", name: str = "f") -> ToolResponseBlock:
    return ToolResponseBlock(call_id=call_id, name=name, status="canceled", error=NO_RESULT)


QUESTION = Content.human("?")


# ---------------------------------------------------------------- calls without result, results without call


def test_a_call_without_a_result_gets_a_neutral_one_directly_after_it() -> None:
    done = repair([QUESTION, Content.ai("", call()), Content.human("next")])
    assert done.contents == [QUESTION, Content.ai("", call()), tool(neutral()), Content.human("next")]
    assert done.changes == ["the call 'a' of 'f' had no result and got a neutral one"]


def test_the_neutral_result_claims_no_reason() -> None:
    assert not {"user", "interrupt", "abort"} & set(NO_RESULT.lower().split())


def test_a_missing_result_is_added_in_call_order() -> None:
    given = [Content.ai("", call("a"), call("b"), call("c")), tool(response("a", 1), response("c", 3), note=1)]
    done = repair(given)
    assert done.contents == [given[0], tool(response("a", 1), neutral("b"), response("c", 3), note=1)]


def test_a_result_without_a_call_is_dropped_and_reported() -> None:
    done = repair([tool(response("x")), Content.human("next")])
    assert done.contents == [Content.human("next")]
    assert done.changes == ["a result with the id 'x' was dropped: no call has that id"]


def test_other_blocks_of_a_dropped_result_are_kept() -> None:
    image = ImageBlock(data="https://x/y.png")
    assert repair([tool(response("x"), image)]).contents == [tool(image)]


def test_a_result_before_its_call_is_moved_after_it() -> None:
    done = repair([tool(response()), QUESTION, Content.ai("", call())])
    assert done.contents == [QUESTION, Content.ai("", call()), tool(response())]


# ---------------------------------------------------------------- order


def test_results_move_to_their_calls_and_other_blocks_follow_them() -> None:
    given = [Content.ai("", call("a"), call("b")), Content.human("wait"), tool(response("a")), tool(response("b"))]
    done = repair(given)
    assert done.contents == [given[0], tool(response("a"), response("b")), Content.human("wait")]
    assert done.changes == ["the results with the ids 'a', 'b' were moved directly after their calls, in call order"]


def test_results_of_one_round_are_in_call_order_in_one_content() -> None:
    given = [Content.ai("", call("a"), call("b")), tool(response("b")), tool(response("a"))]
    assert repair(given).contents == [given[0], tool(response("a"), response("b"))]


def test_an_image_next_to_a_result_stays_in_its_content_after_the_results() -> None:
    image = ImageBlock(data="https://x/y.png")
    given = [Content.ai("", call("a"), call("b")), tool(response("b"), image), tool(response("a"), TextBlock(text="t"))]
    assert repair(given).contents == [given[0], tool(response("a"), response("b"), image), tool(TextBlock(text="t"))]


@pytest.mark.parametrize("speaker", ["human", "system"])
def test_a_result_under_another_speaker_is_moved_into_a_tool_content(speaker: str) -> None:
    said = Content(speaker=speaker, blocks=[TextBlock(text="look"), response()], metadata={"n": 1})
    done = repair([Content.ai("", call()), said])
    assert done.contents == [
        Content.ai("", call()),
        tool(response()),
        Content(speaker=speaker, blocks=[TextBlock(text="look")], metadata={"n": 1}),
    ]


def test_text_of_the_model_after_a_result_stays_after_it() -> None:
    answer = Content.ai("one", call("a"), response("a"), TextBlock(text="two"), call("b"), response("b"))
    answer.metadata["model"] = "m"
    done = repair([answer])
    assert [(content.speaker, [block.type for block in content.blocks]) for content in done.contents] == [
        ("ai", ["text", "tool_call"]),
        ("tool", ["tool_response"]),
        ("ai", ["text", "tool_call"]),
        ("tool", ["tool_response"]),
    ]
    assert [content.metadata for content in done.contents[::2]] == [{"model": "m"}] * 2


def test_a_call_in_a_tool_content_becomes_an_assistant_content() -> None:
    done = repair([Content.ai("", call("a")), tool(response("a"), call("b"), response("b"))])
    assert done.contents == [
        Content.ai("", call("a")),
        tool(response("a")),
        Content.ai("", call("b")),
        tool(response("b")),
    ]


def test_each_assistant_content_has_its_own_results() -> None:
    given = [Content.ai("", call("a")), Content.ai("", call("b")), tool(response("a"), response("b"))]
    assert repair(given).contents == [given[0], tool(response("a")), given[1], tool(response("b"))]


# ---------------------------------------------------------------- several results of one call


def test_of_two_results_the_first_is_kept() -> None:
    done = repair([Content.ai("", call()), tool(response(result=1), response(result=2)), tool(response(result=3))])
    assert done.contents == [Content.ai("", call()), tool(response(result=1))]
    assert len(done.changes) == 2


def test_a_completed_result_replaces_an_error() -> None:
    failed = response(result=None, error="boom", status="error")
    done = repair([Content.ai("", call()), tool(failed), tool(response(), response(result="late"))])
    assert done.contents == [Content.ai("", call()), tool(response())]


def test_an_error_replaces_a_neutral_result() -> None:
    failed = response(result=None, error="boom", status="error")
    assert repair([Content.ai("", call()), tool(neutral()), tool(failed)]).contents[1] == tool(failed)
    assert repair([Content.ai("", call()), tool(failed), tool(neutral())]).contents[1] == tool(failed)


def test_a_late_result_replaces_the_neutral_one_that_an_earlier_repair_wrote() -> None:
    stored = repair([Content.ai("", call()), Content.human("next")]).contents
    done = repair([*stored, tool(response())])
    assert done.contents == [Content.ai("", call()), tool(response()), Content.human("next")]


# ---------------------------------------------------------------- ids


def kimi(path: str, **metadata: Any) -> Content:
    block = call("list_dir:0", "list_dir", parameters={"path": path}, metadata={"provider": "kimi"})
    return Content(speaker="ai", blocks=[block], metadata=metadata)


def ids_of(contents: list[Content]) -> list[str]:
    return [block.id for content in contents for block in content.blocks if isinstance(block, ToolCallBlock)]


def test_an_id_of_several_turns_becomes_unique_and_results_pair_with_the_nearest_call() -> None:
    given = [kimi("."), tool(response("list_dir:0", 1)), kimi("/"), tool(response("list_dir:0", 2))]
    done = repair(given)
    first, second = ids_of(done.contents)
    assert first == "list_dir:0"
    assert is_canonical(second)
    assert done.contents[1] == tool(response("list_dir:0", 1))
    assert done.contents[3] == tool(response(second, 2))
    assert done.contents[2].blocks[0].metadata == {"provider": "kimi", "raw_id": "list_dir:0"}


def test_a_cancelled_turn_does_not_take_the_result_of_the_next() -> None:
    done = repair([kimi("."), Content.human("no"), kimi("/"), tool(response("list_dir:0"))])
    assert done.contents[1] == tool(neutral("list_dir:0", "list_dir"))
    assert done.contents[4] == tool(response(ids_of(done.contents)[1]))


def test_the_new_id_is_the_same_when_the_history_before_it_is_pruned() -> None:
    turns = [kimi(str(n), turn_key=f"turn-{n}") for n in range(4)]
    assert ids_of(repair(turns).contents)[2:] == ids_of(repair([turns[0], *turns[2:]]).contents)[1:]
    named = [kimi(str(n), response_id=f"chatcmpl-{n}") for n in range(4)]
    assert ids_of(repair(named).contents)[3] == ids_of(repair([named[0], named[3]]).contents)[1]


def test_a_history_that_was_appended_twice_keeps_both_rounds() -> None:
    stored = [
        kimi(".", turn_key="t"),
        tool(response("list_dir:0", 1)),
        kimi("/", turn_key="t"),
        tool(response("list_dir:0", 2)),
    ]
    once = repair(stored).contents
    done = repair([*once, *once]).contents
    assert len(set(ids_of(done))) == 4
    assert [block.result for content in done[1::2] for block in content.blocks] == [1, 2, 1, 2]


def test_two_calls_of_one_id_in_one_turn_pair_in_order() -> None:
    given = [Content.ai("", call("a"), call("a")), tool(response("a", 1), response("a", 2))]
    done = repair(given)
    first, second = ids_of(done.contents)
    assert first == "a"
    assert is_canonical(second)
    assert done.contents[1] == tool(response("a", 1), response(second, 2))


def test_a_repeated_result_does_not_pair_with_a_call_of_an_earlier_turn() -> None:
    done = repair([kimi("."), kimi("/"), tool(response("list_dir:0")), tool(response("list_dir:0"))])
    assert done.contents[1] == tool(neutral("list_dir:0", "list_dir"))


def test_calls_without_ids_get_one_and_pair_with_results_by_position() -> None:
    given = [Content.ai("", call("", "f"), call("", "g")), tool(response("", 1), response("", 2))]
    done = repair(given)
    ids = ids_of(done.contents)
    assert all(map(is_canonical, ids))
    assert len(set(ids)) == 2
    assert [(block.call_id, block.result) for block in done.contents[1].blocks] == [(ids[0], 1), (ids[1], 2)]


def test_a_result_without_an_id_pairs_by_the_name_of_its_tool() -> None:
    given = [Content.ai("", call("a", "f"), call("b", "g")), tool(response("", 2, name="g"), response("", 1, name="f"))]
    done = repair(given)
    assert [(block.call_id, block.result) for block in done.contents[1].blocks] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["p__f", "p__g"], ["p__f", "p__g"]),  # as many as there are calls, in their order
        (["p__g", "f"], ["f", "p__g"]),  # a name that a call has counts first
        ([None, "p__g"], [None, "p__g"]),
        (["p__f"], [None, None]),  # which of the two calls, nothing says
        (["p__f", "p__g", "p__h"], [None, None]),
    ],
)
def test_results_without_ids_of_other_names_pair_if_they_are_as_many_as_the_calls(
    names: list[str | None], expected: list[str | None]
) -> None:
    given = [Content.ai("", call("a", "f"), call("b", "g")), tool(*[response("", name, name=name) for name in names])]
    done = repair([*given, Content.ai("", call("c", "h")), tool(response("", "last", name="h"))])
    first, second = done.contents[1].blocks
    assert [(block.call_id, block.result) for block in (first, second)] == [("a", expected[0]), ("b", expected[1])]
    assert done.contents[3].blocks[0].result == "last"
    assert sum("was dropped" in change for change in done.changes) == (expected == [None, None]) * len(names)


def test_a_result_without_an_id_never_pairs_with_an_older_turn() -> None:
    given = [
        Content.ai("", call("a")),
        Content.human("no"),
        Content.ai("", call("b")),
        tool(response("b"), response("")),
    ]
    done = repair(given)
    assert done.contents[1] == tool(neutral("a"))
    assert done.contents[-1] == tool(response("b"))


def test_an_unknown_id_never_pairs_by_position() -> None:
    done = repair([Content.ai("", call("a")), tool(response("b", "stolen"))])
    assert done.contents[1] == tool(neutral("a"))


def test_ids_that_differ_only_by_their_prefix_become_unique() -> None:
    given = [Content.ai("", call("call_a"), call("toolu_a")), tool(response("call_a", 1), response("toolu_a", 2))]
    done = repair(given)
    first, second = ids_of(done.contents)
    assert first == "call_a"
    assert is_canonical(second)
    assert done.contents[1] == tool(response("call_a", 1), response(second, 2))


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ({"id": "hist_tool_abc"}, {"call_id": "call_abc"}),
        ({"id": "toolu_abc"}, {"call_id": "hist_tool_abc"}),
        ({"id": "x", "metadata": {"raw_id": "fc_1"}}, {"call_id": "fc_1"}),
        ({"id": "x", "metadata": {"raw_id": "fc_1"}}, {"call_id": "y", "metadata": {"raw_id": "fc_1"}}),
    ],
)
def test_a_result_pairs_with_its_call_by_another_of_its_names(asked: dict[str, Any], answered: dict[str, Any]) -> None:
    done = repair([Content.ai("", ToolCallBlock(name="f", **asked)), tool(ToolResponseBlock(result=1, **answered))])
    assert done.contents[1].blocks[0].call_id == asked["id"]
    assert done.contents[1].blocks[0].result == 1
    assert len(done.changes) == 1


def test_legacy_ids_are_kept_without_canonicalize() -> None:
    given = [Content.ai("", call("call_1"), call("toolu_2")), tool(response("call_1", 1), response("toolu_2", 2))]
    assert repair(given).contents == given
    done = repair(given, canonicalize=True)
    ids = ids_of(done.contents)
    assert all(map(is_canonical, ids))
    assert [(block.call_id, block.result) for block in done.contents[1].blocks] == [(ids[0], 1), (ids[1], 2)]
    assert [block.metadata["raw_id"] for block in done.contents[0].blocks] == ["call_1", "toolu_2"]
    assert repair(done.contents, canonicalize=True).contents == done.contents


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("given", "parameters", "metadata"),
    [
        ('{"a":1}', {"a": 1}, {}),
        ("", {}, {}),
        ('{"a":"b', {}, {"raw_arguments": '{"a":"b'}),
        ("[1]", {}, {"raw_arguments": "[1]"}),
        (None, {}, {"raw_arguments": None}),
    ],
)
def test_arguments_that_are_not_an_object_become_one(given: Any, parameters: Any, metadata: Any) -> None:
    broken = call().model_copy(update={"parameters": given})
    done = repair([Content.ai("", broken), tool(response())])
    assert done.contents[0].blocks[0] == call(parameters=parameters, metadata=metadata)
    assert len(done.changes) == 1


def test_the_text_of_a_custom_call_is_kept() -> None:
    given = [Content.ai("", call(kind="custom", parameters="ls -l")), tool(response())]
    assert repair(given).changes == []


# ---------------------------------------------------------------- what is not touched


def test_unknown_speakers_and_blocks_keep_their_position() -> None:
    strange = Content(speaker="narrator", blocks=[call("z"), response("y"), TextBlock(text="meanwhile")])
    odd = UnknownBlock(type="hologram")
    given = [strange, Content.ai("", odd, call(), odd), tool(response(), odd), strange]
    done = repair(given)
    assert done.contents == given
    assert done.changes == []


def test_extra_fields_and_metadata_are_kept() -> None:
    answer = Content.model_validate(
        {"speaker": "ai", "blocks": [{"type": "tool_call", "id": "", "name": "f", "note": 1}], "stored": 7}
    )
    done = repair([answer]).contents[0]
    assert done.model_extra == {"stored": 7}
    assert done.blocks[0].model_extra == {"note": 1}


# ---------------------------------------------------------------- properties

IDS = st.sampled_from(["", "a", "b", "call_a", "hist_tool_a", "f:0", "hist_tool_" + "x" * 24])
NAMES = st.sampled_from(["", "f", "g"])
METADATA: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"raw_id": "a"}, {"raw_id": "f:0"}])
TEXTS = st.builds(TextBlock, text=st.sampled_from(["x", "y", "z"]))
CALLS = st.builds(ToolCallBlock, id=IDS, name=NAMES, metadata=METADATA)
BROKEN_CALLS = CALLS.map(lambda block: block.model_copy(update={"parameters": '{"a":'}))
RESPONSES = st.builds(
    ToolResponseBlock,
    call_id=IDS,
    name=st.none() | NAMES,
    result=st.integers(0, 2),
    error=st.sampled_from([None, None, "boom", NO_RESULT]),
    status=st.sampled_from([None, "completed", "error", "canceled"]),
    metadata=METADATA,
)
OTHERS = st.sampled_from([ImageBlock(data="https://x/y.png"), ReasoningBlock(text="hm"), UnknownBlock(type="odd")])
BLOCKS: st.SearchStrategy[Block] = st.one_of(TEXTS, CALLS, CALLS, BROKEN_CALLS, RESPONSES, RESPONSES, OTHERS)
HISTORIES = st.lists(
    st.builds(
        Content,
        speaker=st.sampled_from(["human", "ai", "ai", "tool", "tool", "system", "narrator"]),
        blocks=st.lists(BLOCKS, max_size=5),
        metadata=st.sampled_from([{}, {"turn_key": "t1"}, {"turn_key": "t2"}, {"response_id": "r"}, {"turn_key": 7}]),
    ),
    max_size=10,
)


def assert_legal(contents: list[Content]) -> None:
    """Every call has its one result directly behind, in call order, and nothing else has."""
    known = [content for content in contents if content.speaker != "narrator"]
    ids: list[str] = []
    awaited: list[str] = []
    for content in known:
        calls = [block for block in content.blocks if isinstance(block, ToolCallBlock)]
        answered = [block.call_id for block in content.blocks if isinstance(block, ToolResponseBlock)]
        assert answered == awaited
        assert not answered or content.speaker == "tool"
        assert not calls or content.speaker == "ai"
        assert all(isinstance(block.parameters, dict) for block in calls)
        awaited = [block.id for block in calls]
        ids += awaited
    assert awaited == []
    assert len(set(ids)) == len(ids)
    assert "" not in ids


def said(contents: list[Content]) -> Counter[str]:
    kept = ("text", "image", "reasoning", "odd")
    return Counter(
        f"{content.speaker}: {block.model_dump_json()}"
        for content in contents
        for block in content.blocks
        if block.type in kept or content.speaker == "narrator"
    )


@given(HISTORIES)
def test_every_repaired_history_is_valid_and_no_text_is_lost(history: list[Content]) -> None:
    before = [content.model_copy(deep=True) for content in history]
    done = repair(history)
    assert history == before  # what was given is not changed
    assert_legal(done.contents)
    assert said(done.contents) == said(history)
    assert Counter(block.name for c in done.contents for block in c.blocks if isinstance(block, ToolCallBlock)) == (
        Counter(block.name for c in history for block in c.blocks if isinstance(block, ToolCallBlock))
    )
    assert bool(done.changes) == (done.contents != history)


@given(HISTORIES, st.sampled_from(["anthropic", "openai_chat", "openai_responses", "vercel"]))
def test_every_history_is_rendered_with_a_result_after_each_call(history: list[Content], target: str) -> None:
    history = [content for content in history if content.speaker != "narrator"]
    made = (
        convert_to_vercel_messages(repair(history).contents)
        if target == "vercel"
        else providers.render(history, target)
    )
    assert_legal(providers.parse_messages(made, target))


@given(HISTORIES, st.booleans())
def test_a_second_repair_changes_nothing(history: list[Content], canonicalize: bool) -> None:
    once = repair(history, canonicalize=canonicalize)
    twice = repair(once.contents, canonicalize=canonicalize)
    assert twice.changes == []
    assert len(twice.contents) == len(once.contents)
    assert all(one is other for one, other in zip(once.contents, twice.contents, strict=True))


@st.composite
def legal_histories(draw: st.DrawFn) -> list[Content]:
    """Rounds of calls with their results, each result another value."""
    contents: list[Content] = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        contents.append(Content.human(f"question {number}"))
        calls = [call(f"c{number + n}", draw(NAMES)) for n in range(draw(st.integers(0, 4)))]
        contents.append(Content.ai(f"answer {number}", *calls))
        if calls:
            contents.append(tool(*[response(block.id, {"value": block.id}) for block in calls]))
        number += len(calls) + 1
    return contents


@given(legal_histories())
def test_a_valid_history_is_unchanged(history: list[Content]) -> None:
    done = repair(history)
    assert all(one is other for one, other in zip(history, done.contents, strict=True))
    assert done.changes == []


@given(legal_histories(), st.data())
def test_scattered_results_move_to_their_calls(history: list[Content], data: st.DataObject) -> None:
    scattered = [content for content in history if content.speaker != "tool"]
    responses = [block for content in history if content.speaker == "tool" for block in content.blocks]
    for block in responses:
        speaker = data.draw(st.sampled_from(["tool", "human", "system"]))
        scattered.insert(data.draw(st.integers(0, len(scattered))), Content(speaker=speaker, blocks=[block]))
        if data.draw(st.booleans()):  # and again
            scattered.insert(data.draw(st.integers(0, len(scattered))), tool(block))
    assert repair(scattered).contents == history


def operations(work: Callable[[], object]) -> int:
    count = 0

    def step(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(step)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


SHAPES: dict[str, Callable[[int], list[Content]]] = {
    "one id": lambda n: [*[kimi(str(m)) for m in range(n)], *[tool(response("list_dir:0", m)) for m in range(n)]],
    "one turn": lambda n: [Content.ai("", *[call("a") for _ in range(n)]), tool(*[response("a", m) for m in range(n)])],
    "no ids": lambda n: [Content.ai("", *[call("") for _ in range(n)]), *[tool(response("", m)) for m in range(n)]],
    "early": lambda n: [*[tool(response(str(m))) for m in range(n)], Content.ai("", *[call(str(m)) for m in range(n)])],
    "one turn appended again and again": lambda n: [kimi(".", turn_key="t") for m in range(n)],
    "repeats": lambda n: [Content.ai("", call()), *[tool(response(result=m)) for m in range(n)]],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_cost_is_linear(shape: Callable[[int], list[Content]]) -> None:
    small, large = shape(200), shape(400)
    assert operations(lambda: repair(large)) < 2.3 * operations(lambda: repair(small))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["human", "ai", "tool"]),
            st.lists(
                st.builds(call, st.sampled_from(["a", "call_a", "b", ""]))
                | st.builds(response, st.sampled_from(["a", "b", ""]))
                | st.just(TextBlock(text="t")),
                max_size=3,
            ),
        ),
        max_size=4,
    )
)
def test_a_history_that_needs_no_search_is_one_that_the_search_leaves_unchanged(given: list[Any]) -> None:
    contents = [Content(speaker=speaker, blocks=blocks) for speaker, blocks in given]
    repairer = _Repairer(canonicalize=False)
    for content in contents:
        repairer.read(content)
    searched, changes, _ = repairer.result()
    if HistoryCheck().accepts(contents, is_end=True):
        assert changes == []
        assert all(map(is_, searched, contents))
        assert len(searched) == len(contents)
