"""What other libraries expect of an unfinished JSON text, as data, and where a ``Growing`` differs by design.

A difference is one of these, for every case of its kind:

* ``number``: the number at the end is not shown, because a prefix of a number is another number (``12.`` may become
  ``12.5``).
* ``keyword``: a keyword is shown when it is complete, because Vercel's guess (``t`` is ``true``) shows what the model
  has not written.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Difference = Literal["number", "keyword"]


class Case(NamedTuple):
    """An unfinished text, the value that the library shows, and what a ``Growing`` shows if it differs."""

    text: str
    theirs: Any
    difference: Difference | None = None
    ours: Any = None


#: https://github.com/vercel/ai/blob/main/packages/ai/src/util/fix-json.test.ts (Apache-2.0), each input with the value
#: of the expected text.
VERCEL_FIX_JSON = [
    Case("", None),
    # literals
    Case("nul", None),
    Case("t", True, "keyword"),
    Case("fals", False, "keyword"),
    # number
    Case("12.", 12, "number"),
    Case("12.2", 12.2, "number"),
    Case("-12", -12, "number"),
    Case("-", None),
    Case("2.5e", 2.5, "number"),
    Case("2.5e-", 2.5, "number"),
    Case("2.5e3", 2500.0, "number"),
    Case("-2.5e3", -2500.0, "number"),
    Case("2.5E", 2.5, "number"),
    Case("2.5E-", 2.5, "number"),
    Case("2.5E3", 2500.0, "number"),
    Case("-2.5E3", -2500.0, "number"),
    Case("12.e", 12, "number"),
    Case("12.34e", 12.34, "number"),
    Case("5e", 5, "number"),
    # string
    Case('"abc', "abc"),
    Case('"value with \\"quoted\\" text and \\\\ escape', 'value with "quoted" text and \\ escape'),
    Case('"value with \\', "value with "),
    Case('"\\u', ""),
    Case('"\\u12', ""),
    Case('"text \\u00', "text "),
    Case('{"a":"\\u12', {"a": ""}),
    Case('"value with unicode \u003c"', "value with unicode <"),
    # array
    Case("[", []),
    Case("[[1], [2", [[1], [2]], "number", [[1], []]),
    Case('[["1"], ["2', [["1"], ["2"]]),
    Case("[[false], [nu", [[False], [None]], "keyword", [[False], []]),
    Case("[[[]], [[]", [[[]], [[]]]),
    Case("[[{}], [{", [[{}], [{}]]),
    Case("[1, ", [1]),
    Case("[[], 123", [[], 123], "number", [[]]),
    # object
    Case('{"key":', {}),
    Case('{"a": {"b": 1}, "c": {"d": 2', {"a": {"b": 1}, "c": {"d": 2}}, "number", {"a": {"b": 1}, "c": {}}),
    Case('{"a": {"b": "1"}, "c": {"d": 2', {"a": {"b": "1"}, "c": {"d": 2}}, "number", {"a": {"b": "1"}, "c": {}}),
    Case(
        '{"a": {"b": false}, "c": {"d": 2',
        {"a": {"b": False}, "c": {"d": 2}},
        "number",
        {"a": {"b": False}, "c": {}},
    ),
    Case('{"a": {"b": []}, "c": {"d": 2', {"a": {"b": []}, "c": {"d": 2}}, "number", {"a": {"b": []}, "c": {}}),
    Case('{"a": {"b": {}}, "c": {"d": 2', {"a": {"b": {}}, "c": {"d": 2}}, "number", {"a": {"b": {}}, "c": {}}),
    Case('{"ke', {}),
    Case('{"k1": 1, "k2', {"k1": 1}),
    Case('{"k1": 1, "k2":', {"k1": 1}),
    Case('{"key": "value"  ', {"key": "value"}),
    Case('{"a": {"b": {}', {"a": {"b": {}}}),
    # nesting
    Case("[1, [2, 3, [", [1, [2, 3, []]]),
    Case("[false, [true, [", [False, [True, []]]),
    Case('{"key": {"subKey":', {"key": {}}),
    Case('{"key": 123, "key2": {"subKey":', {"key": 123, "key2": {}}),
    Case('{"key": null, "key2": {"subKey":', {"key": None, "key2": {}}),
    Case('{"key": [1, 2, {', {"key": [1, 2, {}]}),
    Case('[1, 2, {"key": "value",', [1, 2, {"key": "value"}]),
    Case('{"a": {"b": ["c", {"d": "e",', {"a": {"b": ["c", {"d": "e"}]}}),
    Case('{"a": {"b": {"c": {"d":', {"a": {"b": {"c": {}}}}),
    Case('{"a": 1, "b": [', {"a": 1, "b": []}),
    Case('{"a": 1, "b": {', {"a": 1, "b": {}}),
    Case('{"a": 1, "b": "', {"a": 1, "b": ""}),
    # regression
    Case(
        '{\n  "a": [\n    {\n      "a1": "v1",\n      "a2": "v2",\n      "a3": "v3"\n    }\n  ],\n  "b": [\n    {\n'
        '      "b1": "n',
        {"a": [{"a1": "v1", "a2": "v2", "a3": "v3"}], "b": [{"b1": "n"}]},
    ),
    Case(
        '{"type":"div","children":[{"type":"Card","props":{}',
        {"type": "div", "children": [{"type": "Card", "props": {}}]},
    ),
]

#: https://github.com/vercel/ai/blob/main/packages/ai/src/util/parse-partial-json.test.ts (Apache-2.0).
VERCEL_PARSE_PARTIAL_JSON = [
    Case("", None),
    Case('{"key": "value"}', {"key": "value"}),
    Case('{"key": "value"', {"key": "value"}),
    Case("not json at all", None),
]

#: https://github.com/567-labs/instructor/blob/main/tests/v2/test_json_helpers.py (MIT): deltas of text with prose,
#: fences and braces around the JSON, and the JSON. A ``Growing`` agrees in all of them.
INSTRUCTOR_EXTRACTED: list[tuple[list[str], Any]] = [
    (['prefix ```json\n{"name":"Ada"}\n``` suffix'], {"name": "Ada"}),
    (['prefix ```json\n[{"name":"Ada"}]\n``` suffix'], [{"name": "Ada"}]),
    (['See [section] for details.\n```json\n{"name":"Ada"}\n```\n'], {"name": "Ada"}),
    (['prefix {"path":"C:\\\\","name":"Ada"} suffix'], {"path": "C:\\", "name": "Ada"}),
    (
        ['The user supplied {"is_verified":true}. The result is {"person":{"name":"Ada"}}.'],
        {"person": {"name": "Ada"}},
    ),
    (['prefix {"person":{"name":"Ada"}} suffix'], {"person": {"name": "Ada"}}),
    (["before ", '{"a":', "1}", " after"], {"a": 1}),
    (["```json\n", '{"a":"{ok}"}', "\n```"], {"a": "{ok}"}),
    (["before ", '[{"a":', "1},", '{"a":2}]', " after"], [{"a": 1}, {"a": 2}]),
    (["```json\n", '[{"a":"[ok]"}]', "\n```"], [{"a": "[ok]"}]),
    (['prefix {"path":"C:', '\\\\","name":"Ada"} suffix'], {"path": "C:\\", "name": "Ada"}),
    (['{"md":"use ', "`", "pip install`", ' here"}'], {"md": "use `pip install` here"}),
    (['{"code":"', "```", "py```", '"}'], {"code": "```py```"}),
    (['{"a":1}{"b":2}'], {"b": 2}),
    (['```json\n{"a":1}{"b":2}\n```'], {"b": 2}),
    (["```json\n", '{"code":"`inline`"}', "\n```"], {"code": "`inline`"}),
    (
        [
            "I'll pull out the fields now. ",
            "{Note: keeping the original casing} ",
            "Here is the result: ",
            '{"name":"Ada","age":30}',
        ],
        {"name": "Ada", "age": 30},
    ),
    (["prefix ", "[", '{"a":1}', "]", " suffix"], [{"a": 1}]),
    (list('prefix {"a": 1} suffix {"a": 2}'), {"a": 2}),
]
