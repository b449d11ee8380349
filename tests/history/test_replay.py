"""What providers refused in practice when a history was sent back, each with its rule: repaired and rendered, it holds.

A case is a history in shorthand and a rule of the target that it broke. Where the data of quirks lies beside the
checkout, its cases of this kind must be these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from shared_data import CASES_FILE

from streamkit import providers, render
from streamkit.history import (
    Block,
    Content,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.pairing import NO_RESULT

Json = dict[str, Any]

PROVIDERS = {"cohere_v2": "cohere"}  # where a target's name is not the provider's
ORIGINS = {"openai": "openai_chat"}


# ---------------------------------------------------------------- the shorthand


def history(steps: list[Json], provider: str) -> list[Content]:
    """The conversation that a case tells; what is the model's is the target's own, unless it says another origin."""
    contents: list[Content] = []
    for step in steps:
        speaker, block = _block(step, provider)
        if contents and contents[-1].speaker == speaker:
            contents[-1].blocks.append(block)
        else:
            contents.append(Content(speaker=speaker, blocks=[block]))
    return contents


def _block(step: Json, provider: str) -> tuple[str, Block]:
    own = {"provider": provider}
    match step:
        case {"user": text}:
            return "human", TextBlock(text=text)
        case {"text": text}:
            return "ai", TextBlock(text=text, metadata=own)
        case {"reasoning": text}:
            return "ai", ReasoningBlock(text=text, signature=step.get("signature"), metadata=own)
        case {"opaque": raw}:
            return "ai", OpaqueBlock(raw=raw, metadata=own)
        case {"result": given}:
            failed = {"status": "error", "error": given["content"]} if given.get("error") else {}
            call_id = given.get("id") or given["canonical"]
            return "tool", ToolResponseBlock(call_id=call_id, result=None if failed else given["content"], **failed)
    given = step["call"]
    raw_id = given.get("wire_id") or given.get("id")
    metadata = {"provider": ORIGINS.get(given.get("origin", ""), provider), "raw_id": raw_id}
    if "item_id" in given:
        metadata["item_id"] = given["item_id"]
    parameters = given["raw"] if "raw" in given else given["arguments"]
    call_id = given.get("id") or given["canonical"]
    return "ai", ToolCallBlock(id=call_id, name=given["name"], parameters=parameters, metadata=metadata)


def call(id: str, name: str = "x", **given: Any) -> Json:
    return {"call": {"id": id, "name": name, "arguments": {}, **given}}


def result(id: str, content: str = "ok", **given: Any) -> Json:
    return {"result": {"id": id, "content": content, **given}}


# ---------------------------------------------------------------- what is looked at


def parts(messages: list[Json], kind: str) -> list[Json]:
    """The blocks of a kind in Anthropic's messages."""
    return [part for message in messages for part in message["content"] if part["type"] == kind]


def pairs_of_anthropic(messages: list[Json]) -> list[str]:
    """The ids of the calls; each has its one result in the message behind, in the same order."""
    ids: list[str] = []
    for place, message in enumerate(messages):
        uses = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
        if uses:
            behind = messages[place + 1]
            answered = [part["tool_use_id"] for part in behind["content"] if part["type"] == "tool_result"]
            assert behind["role"] == "user"
            assert answered == uses
            ids += uses
    assert len(parts(messages, "tool_result")) == len(ids)
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", made) for made in ids)
    return ids


