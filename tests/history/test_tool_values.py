"""What tools return: each shape of value, and what of it is stored, or why it cannot be."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import json
import pathlib
import re
import uuid
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from execution.executor_checks import calls
from pydantic import BaseModel

from streamkit import execute_tool_calls_batched, tool
from streamkit.history import TextBlock
from streamkit.history.tool_results import describe_unwritable, to_stored_result


class Broken(RuntimeError):
    """The connection of a query is closed."""


class LazyList(list[Any]):
    """Rows that are read when somebody asks for them."""

    def __iter__(self) -> Iterator[Any]:
        raise Broken

    def __len__(self) -> int:
        raise Broken


class LazyTuple(tuple[Any, ...]):
    __slots__ = ()
    __iter__ = LazyList.__iter__


class LazyDict(dict[str, Any]):
    def items(self) -> Any:
        raise Broken

    keys = values = __iter__ = items


class LazySet(set[Any]):
    __iter__ = LazyList.__iter__


class LazySequence(Sequence[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        raise Broken


class LazyMapping(Mapping[str, Any]):
    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        raise Broken

    def __getitem__(self, name: str) -> Any:
        raise Broken


class Proxy:
    """A proxy whose object does not exist, as of a web framework outside of a request."""

    @property
    def __class__(self) -> Any:
        raise Broken

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class HalfRow(list[Any]):
    """Rows that end in the middle."""

    def __iter__(self) -> Iterator[Any]:
        yield 1
        raise Broken


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Model(BaseModel):
    n: int = 1


class Struct(msgspec.Struct):
    n: int = 1


@dataclasses.dataclass
class Data:
    n: Any = 1


Pair = namedtuple("Pair", "x y")


class Text(str):
    __slots__ = ()


class Plain:
    pass


def generate() -> Iterator[int]:
    yield 1


async def wait() -> None: ...


def coroutine() -> Any:
    made = wait()
    made.close()
    return made


RAISES = object()
"""The value cannot be read or written, and the call gets an error."""

SHAPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "none": (lambda: None, None),
    "true": (lambda: True, True),
    "integer": (lambda: 7, 7),
    "large_integer": (lambda: 10**30, 10**30),
    "float": (lambda: 1.5, 1.5),
    "infinity": (lambda: float("inf"), "Infinity"),
    "text": (lambda: "x", "x"),
    "subclass_of_text": (lambda: Text("x"), "x"),
    "empty_text": (lambda: "", ""),
    "half_a_pair": (lambda: "\ud800", "\ufffd"),
    "bytes": (lambda: b"x", "x"),
    "bytearray": (lambda: bytearray(b"x"), "x"),
    "memoryview": (lambda: memoryview(b"x"), "x"),
    "binary": (lambda: b"\xff\x00", "/wA="),
    "list": (lambda: [1], [1]),
    "tuple": (lambda: (1, 2), [1, 2]),
    "set": (lambda: {1}, [1]),
    "frozenset": (lambda: frozenset({1}), [1]),
    "range": (lambda: range(2), [0, 1]),
    "deque": (lambda: deque([1]), [1]),
    "user_list": (lambda: UserList([1]), [1]),
    "dict": (lambda: {"a": 1}, {"a": 1}),
    "names_that_are_numbers": (lambda: {1: 2}, {"1": 2}),
    "ordered_dict": (lambda: OrderedDict(a=1), {"a": 1}),
    "defaultdict": (lambda: defaultdict(int, a=1), {"a": 1}),
    "counter": (lambda: Counter("a"), {"a": 1}),
    "chain_map": (lambda: ChainMap({"a": 1}), {"a": 1}),
    "mapping_proxy": (lambda: MappingProxyType({"a": 1}), {"a": 1}),
    "user_dict": (lambda: UserDict(a=1), {"a": 1}),
    "keys": (lambda: {"a": 1}.keys(), ["a"]),
    "named_tuple": (lambda: Pair(1, 2), [1, 2]),
    "dataclass": (lambda: Data(), {"n": 1}),
    "model": (lambda: Model(), {"n": 1}),
    "struct": (lambda: Struct(), {"n": 1}),
    "enum": (lambda: Colour.RED, "red"),
    "integer_enum": (lambda: Level.LOW, 1),
    "date": (lambda: datetime.date(2026, 1, 2), "2026-01-02"),
    "duration": (lambda: datetime.timedelta(hours=1), "PT1H"),
    "decimal": (lambda: decimal.Decimal("1.10"), "1.10"),
    "fraction": (lambda: fractions.Fraction(1, 2), "1/2"),
    "uuid": (lambda: uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    "path": (lambda: pathlib.PurePosixPath("a/b"), "a/b"),
    "pattern": (lambda: re.compile("a+"), "a+"),
    "exception": (lambda: ValueError("no"), "no"),
    "block": (lambda: TextBlock(text="x"), "x"),
    "plain_object": (lambda: Plain(), RAISES),
    "generator": (generate, RAISES),
    "coroutine": (coroutine, RAISES),
    "function": (lambda: generate, RAISES),
    "file": (lambda: io.StringIO("x"), RAISES),
    "lazy_list": (lambda: LazyList([1]), RAISES),
    "lazy_list_within": (lambda: {"rows": [LazyList([1])]}, RAISES),
    "list_in_a_dataclass": (lambda: Data([1]), {"n": [1]}),
    "list_that_ends_in_an_error": (lambda: [HalfRow([1])], RAISES),
    "lazy_tuple": (lambda: LazyTuple([1]), RAISES),
    "lazy_dict": (lambda: [LazyDict(a=1)], RAISES),
    "lazy_set": (lambda: LazySet([1]), RAISES),
    "lazy_sequence": (lambda: LazySequence(), RAISES),
    "lazy_mapping": (lambda: LazyMapping(), RAISES),
    "proxy_without_an_object": (lambda: Proxy(), RAISES),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_value_becomes_data_or_a_description(name: str) -> None:
    make, expected = SHAPES[name]
    stored = to_stored_result(make())
    json.dumps(stored, allow_nan=False).encode()
    if expected is RAISES:
        assert describe_unwritable(make()) is not None
        assert "0x" not in str(stored)
    else:
        assert describe_unwritable(make()) is None
        assert (stored, type(stored)) == (expected, type(expected))


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai_chat", "anthropic"])
async def test_each_call_has_its_own_result_whatever_the_others_return(provider: str) -> None:
    def returns(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: make()

    tools = [tool(returns(make), name=name, description="A tool.") for name, (make, _) in SHAPES.items()]
    update = await execute_tool_calls_batched(calls(*SHAPES), tools=tools, provider=provider)
    statuses = {result.call.name: result.status for result in update.results}
    expected = {name: "error" if each[1] is RAISES else "completed" for name, each in SHAPES.items()}
    assert statuses == {**expected, "generator": "completed"}  # what a tool yields is its progress and then its value
    lost = next(result for result in update.results if result.call.name == "lazy_list_within")
    assert "an object of the type dict whose contents raise Broken" in str(lost.error)
