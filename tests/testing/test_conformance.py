"""A third-party provider, found by ``register`` or by entry point, is checked like the built-in ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import third_party_provider

import streamkit
from streamkit import providers
from streamkit.errors import UnknownProvider
from streamkit.testing import ConformanceError, Reply, cases_in, check_case, check_provider, every_cut, serve

HELLO = [{"by": "m-1", "ref": "r-1"}, {"say": "Good "}, {"say": "mörning."}, {"bye": "done", "cost": [3, 4]}]
CALLS = [
    {"by": "m-1", "ref": "r-1"},
    {"use": "look", "no": 0, "as": "a"},
    {"use": "find", "no": 1, "as": "b"},
    {"more": '{"at":', "no": 0},
    {"more": "{}", "no": 1},
    {"more": '"Oslo"}', "no": 0},
    {"bye": "tools"},
]
LOOK = {"name": "look", "arguments": {"at": "Oslo"}, "raw_id": "a"}
FIND = {"name": "find", "arguments": {}, "raw_id": "b"}
GOOD: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "text": (HELLO, {"text": "Good mörning.", "finish": ["stop", "done"], "usage": {"input": 3, "output": 4}}),
    "calls": (CALLS, {"calls": [LOOK, FIND], "executable": 2, "finish": ["tool_calls", "tools"]}),
    "truncated": (
        CALLS[:4],
        {
            "calls": [
                {"name": "look", "text": '{"at":', "state": "incomplete", "raw_id": "a"},
                {"name": "find", "text": "", "state": "incomplete", "raw_id": "b"},
            ],
            "error": "stream_truncated",
        },
    ),
    "error": ([*HELLO[:2], {"oops": "no more"}], {"text": "Good ", "error": "provider_error"}),
    "unknown": (
        [{"new": 1}, *HELLO[1:]],
        {"text": "Good mörning.", "finish": ["stop", "done"], "usage": {"input": 3, "output": 4}},
    ),
}


def write(path: Path, chunks: Any, expected: Any, **fields: Any) -> Path:
    """Write a case file; what is None is left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    case = {
        "about": "what this case shows",
        "source": "invented here",
        **fields,
        "chunks": chunks,
        "expected": expected,
    }
    path.write_text(json.dumps({name: value for name, value in case.items() if value is not None}))
    return path


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    for name, (chunks, expected) in GOOD.items():
        write(tmp_path / "acme" / f"{name}.json", chunks, expected)
    return tmp_path / "acme"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove after the test what it registers."""
    providers.names()
    from streamkit.providers import registry as providers_registry

    monkeypatch.setattr(providers_registry, "_registered", dict(providers_registry._registered))


def differences(provider: Any, folder: Path) -> dict[str, list[str]]:
    with pytest.raises(ConformanceError) as caught:
        check_provider(provider, folder)
    for case in caught.value.report.failed:
        assert case in str(caught.value)
        assert all(difference in str(caught.value) for difference in caught.value.report.differences[case])
    return {case: caught.value.report.differences[case] for case in caught.value.report.failed}


# ---------------------------------------------------------------- a correct provider


@pytest.mark.usefixtures("registry")
def test_a_registered_provider_is_checked_against_its_cases(cases: Path) -> None:
    with pytest.raises(UnknownProvider):
        check_provider("acme", cases)
    providers.register(third_party_provider.PROVIDER)
    report = check_provider("acme", cases)
    assert report.provider == "acme"
    assert report.differences == {name: [] for name in sorted(GOOD)}
    assert str(report) == "acme: 0 of 5 cases differ"


@pytest.mark.usefixtures("registry")
def test_a_provider_is_found_by_its_entry_point(cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site" / "acme_streamkit-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-streamkit\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[streamkit.providers]\nacme = third_party_provider:PROVIDER\n")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.setattr("streamkit.providers.registry._entry_points_loaded", False)
    assert "acme" in providers.names()
    assert not check_provider("acme", cases).failed
    assert streamkit.Turn("acme").provider is third_party_provider.PROVIDER
    assert streamkit.detect(b'{"by": "m-1", "ref": "r-1"}\n') == "acme"


def test_a_provider_can_be_an_object(cases: Path) -> None:
    assert not check_provider(third_party_provider.Acme(), str(cases)).failed


def test_one_case_can_be_checked_alone(cases: Path) -> None:
    assert [case.stem for case in cases_in(cases)] == sorted(GOOD)
    assert check_case(third_party_provider.PROVIDER, cases / "text.json") == []


def test_a_case_can_have_bytes_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "acme" / "recorded.json", None, {"text": "Hi", "finish": ["stop", "done"]})
    path.with_suffix(".ndjson").write_bytes(b'{"say": "Hi"}\r\n\r\n{"bye": "done"}')
    assert check_case(third_party_provider.PROVIDER, path) == []


def test_bytes_and_chunks_of_one_case_are_compared(tmp_path: Path) -> None:
    expected = {"text": "Hi", "finish": ["stop", "done"]}
    path = write(tmp_path / "acme" / "both.json", [{"say": "Hi"}, {"bye": "done"}], expected)
    path.with_suffix(".ndjson").write_bytes(b'{"say": "Hi"}\n{"bye": "done"}\n')
    assert check_case(third_party_provider.PROVIDER, path) == []
    path.with_suffix(".ndjson").write_bytes(b'{"say": "Ho"}\n{"bye": "done"}\n')
    lines = check_case(third_party_provider.PROVIDER, path)
    assert lines[0] == 'bytes: text: expected "Hi", got "Ho"'
    assert 'dict: the turn differs from bytes: text: "Ho", then "Hi"' in lines


def test_a_case_can_have_the_body_of_a_response_that_is_not_streamed(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    write(path, None, {"error": "provider_error"}, body=body)
    assert check_case("anthropic", path) == []
    write(path, None, {"text": "Hi"}, body=body)
    assert check_case("anthropic", path)[0] == 'bytes: text: expected "Hi", got nothing'


def test_blocks_and_the_sources_of_ids_are_expected_too(tmp_path: Path) -> None:
    write(
        tmp_path / "acme" / "a.json",
        CALLS,
        {**GOOD["calls"][1], "blocks": ["tool_call", "tool_call"], "ids_made_of": ["a", "b"]},
    )
    assert not check_provider(third_party_provider.PROVIDER, tmp_path / "acme").failed
    write(tmp_path / "acme" / "b.json", CALLS, {**GOOD["calls"][1], "blocks": ["text"], "ids_made_of": ["a", "x"]})
    write(tmp_path / "acme" / "c.json", CALLS, {**GOOD["calls"][1], "ids_made_of": ["a"]})
    by_case = differences(third_party_provider.PROVIDER, tmp_path / "acme")
    assert [difference.split(":")[1] for difference in by_case["b"]] == [" the id of call 1", " blocks"] * 2
    assert by_case["c"] == [f"{form}: ids_made_of: 1 ids for 2 calls" for form in ("bytes", "dict")]


def test_a_case_sets_status_transport_error_limits_and_complete(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    failure = {"error": "provider_error"}
    write(folder / "status.json", [{"oops": "Slow down"}], failure, status=429, inputs=["bytes"])
    lost = {"text": "Good ", "error": "transport_error"}
    write(folder / "lost.json", HELLO[:2], lost, transport_error="reset")
    write(folder / "long.json", HELLO, {"text": "Good mörning.", "error": "limit_exceeded"}, limits={"text": 540})
    times = [{"$times": 3, "$chunk": {"say": "a"}}]
    write(folder / "times.json", times, {"text": "aaa", "finish": ["stop", None]}, complete=True)
    assert not check_provider(third_party_provider.PROVIDER, folder).failed


# ---------------------------------------------------------------- providers with errors


def with_parser(parse: type[third_party_provider.Parser]) -> third_party_provider.Acme:
    provider = third_party_provider.Acme()
    provider.parse = parse  # type: ignore[method-assign]
    return provider


def test_differences_from_the_expectation_are_listed_by_case(cases: Path) -> None:
    class SkipsText(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            if "say" not in data:
                super().chunk(data)

    by_case = differences(with_parser(SkipsText), cases)
    assert by_case["text"] == [f'{form}: text: expected "Good mörning.", got nothing' for form in ("bytes", "dict")]
    assert set(by_case) == {"text", "error", "unknown"}


def test_a_parser_that_raises_is_a_difference(cases: Path) -> None:
    class Raises(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            if "new" in data:
                raise KeyError("new")
            super().chunk(data)

    by_case = differences(with_parser(Raises), cases)
    assert set(by_case) == {"unknown"}
    assert [line.split(" (")[0] for line in by_case["unknown"]] == [
        f"{form}: raised KeyError: 'new'" for form in ("bytes", "dict")
    ]


def test_a_result_that_depends_on_the_split_is_a_difference(cases: Path) -> None:
    turns: list[Any] = []

    class Remembers(third_party_provider.Parser):  # state that outlives a turn
        def __init__(self, sink: Any) -> None:
            super().__init__(sink)
            turns.append(sink)

        def chunk(self, data: dict[str, Any]) -> None:
            super().chunk({**data, "bye": "full"} if "bye" in data and len(turns) == 3 else data)

    lines = check_case(with_parser(Remembers), cases / "text.json")
    assert lines == [
        'bytes, split 2: the result differs from bytes unsplit: turn.finish.reason: "stop", then "length"',
        'bytes, split 2: the result differs from bytes unsplit: turn.finish.raw: "done", then "full"',
        'bytes, split 2: the result differs from bytes unsplit: turn.choices[0].finish: "stop", then "length"',
        "bytes, split 2: the result differs from bytes unsplit: and more",
    ]


def test_a_result_that_depends_on_the_input_form_is_a_difference(cases: Path) -> None:
    class ChangesBytes(third_party_provider.Parser):
        def frame(self, name: bytes, data: bytes) -> None:
            super().frame(name, data.replace(b"Good", b"Well"))

    lines = check_case(with_parser(ChangesBytes), cases / "text.json")
    assert lines[0] == 'bytes: text: expected "Good mörning.", got "Well mörning."'
    assert lines[1] == 'dict: the turn differs from bytes: text: "Well mörning.", then "Good mörning."'


def test_a_parser_that_changes_the_dicts_is_a_difference(cases: Path) -> None:
    class ChangesDicts(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            super().chunk(dict(data))
            data.pop("cost", None)

    assert check_case(with_parser(ChangesDicts), cases / "text.json") == [
        "dict: the parser changes the dicts that were fed"
    ]


# ---------------------------------------------------------------- damaged cases


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"shown": "x"}, "unknown field 'shown': the fields are about, source, invented, inputs"),
        ({"about": 1}, "about must not be of type int"),
        ({"chunks": {}}, "chunks must not be of type dict"),
        ({"inputs": ["byte"]}, "inputs: 'byte' is not one of bytes, array, lines, dict"),
        ({"inputs": ["lines"]}, "this wire has none of the input forms of the case"),
        ({"body": {}}, "body excludes chunks and a file with the bytes"),
        ({"options": {"no_such": 1}}, "raised TypeError"),
    ],
)
def test_a_case_with_a_wrong_field_fails(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "odd.json", *GOOD["text"])
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    assert problem in check_case(third_party_provider.PROVIDER, path)[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the case cannot be read: JSONDecodeError: "),
        ("{", "the case cannot be read: JSONDecodeError: "),
        ("[]", "the case cannot be read: ValueError: odd.json must contain a JSON object with the fields of a case"),
    ],
)
def test_a_file_that_is_no_case_fails(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    assert check_case(third_party_provider.PROVIDER, path)[0].startswith(problem)


def test_a_case_has_a_sentence_and_a_source(tmp_path: Path) -> None:
    path = write(tmp_path / "bare.json", *GOOD["text"], about="too short", source="")
    assert check_case(third_party_provider.PROVIDER, path) == [
        "about must be one sentence on what the case shows, of four words or more",
        "source is missing: give the evidence for the case, such as a URL",
    ]


def test_a_case_has_one_input(tmp_path: Path) -> None:
    path = write(tmp_path / "empty.json", None, {})
    assert check_case(third_party_provider.PROVIDER, path) == [
        "the input is missing: add chunks, body, or a file with the bytes (empty.*)"
    ]
    path.with_suffix(".a").touch()
    path.with_suffix(".b").touch()
    assert check_case(third_party_provider.PROVIDER, path) == ["more than one file has the bytes: empty.a, empty.b"]


def test_a_case_without_an_expectation_fails_and_reports_the_turn(tmp_path: Path) -> None:
    path = write(tmp_path / "new.json", HELLO, None)
    of_bytes, of_dict = check_case(third_party_provider.PROVIDER, path)
    turn = of_bytes.removeprefix("bytes: expected is missing; the turn was ")
    assert json.loads(turn) == GOOD["text"][1]
    assert of_dict.endswith(turn)


def test_bytes_without_a_case_file_fail(cases: Path) -> None:
    (cases / "forgotten.ndjson").touch()
    assert differences(third_party_provider.PROVIDER, cases) == {
        "forgotten.ndjson": ["there is no case file forgotten.json"]
    }


def test_a_folder_without_a_case_fails(tmp_path: Path) -> None:
    for empty in (tmp_path / "nowhere", tmp_path):
        assert list(differences(third_party_provider.PROVIDER, empty)) == ["(all)"]


# ---------------------------------------------------------------- splits, framings, environment


@pytest.mark.parametrize("size", [0, 1, 7, 3000])
def test_every_split_has_the_same_bytes(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    splits = list(every_cut(data))
    assert all(b"".join(parts) == data for parts in splits)
    assert splits[0] == [data]
    assert len(splits[1]) == size
    assert splits == list(every_cut(data))
    if size == 3000:
        assert len({len(parts) for parts in splits}) == len(splits) == 5
        assert list(every_cut(data, seed=2))[2:] != splits[2:]


def test_large_streams_are_not_split_into_single_bytes() -> None:
    assert max(len(parts) for parts in every_cut(bytes(70_000))) < 35_000


def test_the_kit_depends_on_no_test_runner_and_no_server(cases: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('pytest', 'starlette', 'uvicorn'): sys.modules[name] = None\n"
        "from streamkit.testing import check_provider\n"
        "import third_party_provider\n"
        "print(check_provider(third_party_provider.PROVIDER, sys.argv[1]))\n"
    )
    tests = Path(third_party_provider.__file__).parent
    ran = subprocess.run(
        [sys.executable, "-c", code, str(cases)],
        cwd=tests,
        env={"PYTHONPATH": str(tests.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "acme: 0 of 5 cases differ\n", ran.stderr


@pytest.mark.usefixtures("registry")
def test_the_embedded_server_serves_a_third_partys_wire() -> None:
    import httpx

    with serve([Reply("Hello.")]) as server:
        url = server.base_url(third_party_provider.PROVIDER) + "/chat/completions"
        body = httpx.post(url, json={"stream": True, "model": "m"}).content
    turn = streamkit.Turn(third_party_provider.PROVIDER)
    turn.feed(body)
    turn.close()
    assert turn.text == "Hello."