def pairs_of_chat(messages: list[Json], pattern: str) -> list[str]:
    """The same of a chat thread, by the dialect's own rule for ids."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert ids == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(pattern, made) for made in ids)
    return ids


def pairs_of_responses(items: list[Json]) -> list[str]:
    ids = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert ids == [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", made) for made in ids)
    return ids


# ---------------------------------------------------------------- the rules


def legal_pair(messages: list[Json]) -> None:
    assert len(pairs_of_anthropic(messages)) == 1


def two_distinct_ids(messages: list[Json]) -> None:
    assert len(pairs_of_anthropic(messages)) == 2


def nine_alphanumerics(messages: list[Json]) -> None:
    assert len(pairs_of_chat(messages, "[a-zA-Z0-9]{9}")) == 1


def at_most_40(messages: list[Json]) -> None:
    assert len(pairs_of_chat(messages, "[a-zA-Z0-9_-]{1,40}")) == 1


def at_most_64(messages: list[Json]) -> None:
    assert len(pairs_of_responses(messages)) == 1


def no_item_id_without_its_reasoning(messages: list[Json]) -> None:
    (item,) = [item for item in messages if item["type"] == "function_call"]
    assert item["call_id"]
    assert "id" not in item


def unique_and_paired_by_position(messages: list[Json]) -> None:
    assert len(pairs_of_anthropic(messages)) == 2
    assert [part["input"]["path"] for part in parts(messages, "tool_use")] == [".", "/"]
    assert [part["content"] for part in parts(messages, "tool_result")] == ["1", "2"]


def the_wire_id_is_back(messages: list[Json]) -> None:
    assert pairs_of_chat(messages, ".+") == ["functions.read_file:3"]


def a_neutral_result_directly_behind(messages: list[Json]) -> None:
    pairs_of_anthropic(messages)
    answer, text = messages[messages.index(next(m for m in messages if m["role"] == "assistant")) + 1]["content"]
    assert answer["is_error"] is True
    assert answer["content"] == NO_RESULT
    assert "user" not in NO_RESULT
    assert text == {"type": "text", "text": "next"}


def the_orphan_is_dropped(messages: list[Json]) -> None:
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "next"}]}]


def results_in_call_order_then_text(messages: list[Json]) -> None:
    pairs_of_anthropic(messages)
    answers = messages[-1]["content"]
    assert [part.get("content") or part["text"] for part in answers] == ["1", "2", "and?"]
    assert [message["role"] for message in messages[-2:]] == ["assistant", "user"]


def equal_counts_in_one_content(messages: list[Json]) -> None:
    asked, answered = messages[-2:]
    assert (asked["role"], answered["role"]) == ("model", "user")
    assert all("functionCall" in part for part in asked["parts"])
    assert [part["functionResponse"]["response"] for part in answered["parts"]] == [{"result": "1"}, {"result": "2"}]
    assert len(asked["parts"]) == 2


def the_name_is_the_calls(messages: list[Json]) -> None:
    (answer,) = messages[-1]["parts"]
    assert answer["functionResponse"]["name"] == "x"


def the_first_foreign_call_skips_validation(messages: list[Json]) -> None:
    (part,) = messages[-2]["parts"]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


def reasoning_goes_back(messages: list[Json]) -> None:
    assert messages[0]["reasoning_content"] == "r"
    assert messages[0]["tool_calls"]


def content_is_null(messages: list[Json]) -> None:
    assert "content" in messages[0]
    assert messages[0]["content"] is None


def nothing_blank(messages: list[Json]) -> None:
    texts = [part["text"] for message in messages for part in message["content"] if "text" in part]
    (answer,) = [part["toolResult"] for message in messages for part in message["content"] if "toolResult" in part]
    texts += [part["text"] for part in answer["content"] if "text" in part]
    assert answer["content"]
    assert all(text.strip() for text in texts)


def input_is_an_object(messages: list[Json]) -> None:
    (use,), (answer,) = parts(messages, "tool_use"), parts(messages, "tool_result")
    assert use["input"] == {"INVALID_JSON": '{"a":"b'}
    assert (answer["content"], answer["is_error"]) == ("invalid arguments", True)


def no_unsigned_thinking(messages: list[Json]) -> None:
    pairs_of_anthropic(messages)
    assert not parts(messages, "thinking")


def text_is_the_plan(messages: list[Json]) -> None:
    assert messages[0]["tool_plan"] == "plan"
    assert not messages[0].get("content")
    assert messages[0]["tool_calls"]


def reasoning_before_its_call(messages: list[Json]) -> None:
    reasoning, item = messages[:2]
    assert (reasoning["type"], reasoning["id"], reasoning["encrypted_content"]) == ("reasoning", "rs_1", "E")
    assert (item["type"], item["id"]) == ("function_call", "fc_1")


def the_call_is_last(messages: list[Json]) -> None:
    answer = next(message for message in messages if message["role"] == "assistant")
    assert [next(iter(part)) for part in answer["content"]] == ["text", "toolUse"]
    assert answer["content"][0]["text"] == "late"


# ---------------------------------------------------------------- the cases


@dataclass(frozen=True)
class Case:
    target: str
    steps: list[Json]
    check: Callable[[list[Json]], None] = field(compare=False)

    @property
    def provider(self) -> str:
        return PROVIDERS.get(self.target, self.target)


LONG = "fc_0f0e50a1476a6c35006912c58dc9f8819192c25864eb16f07f"
CASES = {
    "illegal id characters": Case(
        "anthropic", [call("functions.Bash:0", "Bash"), result("functions.Bash:0")], legal_pair
    ),
    "sanitising must not collide": Case("anthropic", [call("a.b"), call("a:b")], two_distinct_ids),
    "id must be 9 alphanumerics": Case(
        "mistral",
        [call("call_PTLP8xhu3uwZk4l3nlnrrJha"), result("call_PTLP8xhu3uwZk4l3nlnrrJha")],
        nine_alphanumerics,
    ),
    "id longer than 40": Case("openai_chat", [call(LONG), result(LONG)], at_most_40),
    "call_id longer than 64": Case("openai_responses", [call("x" * 86), result("x" * 86)], at_most_64),
    "item id must begin with fc": Case("openai_responses", [call("call_abc")], no_item_id_without_its_reasoning),
    "duplicate ids in history": Case(
        "anthropic",
        [
            call("list_dir:0", "list_dir", arguments={"path": "."}),
            result("list_dir:0", "1"),
            call("list_dir:0", "list_dir", arguments={"path": "/"}),
            result("list_dir:0", "2"),
        ],
        unique_and_paired_by_position,
    ),
    "Kimi needs its own id back": Case(
        "kimi",
        [
            {
                "call": {
                    "canonical": "sk_1",
                    "wire_id": "functions.read_file:3",
                    "name": "read_file",
                    "arguments": {},
                }
            },
            {"result": {"canonical": "sk_1", "content": "ok"}},
        ],
        the_wire_id_is_back,
    ),
    "cancelled call without result": Case(
        "anthropic", [call("t1"), {"user": "next"}], a_neutral_result_directly_behind
    ),
    "orphan result": Case("anthropic", [result("tX"), {"user": "next"}], the_orphan_is_dropped),
    "parallel results in one user message": Case(
        "anthropic",
        [call("t1"), call("t2"), result("t2", "2"), result("t1", "1"), {"user": "and?"}],
        results_in_call_order_then_text,
    ),
    "parallel results in one Content": Case(
        "gemini", [call("1"), call("2"), result("1", "1"), result("2", "2")], equal_counts_in_one_content
    ),
    "functionResponse needs the function name": Case("gemini", [call("1"), result("1", "1")], the_name_is_the_calls),
    "foreign history has no thoughtSignature": Case(
        "gemini", [call("1", origin="openai"), result("1", "1")], the_first_foreign_call_skips_validation
    ),
    "reasoning_content on tool turns": Case(
        "deepseek", [{"reasoning": "r"}, call("1"), result("1", "1")], reasoning_goes_back
    ),
    "tool-only assistant content": Case("openai_chat", [call("1")], content_is_null),
    "blank text blocks": Case("bedrock_converse", [{"text": " "}, call("1"), result("1", "")], nothing_blank),
    "truncated or invalid arguments in history": Case(
        "anthropic",
        [
            {"call": {"id": "1", "name": "x", "raw": '{"a":"b'}},
            result("1", "invalid arguments", error=True),
        ],
        input_is_an_object,
    ),
    "thinking without signature": Case(
        "anthropic", [{"reasoning": "r", "signature": ""}, call("1")], no_unsigned_thinking
    ),
    "text beside tool_calls": Case("cohere_v2", [{"text": "plan"}, call("1")], text_is_the_plan),
    "reasoning item adjacency": Case(
        "openai_responses",
        [
            {"opaque": {"type": "reasoning", "id": "rs_1", "encrypted_content": "E"}},
            call("c1", item_id="fc_1"),
        ],
        reasoning_before_its_call,
    ),
    "trailing text after toolUse": Case("bedrock_converse", [call("1"), {"text": "late"}], the_call_is_last),
}


@pytest.mark.parametrize("quirk", CASES)
def test_a_history_is_accepted_by_its_provider(quirk: str) -> None:
    case = CASES[quirk]
    if case.provider not in providers.names():
        pytest.skip(f"there is no provider {case.provider!r} yet")
    case.check(render(history(case.steps, case.provider), case.provider))


@pytest.mark.skipif(not CASES_FILE.exists(), reason=f"the shared data is not there: {CASES_FILE}")
def test_every_collected_case_of_replay_is_tested() -> None:
    collected = [case for case in map(json.loads, CASES_FILE.read_text().splitlines()) if case["wire"] == "replay"]
    assert len(collected) > 20
    assert {case["quirk"]: (case["target"], case["input"]) for case in collected} == {
        quirk: (case.target, case.steps) for quirk, case in CASES.items()
    }


# ---------------------------------------------------------------- what the same rules say beside


def test_kimi_numbers_the_calls_of_other_providers_over_all_messages() -> None:
    steps = [call("a", "f", origin="openai"), result("a"), call("b", "g", origin="openai"), result("b")]
    assert pairs_of_chat(render(history(steps, "kimi"), "kimi"), ".+") == ["functions.f:0", "functions.g:1"]


def test_reasoning_without_its_item_is_dropped() -> None:
    steps = [{"opaque": {"type": "reasoning", "id": "rs_1", "encrypted_content": "E"}}, {"user": "next"}]
    changes: list[str] = []
    items = render(history(steps, "openai_responses"), "openai_responses", changes=changes)
    assert items == [{"role": "user", "content": "next"}]
    assert changes == ["reasoning was left out: the item that it led to is not sent"]


@pytest.mark.parametrize("target", sorted({case.provider for case in CASES.values()}))
def test_changes_are_reported(target: str) -> None:
    if target not in providers.names():
        pytest.skip(f"there is no provider {target!r} yet")
    changes: list[str] = []
    render(history([{"user": "?"}, call("t1"), {"user": "next"}], target), target, changes=changes)
    assert changes[0] == "the call 't1' of 'x' had no result and got a neutral one"
    render(history([{"user": "?"}, {"text": "ok"}, {"user": "next"}], target), target, changes=(same := []))
    assert same == []


def test_a_part_of_a_conversation_is_rendered_unchanged_without_repair() -> None:
    contents = history([result("call_1")], "openai_responses")
    assert render(contents, "openai_responses") == []
    (item,) = render(contents, "openai_responses", repair=False)
    assert item["type"] == "function_call_output"


def test_a_request_is_repaired_too() -> None:
    contents = history([{"user": "?"}, call("t1"), {"user": "next"}], "anthropic")
    assert len(pairs_of_anthropic(providers.render_request(contents, "anthropic")["messages"])) == 1
    assert not parts(providers.render_request(contents, "anthropic", repair=False)["messages"], "tool_result")
