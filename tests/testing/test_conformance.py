"""A third party's provider, known by ``register`` or by entry point, is held against its cases as ours are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import third_party_provider

import streamkit
from streamkit import UnknownProvider, providers
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
    "cut": (
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


def write(folder: Path, chunks: Any, expected: Any, about: str = "") -> Path:
    folder.mkdir(parents=True)
    if chunks is not None:
        (folder / "chunks.json").write_text(json.dumps(chunks))
    if expected is not None:
        (folder / "expected.json").write_text(json.dumps(expected))
    (folder / "case.toml").write_text(f'shows = "what this one shows of it"\nsource = "rule: its own"\n{about}')
    return folder


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    for name, (chunks, expected) in GOOD.items():
        write(tmp_path / "acme" / name, chunks, expected)
    return tmp_path / "acme"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
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


# ---------------------------------------------------------------- a provider that is as it should be


@pytest.mark.usefixtures("registry")
def test_a_registered_provider_is_held_against_its_cases(cases: Path) -> None:
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


def test_a_provider_may_be_an_object(cases: Path) -> None:
    assert not check_provider(third_party_provider.Acme(), str(cases)).failed


def test_one_case_can_be_checked_alone(cases: Path) -> None:
    assert [case.name for case in cases_in(cases)] == sorted(GOOD)
    assert check_case(third_party_provider.PROVIDER, cases / "text") == []


def test_a_case_may_be_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path / "acme" / "bytes", None, {"text": "Hi", "finish": ["stop", "done"]})
    (folder / "stream.ndjson").write_bytes(b'{"say": "Hi"}\r\n\r\n{"bye": "done"}')
    assert check_case(third_party_provider.PROVIDER, folder) == []


def test_bytes_and_chunks_of_one_case_are_held_against_each_other(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "acme" / "both", [{"say": "Hi"}, {"bye": "done"}], {"text": "Hi", "finish": ["stop", "done"]}
    )
    (folder / "stream.ndjson").write_bytes(b'{"say": "Hi"}\n{"bye": "done"}\n')
    assert check_case(third_party_provider.PROVIDER, folder) == []
    (folder / "stream.ndjson").write_bytes(b'{"say": "Ho"}\n{"bye": "done"}\n')
    found = check_case(third_party_provider.PROVIDER, folder)
    assert found[0] == 'by bytes: text: expected "Hi", got "Ho"'
    assert 'by dict: the turn is another than by bytes: text: "Ho", then "Hi"' in found


def test_blocks_and_what_ids_are_made_of_are_expected_too(tmp_path: Path) -> None:
    write(
        tmp_path / "acme" / "a",
        CALLS,
        {**GOOD["calls"][1], "blocks": ["tool_call", "tool_call"], "ids_made_of": ["a", "b"]},
    )
    assert not check_provider(third_party_provider.PROVIDER, tmp_path / "acme").failed
    write(tmp_path / "acme" / "b", CALLS, {**GOOD["calls"][1], "blocks": ["text"], "ids_made_of": ["a", "x"]})
    write(tmp_path / "acme" / "c", CALLS, {**GOOD["calls"][1], "ids_made_of": ["a"]})
    found = differences(third_party_provider.PROVIDER, tmp_path / "acme")
    assert [difference.split(":")[1] for difference in found["b"]] == [" the id of call 1", " blocks"] * 2
    assert found["c"] == [f"by {door}: ids_made_of: 1 ids for 2 calls" for door in ("bytes", "dict")]


def test_status_transport_and_limits_are_the_cases(tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    write(folder / "status", [{"oops": "Slow down"}], {"error": "provider_error"}, 'status = 429\ndoor = ["bytes"]')
    write(folder / "lost", HELLO[:2], {"text": "Good ", "error": "transport_error"}, 'error = "reset"')
    write(folder / "long", HELLO, {"text": "Good mörning.", "error": "limit_exceeded"}, "[limits]\ntext = 6")
    write(
        folder / "times",
        [{"$times": 3, "$chunk": {"say": "a"}}],
        {"text": "aaa", "finish": ["stop", None]},
        "complete = true",
    )
    assert not check_provider(third_party_provider.PROVIDER, folder).failed


# ---------------------------------------------------------------- providers with faults


def with_parser(parse: type[third_party_provider.Parser]) -> third_party_provider.Acme:
    provider = third_party_provider.Acme()
    provider.parse = parse  # type: ignore[method-assign]
    return provider


def test_what_was_expected_and_came_otherwise_is_listed_by_case(cases: Path) -> None:
    class Deaf(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            if "say" not in data:
                super().chunk(data)

    found = differences(with_parser(Deaf), cases)
    assert found["text"] == [f'by {door}: text: expected "Good mörning.", got nothing' for door in ("bytes", "dict")]
    assert set(found) == {"text", "error", "unknown"}


def test_a_parser_that_raises_is_a_difference(cases: Path) -> None:
    class Strict(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            if "new" in data:
                raise KeyError("new")
            super().chunk(data)

    found = differences(with_parser(Strict), cases)
    assert set(found) == {"unknown"}
    assert [line.split(" (")[0] for line in found["unknown"]] == [
        f"by {door}: raised KeyError: 'new'" for door in ("bytes", "dict")
    ]


def test_a_result_that_another_cut_changes_is_a_difference(cases: Path) -> None:
    turns: list[Any] = []

    class Remembers(third_party_provider.Parser):  # what one turn left behind
        def __init__(self, sink: Any) -> None:
            super().__init__(sink)
            turns.append(sink)

        def chunk(self, data: dict[str, Any]) -> None:
            super().chunk({**data, "bye": "full"} if "bye" in data and len(turns) == 3 else data)

    found = check_case(with_parser(Remembers), cases / "text")
    assert found == [
        'by bytes, cut 2: the result is another than whole: turn.finish.reason: "stop", then "length"',
        'by bytes, cut 2: the result is another than whole: turn.finish.raw: "done", then "full"',
        'by bytes, cut 2: the result is another than whole: turn.choices[0].finish: "stop", then "length"',
        "by bytes, cut 2: the result is another than whole: and more",
    ]


def test_a_door_that_gives_another_turn_is_a_difference(cases: Path) -> None:
    class Halves(third_party_provider.Parser):
        def frame(self, name: bytes, data: bytes) -> None:
            super().frame(name, data.replace(b"Good", b"Well"))

    found = check_case(with_parser(Halves), cases / "text")
    assert found[0] == 'by bytes: text: expected "Good mörning.", got "Well mörning."'
    assert found[1] == 'by dict: the turn is another than by bytes: text: "Well mörning.", then "Good mörning."'


def test_a_parser_that_changes_the_dicts_is_a_difference(cases: Path) -> None:
    class Eats(third_party_provider.Parser):
        def chunk(self, data: dict[str, Any]) -> None:
            super().chunk(dict(data))
            data.pop("cost", None)

    assert check_case(with_parser(Eats), cases / "text") == ["by dict: reading changes the dicts that were fed"]


# ---------------------------------------------------------------- cases with faults


@pytest.mark.parametrize(
    ("about", "fault"),
    [
        ("shows = 1", "the case cannot be read"),
        ("shown = 'x'", "case.toml has a field that means nothing: shown"),
        ("door = ['byte']", "door is of bytes, array, lines, dict, not 'byte'"),
        ("door = ['lines']", "it goes through no door that this wire has"),
        ("options = { no_such = 1 }", "raised TypeError"),
    ],
)
def test_a_case_that_says_nonsense_fails(tmp_path: Path, about: str, fault: str) -> None:
    folder = write(tmp_path / "acme" / "odd", *GOOD["text"], about)
    assert fault in check_case(third_party_provider.PROVIDER, folder)[0]


def test_a_case_says_what_it_shows_and_where_it_is_from(tmp_path: Path) -> None:
    folder = write(tmp_path / "acme" / "dumb", *GOOD["text"])
    (folder / "case.toml").write_text("invented = true")
    assert check_case(third_party_provider.PROVIDER, folder) == [
        "case.toml: shows is a sentence that says what the case shows",
        "case.toml: source says where this comes from",
    ]


def test_a_case_has_a_stream(tmp_path: Path) -> None:
    folder = write(tmp_path / "acme" / "empty", None, {})
    assert check_case(third_party_provider.PROVIDER, folder) == ["a case has chunks.json, or one stream.*, or both"]


def test_without_an_expectation_the_case_fails_and_shows_the_turn(tmp_path: Path) -> None:
    folder = write(tmp_path / "acme" / "new", HELLO, None)
    by_bytes, by_dict = check_case(third_party_provider.PROVIDER, folder)
    shown = by_bytes.removeprefix("by bytes: there is no expected.json; the turn was ")
    assert json.loads(shown) == GOOD["text"][1]
    assert by_dict.endswith(shown)


def test_a_folder_without_a_case_in_it_fails(cases: Path, tmp_path: Path) -> None:
    (cases / "forgotten").mkdir()
    assert differences(third_party_provider.PROVIDER, cases) == {"forgotten": ["there is no case.toml"]}
    for empty in (tmp_path / "nowhere", tmp_path / "empty"):
        assert list(differences(third_party_provider.PROVIDER, empty)) == ["(all)"]
        (tmp_path / "empty").mkdir(exist_ok=True)


# ---------------------------------------------------------------- cuts, and where it runs


@pytest.mark.parametrize("size", [0, 1, 7, 3000])
def test_every_cut_is_the_same_bytes(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    ways = list(every_cut(data))
    assert all(b"".join(pieces) == data for pieces in ways)
    assert ways[0] == [data]
    assert len(ways[1]) == size
    assert ways == list(every_cut(data))
    if size == 3000:
        assert len({len(pieces) for pieces in ways}) == len(ways) == 5
        assert list(every_cut(data, seed=2))[2:] != ways[2:]


def test_large_streams_are_not_cut_into_single_bytes() -> None:
    assert max(len(pieces) for pieces in every_cut(bytes(70_000))) < 35_000


def test_the_kit_needs_no_test_runner_and_no_server(cases: Path) -> None:
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
def test_the_embedded_server_speaks_a_third_partys_wire() -> None:
    import httpx

    with serve([Reply("Hello.")]) as server:
        url = server.base_url(third_party_provider.PROVIDER) + "/chat/completions"
        body = httpx.post(url, json={"stream": True, "model": "m"}).content
    turn = streamkit.Turn(third_party_provider.PROVIDER)
    turn.feed(body)
    turn.close()
    assert turn.text == "Hello."
