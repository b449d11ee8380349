"""``streamkit conformance``: a client in a process of its own reads every case, and each kind of mistake is caught.

The clients here are programs with a deliberate mistake, written without an SDK. The adapters of real clients are in
``tests/conformance/adapters``; ``tests/conformance/clients.py`` runs them.
"""

from __future__ import annotations

import json
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from shared_data import CONFORMANCE_CASES, TESTS

import streamkit
from streamkit.cli import conformance, main

#: A client that reads each stream by this library, so that all is right, and then spoils what it read.
CLIENT = """
import json, sys, urllib.request
from streamkit import Turn

def read(case):
    request = urllib.request.Request(case["base_url"] + "/any/path", b"{}")
    turn = Turn(case["provider"])
    try:
        with urllib.request.urlopen(request) as response:
            turn.response(response.status, response.headers)
            for part in response:
                turn.feed(part)
    except urllib.error.HTTPError as error:
        turn.response(error.code, error.headers)
        turn.feed(error.read())
    except Exception as error:
        turn.close(error)
    turn.close()
    calls = [{"id": c.raw_id, "name": c.name, "arguments": c.arguments} for c in turn.executable]
    error = None if turn.error is None else turn.error.message
    return {"calls": calls, "text": turn.text, "finish": turn.finish and turn.finish.raw, "error": error, "turn": turn}

for line in sys.stdin:
    case = json.loads(line)
    result = read(case)
    turn = result.pop("turn")
    SPOIL
    print("noise of a library")
    print(json.dumps({"case": case["case"], **result}), flush=True)
"""
#: The recorded streams are not in a wheel, so that they are named for a test of one.
FOLDERS = ["--cases", str(CONFORMANCE_CASES), "--cases", str(TESTS / "recorded")]
PARALLEL = "openai_chat/parallel-interleaved"
CUT = "openai_chat/no-end"


@pytest.fixture
def check(tmp_path, capsys):
    def run(spoil: str = "pass", *arguments: str) -> tuple[int, dict[str, list[str]], str]:
        client, report = tmp_path / "client.py", tmp_path / "report.json"
        client.write_text(CLIENT.replace("SPOIL", spoil))
        command = ["-o", str(report), "--", sys.executable, str(client)]
        code = main(["conformance", *arguments, *FOLDERS, *command])
        rows = json.loads(report.read_text())["cases"]
        kinds = {row["case"]: [mistake["kind"] for mistake in row["mistakes"]] for row in rows}
        return code, kinds, capsys.readouterr().out

    return run


def test_a_client_that_reads_by_the_rules_passes_every_case_of_every_provider(check):
    every = [argument for path in sorted(CONFORMANCE_CASES.iterdir()) for argument in ("--provider", path.name)]
    code, kinds, out = check("pass", *every)
    assert {case: found for case, found in kinds.items() if found} == {}
    assert code == 0
    assert len(kinds) > 560
    assert out.splitlines()[-1].split()[:3] == ["all", str(len(kinds)), str(len(kinds))]
    assert "anthropic/recorded-parallel-calls" in kinds


@pytest.mark.parametrize(
    ("spoil", "case", "kinds"),
    [
        ("result['calls'] = result['calls'][:1]", PARALLEL, ["lost"]),
        # by a key that two calls share: their fragments in one text, one after the other, or interleaved
        (
            "texts = [json.dumps(c['arguments']) for c in result['calls']]\n"
            "    result['calls'] = [{**result['calls'][0], 'arguments': ''.join(texts)}]",
            PARALLEL,
            ["merged"],
        ),
        (
            "a, b = (json.dumps(c['arguments']) for c in result['calls'])\n"
            "    result['calls'] = [{**result['calls'][0], 'arguments': a[:3] + b[:4] + a[3:] + b[4:]}]",
            PARALLEL,
            ["merged"],
        ),
        (
            "result['calls'] = [{'name': ''.join(c['name'] for c in result['calls']), 'arguments': ''}]",
            PARALLEL,
            ["merged"],
        ),
        ("result['calls'] = [*result['calls'], result['calls'][0]]", PARALLEL, ["doubled"]),
        ("result['calls'][0]['arguments'] = {'spoiled': 1}", PARALLEL, ["changed"]),
        ("result['calls'][0]['arguments'] = '{\"half'", PARALLEL, ["lost"]),
        ("result['calls'] += [{'name': 'unheard_of', 'arguments': {}}]", PARALLEL, ["invented"]),
        ("result['text'] += '!'", PARALLEL, ["text"]),
        ("result = {'error': 'KeyError'}", PARALLEL, ["failed"]),
        ("result['calls'] = ['get_weather']", PARALLEL, ["failed"]),
        (
            "result = {'calls': [{'name': c.name, 'arguments': c.arguments or {}} for c in turn.calls]}",
            CUT,
            ["cut"],
        ),
        ("result['error'] = None; result['finish'] = 'stop'", CUT, ["unnoticed"]),
    ],
)
def test_a_mistake_is_caught(check, spoil: str, case: str, kinds: list[str]):
    code, found, out = check(spoil, "--provider", "openai_chat", "--case", case)
    assert code == 1
    assert [kind for each in found.values() for kind in each] == kinds
    title = "run though cut" if kinds == ["cut"] else kinds[0]
    assert f": {title}: " in out


