"""The typed view of an output that grows. The cases named after instructor are those of its tests of ``Partial``.

https://github.com/567-labs/instructor/blob/main/tests/dsl/test_partial.py and its neighbours (MIT). A ``Growing``
differs by design in these points:

* An open string of a type without prefixes (``Literal``, an enum, a date) is not shown; instructor shows it or raises,
  depending on ``PartialLiteralMixin``.
* A field that is not there is None, also if the type has a default: a default is not part of the model's output.
* A nested model that is complete is not validated on its own: validation runs once, at the end.
* A union of models is shown once a member with a literal distinguishes them, with or without a discriminator, else when
  it is complete; instructor refuses discriminators.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, RootModel, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType, TypedDict

from streamkit import Growing, InvalidOutput


class Item(BaseModel):
    name: str
    qty: int


class Location(BaseModel):
    city: str
    lat: float


class Node(BaseModel):
    value: str
    children: list[Node] | None = None


class Cat(BaseModel):
    pet_type: Literal["cat"]
    meows: int


class Dog(BaseModel):
    pet_type: Literal["dog"]
    barks: int


class Status(Enum):
    ACTIVE = "active"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    label: str = "none"


@pydantic_dataclass
class Line:
    name: Annotated[str, Field(alias="Name")]
    points: list[Point]

    def __post_init__(self) -> None:
        self.length = len(self.points)


def view(output: Any, *deltas: str) -> Any:
    growing = Growing(output)
    for delta in deltas:
        growing.feed(delta)
    return growing.partial


def seen(model: BaseModel | None) -> dict[str, Any]:
    """Return the fields that are set, as data."""
    assert model is not None
    return {name: getattr(model, name) for name in model.model_fields_set}


# ---------------------------------------------------------------- instructor's cases


def test_white_space_before_the_value_shows_nothing() -> None:
    growing = Growing(Item)
    for delta in ("\n", "\t", " "):
        growing.feed(delta)
        assert growing.partial is None
    growing.feed('{"name": "x", "qty": 42}')
    assert growing.close() == Item(name="x", qty=42)


def test_an_open_string_of_a_model_is_shown() -> None:
    assert seen(view(Item, '{"name": "Jo')) == {"name": "Jo"}
    assert view(Item, '{"name": "Jo').qty is None
    assert seen(view(Item, '{"name": "John"}')) == {"name": "John"}
    assert seen(view(Item, '{"name": "John", "qty": 25}')) == {"name": "John", "qty": 25}


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Literal["active", "inactive"], '"act', None),
        (Literal["act", "active"], '"act', None),
        (Literal["active", "inactive"], '"active"', "active"),
        (Literal["active", "inactive"], '"xyz"', None),
        (Status, '"act', None),
        (Status, '"active"', Status.ACTIVE),
        (Literal["on", "off"] | None, '"o', None),
        (Literal["on", "off"] | None, '"on"', "on"),
        (Literal["yes", "no"] | int, '"ye', None),
        (Literal["yes", "no"] | int, "42,", 42),
        (list[Literal["admin", "user"]], '["admin", "us', ["admin"]),
        (list[Literal["admin", "user"]], '["admin", "user"]', ["admin", "user"]),
        (str | int, '"hel', "hel"),
        (str | int, "42,", 42),
        (str | None, "null", None),
        (date, '"2026-', None),
        (date, '"2026-09-30"', date(2026, 9, 30)),
        (datetime, '"2026-09-30T09:00:00"', datetime(2026, 9, 30, 9)),
        (UUID, '"12345678-1234-5678-1234-567812345678"', UUID("12345678-1234-5678-1234-567812345678")),
        (tuple[int, int], "[1, 2", None),
        (tuple[int, int], "[1, 2]", (1, 2)),
    ],
)
def test_a_value_is_shown_when_it_is_of_the_type(annotation: Any, text: str, value: Any) -> None:
    class Holder(BaseModel):
        value: annotation

    for size in (1, 1000):
        whole = f'{{"value": {text}'
        shown = view(Holder, *(whole[at : at + size] for at in range(0, len(whole), size)))
        assert shown.value == value


def test_a_union_of_models_is_shown_when_it_is_complete() -> None:
    class Owner(BaseModel):
        pet: Item | Location
        other: Cat | Dog

    growing = Growing(Owner)
    growing.feed('{"pet": {"name": "cat", "qty": 5')
    assert seen(growing.partial) == {}
    growing.feed("}")
    assert seen(growing.partial) == {"pet": Item(name="cat", qty=5)}


def test_a_union_of_models_is_shown_once_a_member_distinguishes_them() -> None:
    class Owner(BaseModel):
        pet: Annotated[Cat | Dog, Field(discriminator="pet_type")]
        other: Cat | Dog

    growing = Growing(Owner)
    growing.feed('{"pet": {"meows": 5, "pet_type": "ca')
    assert seen(growing.partial) == {}
    growing.feed('t"')
    growing.feed('}, "other": {"pet_type": "dog", "barks": 1}')
    assert seen(growing.partial) == {"pet": Cat(pet_type="cat", meows=5), "other": Dog(pet_type="dog", barks=1)}


def test_optional_nested_models_are_instances() -> None:
    class Person(BaseModel):
        name: str
        address: Location | None = None

    shown = view(Person, '{"name": "bob", "address": {"city": "NYC", "lat": 1.5')
    assert isinstance(shown.address, Location)
    assert seen(shown.address) == {"city": "NYC"}
    assert view(Person, '{"name": "carol"').address is None


def test_the_last_item_of_a_list_is_an_instance() -> None:
    class Order(BaseModel):
        items: list[Item]

    shown = view(Order, '{"items": [{"name": "apple", "qty": 3}, {"name": "banana", "qty"')
    assert shown.items[0] == Item(name="apple", qty=3)
    assert isinstance(shown.items[1], Item)
    assert seen(shown.items[1]) == {"name": "banana"}


def test_values_of_mappings_are_instances() -> None:
    class Cart(BaseModel):
        mapping: dict[str, Item]
        nested: list[dict[str, Item]]

    shown = view(
        Cart,
        '{"mapping": {"a": {"name": "apple", "qty": 3}, "b": {"name": "ban',
        'ana", "qty": 4}}, "nested": [{"c": {"name": "cherry", "qty": 5}, "d": {"name": "dam',
    )
    assert shown.mapping == {"a": Item(name="apple", qty=3), "b": Item(name="banana", qty=4)}
    assert shown.nested[0]["c"] == Item(name="cherry", qty=5)
    assert seen(shown.nested[0]["d"]) == {"name": "dam"}


def test_fields_are_found_by_their_aliases() -> None:
    class Envelope(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        answer: str
        location: Location = Field(alias="loc")
        kind: str = Field(validation_alias=AliasChoices("type", "sort"))

    shown = view(Envelope, '{"answer": "hi", "loc": {"city": "NYC", "lat": 1.5}, "sort": "x", "tail": ')
    assert seen(shown) == {"answer": "hi", "location": Location(city="NYC", lat=1.5), "kind": "x"}
    assert seen(view(Envelope, '{"location": {')).keys() == {"location"}


def test_recursive_models_are_shown_at_every_level() -> None:
    shown = view(Node, '{"value": "root", "children": [{"value": "a"}, {"value": "b", "children": [{"value": "c')
    assert [child.value for child in shown.children] == ["a", "b"]
    assert shown.children[1].children[0].value == "c"


def test_defaults_and_factories_are_not_shown_before_the_end() -> None:
    runs: list[int] = []

    def count(total: int) -> int:
        runs.append(total)
        return total

    class Order(BaseModel):
        quantity: int
        total: int = Field(default_factory=lambda data: count(data["quantity"] * 2))
        label: str = "ready"

    growing = Growing(Order)
    growing.feed('{"quantity":21')
    growing.feed("}")
    assert seen(growing.partial) == {"quantity": 21}
    assert growing.partial is not None
    assert growing.partial.label is None
    assert runs == []
    assert growing.close() == Order(quantity=21, total=42, label="ready")


def test_numbers_are_those_of_pydantic() -> None:
    class Numbers(BaseModel):
        value: Decimal
        count: int

    text = '{"value":1.2345678901234567890123456789,"count":1234567890123456789012345678901234567890'
    growing = Growing(Numbers)
    growing.feed(text + ",")
    expected = Numbers.model_validate_json(text + "}")
    assert growing.partial == expected
    whole = Growing(Numbers)
    whole.feed(text + "}")
    assert whole.close() == expected


def test_null_and_absent_are_different_at_the_end() -> None:
    class Person(BaseModel):
        name: str
        email: str | None

    for text, fits in (('{"name":"Al","email":null}', True), ('{"name":"Al"}', False)):
        growing = Growing(Person)
        growing.feed(text)
        if fits:
            assert growing.close().email is None
        else:
            with pytest.raises(InvalidOutput, match="email is missing"):
                growing.close()


# ---------------------------------------------------------------- cases of its own


def test_the_view_is_one_object_that_is_updated() -> None:
    growing = Growing(Item)
    growing.feed('{"name": "a')
    first = growing.partial
    growing.feed('b", "qty": 1, "other": 5}')
    assert growing.partial is first
    assert first == Item(name="ab", qty=1)


@pytest.mark.parametrize("read_at", range(60))
def test_a_view_that_is_first_read_late_is_the_same(read_at: int) -> None:
    class All(BaseModel):
        items: list[Item]
        kind: Literal["ab", "abc"]
        other: dict[str, Any]

    text = json.dumps({"items": [{"name": "abc", "qty": 12}], "kind": "abc", "other": {"x": [1, "yz", {}]}})
    early, late = Growing(All), Growing(All)
    for position, character in enumerate(text):
        early.feed(character)
        late.feed(character)
        shown = early.partial
        if position >= read_at:
            assert repr(late.partial) == repr(shown)


def test_other_containers_are_shown() -> None:
    class Row(TypedDict):
        day: date
        text: str

    assert view(list[Row], '[{"day": "2026-01-02", "text": "a') == [{"day": date(2026, 1, 2), "text": "a"}]
    assert view(Sequence[int], "[1, 2,") == [1, 2]
    assert view(dict[str, date], '{"a": "2026-01-02", "b": "2026') == {"a": date(2026, 1, 2)}
    assert view(list, '[1, {"a": "b') == [1, {"a": "b"}]
    assert view({"type": "object"}, '{"a": {"b": "c') == {"a": {"b": "c"}}
    assert view(set[int], "[1, 2, 2, 3") == {1, 2}
    assert view(set[str], '["a", "b') == {"a"}
    assert view(set[tuple[int, int]], "[[1, 2], [3") == {(1, 2)}
    assert view(set[Item], '[{"name": "a", "qty": 1}, 2') == set()  # pydantic refuses it at the end: it has no hash
    assert view(frozenset[int], "[1, 2") is None


def test_dataclasses_are_shown() -> None:
    growing = Growing(Line)
    growing.feed('{"Name": "ax", "points": [{"x": 1, "label": "star')
    line = growing.partial
    assert isinstance(line, Line)
    assert (line.name, line.points[0].x, line.points[0].label) == ("ax", 1, "star")
    growing.feed('t"}, {"label": "en')
    assert growing.partial is line
    assert (line.points[0].label, line.points[1].x, line.points[1].label) == ("start", None, "en")
    growing.feed('d", "x": 2}]}')
    assert not hasattr(line, "length")  # no code of a type runs for the view
    whole = growing.close()
    assert whole.points == [Point(1, "start"), Point(2, "end")]
    assert whole.length == 2


def test_a_type_whose_names_are_known_only_to_its_function_is_shown_as_data_when_it_is_complete() -> None:
    @dataclass
    class Inner:
        x: int

    @dataclass
    class Outer:
        inner: Inner

    growing = Growing(TypeAdapter(Outer))
    growing.feed('{"inner": {"x": 1')
    assert growing.partial is None
    growing.feed("}}")
    assert growing.partial == {"inner": {"x": 1}}
    assert growing.close() == Outer(Inner(1))


def test_root_models_are_instances_from_their_first_character_on() -> None:
    shown = view(RootModel[list[Item]], '[{"name": "a')
    assert isinstance(shown, RootModel)
    assert seen(shown.root[0]) == {"name": "a"}
    inner = view(RootModel[RootModel[dict[str, int]]], '{"a": 1, "b": 2')
    assert inner.root.root == {"a": 1}
    assert view(RootModel[str], '"ab') is None
    assert view(RootModel[str], '"ab"').root == "ab"


Tree = TypeAliasType("Tree", "dict[str, Tree] | list[Tree] | int | str")  # type: ignore[misc, valid-type]


@pytest.mark.parametrize("output", [Tree, JsonValue])
def test_recursive_aliases_are_shown_at_every_level(output: Any) -> None:
    assert view(output, '{"a": [1, {"b": "te') == {"a": [1, {"b": "te"}]}
    assert view(list[output], '[{"a": {"b": [2,') == [{"a": {"b": [2]}}]


def test_a_union_of_containers_is_shown_by_its_first_character() -> None:
    assert view(list[int] | Item, "[1, 2,") == [1, 2]
    assert seen(view(list[int] | Item, '{"name": "a')) == {"name": "a"}
    assert seen(view(list[Item] | Cat | Dog, '{"pet_type": "dog", "barks": 1,')) == {"pet_type": "dog", "barks": 1}
    assert view(list[int] | set[str], "[1,") is None
    assert view(dict[str, int] | Item, '{"a": 1,') is None


def test_a_union_of_typed_dicts_is_shown_once_a_member_distinguishes_them() -> None:
    class Circle(TypedDict):
        kind: Literal["circle", "disc"]
        radius: float

    class Square(TypedDict):
        kind: Literal["square"]
        side: float

    growing = Growing(list[Circle | Square])
    growing.feed('[{"kind": "square", "side": 1.5, ')
    assert growing.partial == [{"kind": "square", "side": 1.5}]
    growing.feed('"more": {"kind": "circle"}}, {"radius": [1], "kind": {"x": 1}')
    assert growing.partial == [{"kind": "square", "side": 1.5}]
    growing.feed('}, {"kind": "oval", "radius": 2')
    assert growing.partial == [{"kind": "square", "side": 1.5}]


def test_a_second_value_replaces_a_union_that_was_not_decided() -> None:
    growing = Growing(Cat | Dog)  # type: ignore[call-overload]
    for delta in ('{"meows": 1', "}", ' or rather {"pet_type": "dog", "ba', 'rks": 2}'):
        growing.feed(delta)
        shown = growing.partial
    assert shown == growing.close() == Dog(pet_type="dog", barks=2)


def test_the_view_of_a_type_adapter_has_its_type() -> None:
    shown = view(TypeAdapter(Cat | Dog), '{"pet_type": "cat", "meows": 1')
    assert isinstance(shown, Cat)


def test_an_item_that_cannot_be_shown_hides_the_items_after_it() -> None:
    assert view(list[int], '[1, "x", 3]') == [1]


def test_a_value_of_another_kind_is_not_shown() -> None:
    assert seen(view(Item, '{"name": {"a": 1}, "qty": [1]}')) == {}
    assert seen(view(Item, '{"name": null, "qty": "many"}')) == {}


def test_no_code_of_the_model_runs_for_the_view() -> None:
    class Noisy(BaseModel):
        name: str
        _cache: dict[str, int] = PrivateAttr(default_factory=dict)

        def model_post_init(self, context: Any) -> None:
            raise AssertionError

    assert view(Noisy, '{"name": "x').name == "x"


def test_constraints_of_an_annotation_apply_to_complete_values() -> None:
    class Rated(BaseModel):
        stars: Annotated[int, Field(le=5)]
        text: Annotated[str, Field(min_length=3)]

    assert seen(view(Rated, '{"stars": 9, "text": "a')) == {"text": "a"}
