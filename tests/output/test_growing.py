"""A structured output while it streams: its changes, its value, where the JSON is, and how it ends."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator, model_validator
from pydantic_core import PydanticCustomError

from streamkit import Growing, InvalidOutput, Turn, UsageError
from streamkit.calls import CallRef
from streamkit.events import ArgumentsRestated, ResponseStarted, Text, ToolCallDelta, ToolCallStart
from streamkit.output import Change


class Step(BaseModel):
    text: str
    minutes: int | None = None


class Other(BaseModel):
    number: int


class Recipe(BaseModel):
    """A recipe for people who cook."""

    name: str
    servings: float
    vegan: bool
    steps: list[Step] = Field(default_factory=list)


def changes_of(deltas: list[str], output: Any = None) -> list[tuple[Any, ...]]:
    growing = Growing(output)
    return [(change.path, change.kind, change.value) for delta in deltas for change in growing.feed(delta)]


def test_strings_grow_and_numbers_and_keywords_are_shown_when_they_are_complete() -> None:
    deltas = ['{"name":"So', 'up","servings":1', "2.", "5", ',"vegan":tr', "ue", "}"]
    growing = Growing(Recipe)
    shown = [[(change.path, change.kind, change.value) for change in growing.feed(delta)] for delta in deltas]
    assert shown == [
        [((), "set", {}), (("name",), "set", "So")],
        [(("name",), "append", "up"), (("name",), "end", "Soup")],
        [],
        [],
        [(("servings",), "set", 12.5)],
        [(("vegan",), "set", True)],
        [((), "end", {"name": "Soup", "servings": 12.5, "vegan": True})],
    ]
    assert growing.is_complete
    assert growing.close() == Recipe(name="Soup", servings=12.5, vegan=True)


def test_changes_have_the_path_of_lists_and_objects() -> None:
    assert changes_of(['{"a":[1,{"b":null}],"c":[[]]}'])[1:-1] == [
        (("a",), "set", []),
        (("a", 0), "set", 1),
        (("a", 1), "set", {}),
        (("a", 1, "b"), "set", None),
        (("a", 1), "end", {"b": None}),
        (("a",), "end", [1, {"b": None}]),
        (("c",), "set", []),
        (("c", 0), "set", []),
        (("c", 0), "end", []),
        (("c",), "end", [[]]),
    ]


def test_a_change_is_a_value_that_later_deltas_do_not_alter() -> None:
    growing = Growing()
    first = growing.feed('{"a":[')
    growing.feed('1],"b":2}')
    assert first == [Change((), "set", {}), Change(("a",), "set", [])]


@pytest.mark.parametrize(
    ("output", "deltas", "value"),
    [
        (int, ["4", "2"], 42),
        (float, [" -1", ".5 \n"], -1.5),
        (bool, ["fal", "se"], False),
        (str, ['"a', 'b"'], "ab"),
        (str, ["```json\n", '"ab"', "\n```"], "ab"),
        (int, ["`", "``\n4", "2\n", "```\n"], 42),
        (list[int], ["[1,", "2]"], [1, 2]),
        (list[int], ["The numbers are:\n```json\n[1,", "2]\n```\nDone [as asked]."], [1, 2]),
        (type(None), ["null"], None),
        (int | str, ["5"], 5),
        ({"type": "array", "items": {"type": "integer"}}, ["[1]"], [1]),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"type": "integer"}}}, ["7"], 7),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, ["null"], None),
        ({"type": ["string", "null"]}, ['"x"'], "x"),
        (None, ['{"a":1}'], {"a": 1}),
    ],
)
def test_the_root_may_be_any_value(output: Any, deltas: list[str], value: Any) -> None:
    growing = Growing(TypeAdapter(output)) if output == int | str else Growing(output)
    for delta in deltas:
        growing.feed(delta)
    assert growing.close() == value
    assert growing.close() == value


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [
        (list[int], '{"final_output": [1, 2]}', [1, 2]),
        (int, '{"final_output": 42}', 42),
        (str, '{ "final_output" :\n"a}b" }', "a}b"),
        (bool, 'Here:\n```json\n{"final_output": true}\n```\nDone.', True),
        (Step | Other, '{"final_output": {"text": "a"}}', Step(text="a")),
        (Step | Other, '{"text": "a"}', Step(text="a")),
        (Step | Other, '{"number": 1}', Other(number=1)),
        (Step | Other, '{"final": 1, "number": 1}', Other(number=1)),
        (list[int], '{"final": 0, "numbers": [1]}', [1]),
        (int | None, '{"final_output": null}', None),
        (list[int] | dict[str, int], '{"final_output": {"final_output": 3}}', {"final_output": 3}),
        (dict[str, int], '{"final_output": 3}', {"final_output": 3}),
        (None, '{"final_output": 3}', {"final_output": 3}),
        ({"type": "array", "items": {"type": "integer"}}, '{"final_output":[1]}', [1]),
    ],
)
def test_an_output_that_is_no_object_is_found_in_the_object_that_has_it(output: Any, text: str, value: Any) -> None:
    expected: Any = None
    for size in (1, 3, len(text)):
        growing = Growing(output)
        changes = [change for at in range(0, len(text), size) for change in growing.feed(text[at : at + size])]
        assert growing.close() == value
        rebuilt = [(change.path, change.kind) for change in changes if change.kind != "append"]
        assert rebuilt == (expected := expected or rebuilt)


@pytest.mark.parametrize("text", ['{"final_output": 42', '{"final_output": [1', '{"final_output"', "{"])
def test_an_object_with_the_output_that_is_cut_is_not_complete(text: str) -> None:
    growing = Growing(list[int] if "[" in text else int)
    growing.feed(text)
    with pytest.raises(InvalidOutput, match="not complete"):
        growing.close()


def test_a_wrapped_output_grows() -> None:
    growing = Growing(list[str])
    growing.feed('{"final_output": ["a", "b')
    assert growing.value == growing.partial == ["a", "b"]


def test_validators_words_keep_their_letters() -> None:
    class Account(BaseModel):
        iban: str
        age: int = Field(ge=18)

        @field_validator("iban")
        @classmethod
        def check(cls, value: str) -> str:
            if value == "custom":
                raise PydanticCustomError("bic", "BIC is not an IBAN")
            raise ValueError("IBAN must begin with DE")

    for value, words in (("x", "IBAN must begin with DE"), ("custom", "BIC is not an IBAN")):
        growing = Growing(Account)
        growing.feed(f'{{"iban": "{value}", "age": 3}}')
        with pytest.raises(InvalidOutput) as failure:
            growing.close()
        assert f'iban was given "{value}", {words};' in str(failure.value)
        assert "age was given 3, expected greater than or equal to 18" in str(failure.value)


def test_a_number_at_the_root_is_shown_only_when_the_text_ends() -> None:
    growing = Growing(float)
    assert growing.feed("12") == []
    assert growing.value is None
    growing.feed(".5")
    assert growing.value is None
    assert growing.close() == 12.5


@pytest.mark.parametrize(
    ("output", "text"),
    [(int, "42 apples"), (int, "about 42"), (bool, "true, I think"), (str, '"a" or "b"')],
)
def test_a_scalar_between_words_is_no_output(output: Any, text: str) -> None:
    growing = Growing(output)
    growing.feed(text)
    with pytest.raises(InvalidOutput, match="the output has no JSON"):
        growing.close()


def test_an_object_inside_broken_json_is_not_the_output() -> None:
    growing = Growing(Step)
    for delta in ('{"a": 01, "b": ', '{"text": "wrong"}', "}"):
        growing.feed(delta)
    assert growing.value == {}
    with pytest.raises(InvalidOutput, match="not valid JSON"):
        growing.close()


def test_the_last_value_that_fits_is_the_output() -> None:
    growing = Growing(Step)
    growing.feed('First {"text":"draft"}, then {"text":"final"}. I used {"style": "plain"}.')
    assert growing.value == {"style": "plain"}
    assert growing.close() == Step(text="final")


def test_a_second_value_replaces_the_first_from_the_root() -> None:
    assert changes_of(['{"a":1} {"b":', "2}"])[3:] == [
        ((), "set", {}),
        (("b",), "set", 2),
        ((), "end", {"b": 2}),
    ]


def test_half_of_a_surrogate_pair_waits_for_the_other() -> None:
    assert changes_of(['{"a":"x\ud83d', '\ude00"}'])[1:3] == [
        (("a",), "set", "x"),
        (("a",), "append", "\U0001f600"),
    ]
    assert changes_of(['{"a":"\\ud83d', '\\ude00"}'])[1:3] == [(("a",), "set", ""), (("a",), "append", "\U0001f600")]


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the output has no JSON object; reply with one that fits the schema, alone"),
        ("I cannot do that.", "the output has no JSON object; reply with one that fits the schema, alone"),
        ('{"name":"So', "the output is not complete: its JSON ends before its last bracket or quote"),
        ('{"name":"Soup",}', "the output is not valid JSON: trailing comma at line 1 column 16"),
        (
            '{"name":5,"vegan":true}',
            "the output does not fit Recipe: name was given 5, expected a valid string; servings is missing, expected "
            "a number",
        ),
        (
            '{"name":"a","servings":1,"vegan":true,"steps":[{"minutes":"x"}]}',
            'the output does not fit Recipe: steps[0].text is missing; steps[0].minutes was given "x", expected a '
            "valid integer, unable to parse string as an integer",
        ),
    ],
)
def test_a_failure_is_a_sentence_for_the_model(text: str, message: str) -> None:
    growing = Growing(Recipe)
    growing.feed(text)
    with pytest.raises(InvalidOutput) as raised:
        growing.close()
    assert str(raised.value) == message
    assert raised.value.text in text


def test_a_json_schema_is_validated_too() -> None:
    growing = Growing({"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["y"]})
    growing.feed('{"x":"1"}')
    with pytest.raises(InvalidOutput) as raised:
        growing.close()
    assert str(raised.value) == 'the output does not fit Point: y is missing; x was given "1", expected an integer'


def test_a_root_that_does_not_fit_is_called_the_output() -> None:
    growing = Growing({"type": "array", "minItems": 2})
    growing.feed("[1]")
    with pytest.raises(InvalidOutput, match=r"the output was given \[1\], expected at least 2 items"):
        growing.close()
    strict = Growing(TypeAdapter(list[int]))
    strict.feed('[1,"x"]')
    with pytest.raises(InvalidOutput, match=r'\[1\] was given "x"'):
        strict.close()


def test_validators_of_the_model_run_once_at_the_end() -> None:
    runs: list[str] = []

    class Checked(BaseModel):
        a: str
        b: str

        @model_validator(mode="after")
        def check(self) -> Checked:
            runs.append(self.b)
            if self.a != self.b:
                raise ValueError("a and b must be equal")
            return self

    growing = Growing(Checked)
    for delta in ('{"a":"x",', '"b":"y"}'):
        growing.feed(delta)
        assert growing.partial is not None
    assert runs == []
    with pytest.raises(InvalidOutput, match="a and b must be equal"):
        growing.close()
    assert runs == ["y"]


def test_a_closed_output_takes_no_text() -> None:
    growing = Growing(int)
    growing.feed("1")
    growing.close()
    with pytest.raises(UsageError, match="closed"):
        growing.feed("2")


@pytest.mark.parametrize("output", [object(), 5, "Recipe", iter])
def test_a_wrong_type_is_an_error_of_the_caller(output: Any) -> None:
    with pytest.raises(UsageError, match="output must be a pydantic model"):
        Growing(output)


# ---------------------------------------------------------------- events

CALL = CallRef(id="hist_tool_1", name="final_output", index=0, kind="function")
OTHER = CallRef(id="hist_tool_2", name="search", index=1, kind="function")


def test_text_events_are_read() -> None:
    growing = Growing(Step)
    assert growing.handle(ResponseStarted("r", "m")) == []
    assert growing.handle(Text('{"text":"a')) == [Change((), "set", {}), Change(("text",), "set", "a")]
    assert growing.handle(Text("wrong", choice=1)) == []
    growing.handle(Text('b"}'))
    assert growing.close() == Step(text="ab")


def test_arguments_of_the_tool_replace_text_before_them() -> None:
    growing = Growing(Step)
    for event in (
        Text('Let me answer: {"text":"in prose"}'),
        ToolCallStart(OTHER),
        ToolCallDelta(OTHER, '{"text":"of another tool"}'),
        ToolCallStart(CALL),
        ToolCallDelta(CALL, '{"text":'),
        Text('{"text":"in prose"}'),
        ToolCallDelta(CALL, '"a"}'),
    ):
        growing.handle(event)
    assert growing.close() == Step(text="a")


def test_restated_arguments_replace_what_was_read() -> None:
    growing = Growing(Step)
    growing.handle(ToolCallStart(CALL))
    growing.handle(ToolCallDelta(CALL, '{"text":'))
    changes = growing.handle(ArgumentsRestated(CALL, '{"text":"new"}'))
    assert changes[0] == Change((), "set", {})
    assert growing.close() == Step(text="new")


def test_a_new_response_begins_again() -> None:
    growing = Growing(Step)
    growing.handle(Text('{"text":"of the first round"}'))
    growing.handle(ResponseStarted("r2", "m"))
    assert growing.value is None
    growing.handle(Text('{"text":"second"}'))
    assert growing.close() == Step(text="second")


def anthropic(*events: dict[str, Any]) -> list[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    return [{"type": "message_start", "message": message}, *events, end, {"type": "message_stop"}]


def test_the_stream_of_a_forced_tool_grows() -> None:
    start = {"type": "tool_use", "id": "toolu_1", "name": "final_output", "input": {}}
    parts = ['{"text": "cut', ' it", "minutes": 1', "2}"]
    chunks = anthropic(
        {"type": "content_block_start", "index": 0, "content_block": start},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": part}}
            for part in parts
        ),
        {"type": "content_block_stop", "index": 0},
    )
    turn, growing = Turn("anthropic"), Growing(Step)
    shown = [change for chunk in chunks for event in turn.feed(chunk) for change in growing.handle(event)]
    assert [(change.path, change.value) for change in shown if change.kind == "append"] == [(("text",), " it")]
    assert growing.close() == Step(text="cut it", minutes=12)


def test_a_call_that_arrives_whole_is_read() -> None:
    call = {"function": {"name": "final_output", "arguments": {"text": "a", "minutes": 3}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    turn, growing = Turn("ollama", turn_key="t"), Growing(Step)
    for event in [*turn.feed({"model": "m", "message": message, "done": True, "done_reason": "stop"}), *turn.close()]:
        growing.handle(event)
    assert growing.close() == Step(text="a", minutes=3)


def test_any_tool_can_be_read_while_its_arguments_grow() -> None:
    class Event(BaseModel):
        day: date
        note: str

    growing = Growing(Event, tool="search")
    growing.handle(ToolCallStart(OTHER))
    growing.handle(ToolCallDelta(OTHER, '{"day":"2026-01-02","note":"lun'))
    assert growing.partial is not None
    assert (growing.partial.day, growing.partial.note) == (date(2026, 1, 2), "lun")


@pytest.mark.parametrize(
    "text", ["[[None]]", "{'a': 1} and more", '{"a": tru} x {"b": [1, oops]} y', "[1, [nul", '"{\\"\\a']
)
def test_the_sentence_about_invalid_json_does_not_depend_on_the_cuts(text: str) -> None:
    outputs = set()
    for size in range(1, len(text) + 1):
        output: Growing[Any] = Growing()
        for start in range(0, len(text), size):
            output.feed(text[start : start + size])
        value = repr(output.value)
        with pytest.raises(InvalidOutput) as raised:
            output.close()
        outputs.add((value, str(raised.value), raised.value.text))
    assert len(outputs) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_json_on_the_line_of_a_fence_is_found_for_every_cut(size: int) -> None:
    """It was found in one piece only: the line was taken for the fence's language until its end had come."""
    text = '```json {"a": 1}```'
    output: Growing[Any] = Growing(Any)
    for start in range(0, len(text), size):
        output.feed(text[start : start + size])
    assert output.close() == {"a": 1}
