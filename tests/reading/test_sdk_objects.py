"""Conversion of SDK objects to dicts. The objects of the real SDKs are tested in ``tests/sdk``."""

from __future__ import annotations

import base64
import enum
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pydantic
import pytest
import wire_streams
from wire_streams import chat, chat_call, gemini, run

from streamkit import Turn, UsageError
from streamkit.reading import sdk_objects


class ChunkModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)

    index: int | None = None
    finish_reason: str | None = None
    media_type: str | None = pydantic.Field(default=None, alias="mimeType")


class Reason(enum.Enum):
    STOP = "STOP"


def test_fields_that_were_not_set_are_absent() -> None:
    assert sdk_objects.dump_chunk(ChunkModel.model_validate({"finish_reason": None})) == {"finish_reason": None}


def test_fields_have_the_names_of_the_wire() -> None:
    assert sdk_objects.dump_chunk(ChunkModel(media_type="image/png")) == {"mimeType": "image/png"}  # type: ignore[call-arg]


def test_undeclared_fields_are_kept() -> None:
    assert sdk_objects.dump_chunk(ChunkModel.model_validate({"index": 0, "vendor": {"a": [1]}})) == {
        "index": 0,
        "vendor": {"a": [1]},
    }


def test_leaves_of_an_undeclared_type_cause_no_warning() -> None:
    assert sdk_objects.dump_chunk(ChunkModel.model_construct(index="seven")) == {"index": "seven"}


def test_bytes_become_base64_and_enums_their_values() -> None:
    plain = sdk_objects.dump_chunk(ChunkModel.model_construct(signature=b"\xff\xfe", reason=Reason.STOP, parts=(b"a",)))
    assert plain == {"signature": base64.b64encode(b"\xff\xfe").decode(), "reason": "STOP", "parts": ["YQ=="]}


@pytest.mark.parametrize("make", [OrderedDict, MappingProxyType])
def test_mappings_are_accepted(make: Any) -> None:
    chunk: Mapping[str, Any] = make({"a": 1})
    assert sdk_objects.dump_chunk(chunk) == {"a": 1}


class WithToDict:
    def to_dict(self) -> dict[str, Any]:
        return {"a": 1}


def test_objects_with_to_dict_are_accepted() -> None:
    assert sdk_objects.dump_chunk(WithToDict()) == {"a": 1}


class DumpsToAList:
    def model_dump(self, **_: Any) -> list[int]:
        return [1]


@pytest.mark.parametrize("chunk", [5, object(), [1], None, 1.5, DumpsToAList()])
def test_an_unsupported_object_is_a_usage_error(chunk: Any) -> None:
    with pytest.raises(UsageError, match=type(chunk).__name__):
        sdk_objects.dump_chunk(chunk)


def test_objects_and_their_dicts_result_in_equal_turns() -> None:
    chunks = [chat({"content": "Hi"}), chat_call('{"n":1}', id="a", name="count"), chat({}, "tool_calls")]
    by_object, _ = run("openai_chat", [pydantic.RootModel[dict[str, Any]](chunk) for chunk in chunks])
    by_dict, _ = run("openai_chat", chunks)
    assert wire_streams.summary(by_object) == wire_streams.summary(by_dict)


def test_snake_case_names_of_the_gemini_sdk_are_read() -> None:
    dumped = [
        {
            "candidates": [
                {"content": {"parts": [{"text": "Hi", "thought": None, "function_call": None}]}, "index": None}
            ]
        },
        {
            "candidates": [
                {
                    "content": {"parts": [{"function_call": {"name": "f", "args": {"snake_case": 1}}}]},
                    "finish_reason": "STOP",
                }
            ],
            "response_id": "resp-1",
            "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 4},
        },
    ]
    turn, _ = run("gemini", dumped)
    assert turn.text == "Hi"
    assert [call.arguments for call in turn.executable] == [{"snake_case": 1}]
    assert turn.usage is not None
    assert turn.usage.output_tokens == 4
    assert turn.response_id == "resp-1"


def test_signatures_are_converted_to_the_form_of_the_wire() -> None:
    part = {"function_call": {"name": "f", "args": {}}, "thought_signature": b"\xfb\xff"}
    by_object, _ = run(
        "gemini", [ChunkModel.model_construct(candidates=[{"content": {"parts": [part]}, "finish_reason": "STOP"}])]
    )
    wire = gemini({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "+/8="}, finish="STOP")
    by_dict, _ = run("gemini", [wire])
    assert by_object.calls[0].metadata == by_dict.calls[0].metadata == {"thoughtSignature": "+/8="}


def test_dicts_of_the_caller_are_not_changed() -> None:
    for provider, chunk in (
        ("openai_chat", chat({"content": "Hi"})),
        ("anthropic", wire_streams.message_start(content=[{"type": "text", "text": "Hi"}])),
        ("gemini", gemini({"text": "Hi", "thoughtSignature": "c2ln"})),
    ):
        before = repr(chunk)
        turn = Turn(provider)
        turn.feed(chunk)
        turn.close()
        assert repr(chunk) == before