def test_a_client_that_ends_is_started_again_for_the_next_case(check):
    _, kinds, _ = check(
        "sys.exit(3) if 'finish-twice' in case['case'] else None", "--provider", "openai_chat", "--case", "*finish*"
    )
    assert {case: found for case, found in kinds.items() if found} == {"openai_chat/finish-twice": ["failed"]}
    assert len(kinds) > 3


def test_a_client_that_prints_nothing_has_failed(check):
    code, kinds, out = check(
        "__import__('time').sleep(600)", "--provider", "openai_chat", "--case", "text", "--timeout", "2"
    )
    assert (code, kinds) == (1, {"openai_chat/text": ["failed"]})
    assert "2 seconds" in out


def test_the_report_has_what_was_expected_and_read(check, tmp_path):
    check("result['calls'] = result['calls'][:1]", "--provider", "openai_chat", "--case", PARALLEL)
    report = json.loads((tmp_path / "report.json").read_text())
    (row,) = report["cases"]
    assert report["version"] == 1
    case = json.loads((CONFORMANCE_CASES / f"{PARALLEL}.json").read_text())
    assert (row["about"], row["source"], row["expected"]) == (case["about"], case["source"], case["expected"])
    assert row["quirks"] == ["parallel calls"]
    assert len(row["read"]["calls"]) == 1


def test_the_wire_of_a_provider_selects_all_that_have_it(check):
    _, kinds, _ = check("pass", "--wire", "openai_chat", "--case", "recorded-*")
    assert {"deepseek/recorded-call", "openrouter/recorded-parallel-calls"} <= kinds.keys()
    assert not any(case.startswith("anthropic/") for case in kinds)


def test_the_index_lists_cases_by_quirk(capsys):
    assert main(["conformance", "--list", "--provider", "openai_chat"]) == 0
    out = capsys.readouterr().out
    assert "parallel calls (" in out
    assert f"  {PARALLEL}: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--provider", "openai_chat"], "give the command of the client after --"),
        (["--", "x"], "--provider NAME"),
        (["--provider", "nobody", "--", "x"], "nobody"),
        (["--provider", "openai_chat", "--case", "none-such", "--", "x"], "no case is selected"),
        (["--provider", "openai_chat", "--timeout", "0", "--", "x"], "--timeout"),
        (["--provider", "openai_chat", "--cases", "/none", "--", "x"], "no case is selected"),
        (["--provider", "openai_chat", "--", "/none/such"], "/none/such cannot be started: No such file"),
        (["--provider", "openai_chat", "--", sys.executable, "-c", "import none_such"], "No module named 'none_such'"),
    ],
)
def test_what_cannot_run_is_refused(capsys, arguments: list[str], message: str):
    assert main(["conformance", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_every_case_has_the_form_of_the_schema():
    jsonschema = pytest.importorskip("jsonschema")
    schema: dict[str, Any] = json.loads((TESTS.parent / "docs" / "case.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    wrong = {
        str(path.relative_to(CONFORMANCE_CASES)): error.message
        for path in CONFORMANCE_CASES.rglob("*/*.json")
        for error in validator.iter_errors(json.loads(path.read_text("utf-8")))
    }
    assert wrong == {}
    assert list(validator.iter_errors({"about": "a case", "chunks": [], "expect": {}}))


def test_a_wheel_has_the_cases_where_the_command_looks_for_them(tmp_path, monkeypatch, capsys):
    script = TESTS.parent / "hatch_build.py"
    if not script.exists() or find_spec("hatchling") is None:
        pytest.skip("the wheel is built from a checkout, with hatchling")
    hook = runpy.run_path(str(script))["CaseArchive"](str(TESTS.parent), {}, None, None, str(tmp_path), "wheel")
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    ((archive, place),) = data["force_include"].items()
    package = Path(streamkit.__file__).parent
    assert place == str(conformance.ARCHIVE.relative_to(package.parent))

    monkeypatch.setattr(conformance, "ARCHIVE", Path(archive))
    monkeypatch.setattr(conformance, "FOLDERS", [])
    assert main(["conformance", "--list"]) == 0
    listed = capsys.readouterr().out
    hook.finalize("standard", data, "")
    assert not Path(archive).exists()
    assert main(["conformance", "--list", "--cases", str(CONFORMANCE_CASES)]) == 0
    assert capsys.readouterr().out == listed
    assert "parallel calls" in listed

    hook.initialize("editable", data := {"force_include": {}})
    hook.finalize("editable", data, "")
    assert data == {"force_include": {}}


def test_every_adapter_is_run_by_the_program_that_makes_the_report():
    program = (TESTS / "conformance" / "clients.py").read_text()
    adapters = {path.name for path in Path(TESTS / "conformance" / "adapters").iterdir() if path.is_file()}
    assert {name for name in adapters - {"cases.py"} if name not in program} == set()
