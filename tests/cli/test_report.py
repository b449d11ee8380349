"""The command ``streamkit report``: a page of captures and of what ``--record`` wrote."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from shared_data import recorded_streams

from streamkit import Turn, providers
from streamkit.cli import main
from streamkit.gateway.tap import ExchangeFolder, ExchangeList, ExchangeObserver
from streamkit.gateway.tap.observed_exchange import ExchangeStart, ObservedExchange
from streamkit.gateway.tap.relay import Relay
from streamkit.history import Content, ToolCallBlock

Json = dict[str, Any]

SECRET = "a-key-without-a-known-form"  # noqa: S105 - of no server
STREAM = b"".join(providers.get("anthropic").emit(Content.ai("Hello."), response_id="r1", model="m"))


def exchanges(page: Path) -> list[Json]:
    text = page.read_text(encoding="utf-8")
    data = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    found: list[Json] = json.loads(data)["exchanges"]
    return found


def record(folder: Path, *bodies: bytes, status: int = 200, kind: str = "text/event-stream", **end: Any) -> None:
    """Write exchanges as ``--record`` does."""
    times = iter(range(1_800_000_000, 1_900_000_000))
    relay = Relay(ExchangeFolder(folder))
    observer = ExchangeObserver(relay, secrets=[SECRET], clock=lambda: float(next(times)))
    for body in bodies:
        request = {"model": "up", "messages": [{"role": "user", "content": f"hi {SECRET}"}]}
        copy = observer.begin(
            method="POST", path="/v1/responses", client="openai_responses", provider="anthropic", model="gpt-5",
            upstream_model="claude-x", address="http://upstream", request=request,
        )  # fmt: skip
        copy.respond(status, {"content-type": kind, "x-request-id": "req_1", "set-cookie": SECRET})
        for at in range(0, len(body), 100):
            copy.write(body[at : at + 100])
        copy.end(**{"status": status, "changes": ["left out: top_k"], **end})
    relay.close()


def test_captures_become_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        next(iter(recorded_streams(provider))) for provider in ("anthropic", "gemini", "ollama", "bedrock_converse")
    ]
    page = tmp_path / "page.html"
    assert main(["report", *(str(file.path) for file in files), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: 4 responses\n"
    shown = exchanges(page)
    assert [exchange["summary"]["provider"] for exchange in shown] == [file.provider for file in files]
    assert [exchange["summary"]["path"] for exchange in shown] == [file.path.name for file in files]
    assert all(exchange["rows"] for exchange in shown)


def test_the_page_has_a_usual_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("turn.sse").write_bytes(STREAM)
    assert main(["report", "turn.sse", "--provider", "anthropic"]) == 0
    (exchange,) = exchanges(Path("report.html"))
    assert exchange["summary"]["finish"]["reason"] == "stop"
    assert main(["report", "turn.sse", "--provider", "gemini"]) == 2


def first_duration(folder: Path) -> float:
    facts = sorted((folder / "rec").glob("*.exchange.json"))[0]
    return float(json.loads(facts.read_text())["seconds"])


def test_what_was_recorded_is_shown_with_its_request_and_its_facts(tmp_path: Path) -> None:
    record(tmp_path / "rec", STREAM, STREAM)
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "rec"), "-o", str(page)]) == 0
    first, second = exchanges(page)
    summary = first["summary"]
    assert (summary["client"], summary["provider"], summary["path"]) == (
        "openai_responses",
        "anthropic",
        "/v1/responses",
    )
    assert (summary["model"], summary["upstream_model"], summary["status"]) == ("gpt-5", "claude-x", 200)
    assert summary["changes"] == ["left out: top_k"]
    assert (summary["seconds"], summary["first_byte"]) == (first_duration(tmp_path), 2.0)
    assert summary["at"] < second["summary"]["at"]
    assert json.loads(first["request"])["messages"][0]["content"] == "hi ***"
    assert SECRET not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("provider", ["anthropic", "bedrock_converse"])
def test_what_was_recorded_has_its_times(provider: str, tmp_path: Path) -> None:
    """Those of the parts in which it came; Amazon's binary frames are recorded as text, a key masked."""
    folder, page = tmp_path / "rec", tmp_path / "page.html"
    exchange_list = ExchangeList()
    relays = [Relay(ExchangeFolder(folder)), Relay(exchange_list)]
    times = iter(range(1_800_000_000, 1_900_000_000))
    observer = ExchangeObserver(*relays, secrets=[SECRET], clock=lambda: float(next(times)))
    copy = observer.begin(method="POST", path="/p", provider=provider, request={})
    content = Content.ai(f"Hello, {SECRET}. " * 3, ToolCallBlock(id="c", name="f", parameters={"a": "b" * 200}))
    body = b"".join(providers.get(provider).emit(content, response_id="r1", model="m"))
    copy.respond(200, {"content-type": "text/event-stream"})
    for at in range(0, len(body), 50):
        copy.write(body[at : at + 50])
    copy.end(status=200)
    for relay in relays:
        relay.close()
    assert main(["report", str(folder), "-o", str(page)]) == 0
    live = json.loads(exchange_list.detail(1) or b"")
    (shown,) = exchanges(page)
    events = [[(row["at"], event) for row in each["rows"] for event in row["events"]] for each in (live, shown)]
    assert [event["line"] for _, event in events[0]] == [event["line"] for _, event in events[1]]
    assert [at for at, _ in events[0]] == [at for at, _ in events[1]]
    kinds = [(span["kind"], span["start"], span["end"]) for span in live["summary"]["timeline"]]
    assert len(kinds) == 3
    assert kinds[1:] == [(span["kind"], span["start"], span["end"]) for span in shown["summary"]["timeline"]][1:]


def test_times_of_a_recording_may_be_anything(tmp_path: Path) -> None:
    record(tmp_path, STREAM)
    (file,) = tmp_path.glob("*.exchange.json")
    page = tmp_path / "page.html"
    for times in ([[0, 1.0]], [[10**9, 1.0]], [[3, 2.0], [1, 9.0]], []):
        facts = json.loads(file.read_text()) | {"times": times}
        file.write_text(json.dumps(facts))
        assert main(["report", str(file), "-o", str(page)]) == 0
        (exchange,) = exchanges(page)
        assert exchange["summary"]["finish"]["reason"] == "stop"
        assert (exchange["rows"][0]["at"] is None) == (not times)


@pytest.mark.parametrize("suffix", [".response.sse", ".exchange.json"])
def test_one_file_of_a_recording_is_all_of_it(suffix: str, tmp_path: Path) -> None:
    record(tmp_path / "rec", STREAM)
    (file,) = (tmp_path / "rec").glob(f"*{suffix}")
    page = tmp_path / "page.html"
    assert main(["report", str(file), "-o", str(page)]) == 0
    (exchange,) = exchanges(page)
    assert exchange["summary"]["client"] == "openai_responses"
    assert exchange["rows"]


def test_the_files_of_a_recording(tmp_path: Path) -> None:
    record(tmp_path, STREAM)
    names = sorted(path.name for path in tmp_path.iterdir())
    base = "20270115T080000.000000Z-00001"
    assert names == [f"{base}.exchange.json", f"{base}.request.json", f"{base}.response.sse"]
    assert (tmp_path / f"{base}.response.sse").read_bytes() == STREAM
    facts = json.loads((tmp_path / f"{base}.exchange.json").read_text())
    assert facts["headers"] == {"content-type": "text/event-stream", "x-request-id": "req_1"}
    assert (facts["upstream_status"], facts["status"], facts["changes"]) == (200, 200, ["left out: top_k"])
    assert SECRET not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_an_error_is_recorded_with_its_key_masked(tmp_path: Path) -> None:
    body = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": f"not {SECRET}"}}).encode()
    record(tmp_path, body, status=401, kind="application/json", error=f"auth: {SECRET}")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "-o", str(page)]) == 0
    (exchange,) = exchanges(page)
    assert (exchange["summary"]["state"], exchange["summary"]["error"]["message"]) == ("failed", "not ***")
    assert SECRET not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_facts_name_no_file_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside.txt").write_bytes(STREAM)
    folder = tmp_path / "rec"
    folder.mkdir()
    (folder / "x.exchange.json").write_text('{"response": "../outside.txt", "provider": "anthropic"}')
    assert main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
@pytest.mark.parametrize("name", ["x.response.sse", "x.request.json", "plain.sse"])
def test_a_link_to_a_file_elsewhere_is_no_part_of_a_recording(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report, which is passed on, had the file of the reader."""
    (tmp_path / "outside.txt").write_bytes(STREAM)
    folder = tmp_path / "rec"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "outside.txt")
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(page)]) == 2
    if not name.startswith("plain"):
        facts = {name.split(".")[1]: name, "provider": "anthropic"}
        (folder / "x.exchange.json").write_text(json.dumps(facts))
        assert main(["report", str(folder), "-o", str(page)]) == 2
        assert f"{name} is a link to another file, which is not followed" in capsys.readouterr().err
    assert not page.exists()


@pytest.mark.parametrize(
    "fact",
    [
        {"time": "yesterday"},
        {"time": "0001-01-01T00:00:00"},
        {"response": ""},
        {"response": "."},
        {"response": "a\0b"},
        {"request": "/"},
        {"response": 1},
        {"provider": "nobody"},
        {"provider": []},
        {"headers": []},
        {"headers": {"content-type": 1}},
        {"upstream_status": "200"},
        {"status": True},
        {"notes": {"a": 1}},
        {"notes": [1]},
        {"changes": "text"},
        {"missing_parts": "1"},
        {"seconds": []},
        {"seconds_to_headers": "x"},
        {"error": {"message": "x"}},
        {"path": 5},
        {"disconnected": "yes"},
        {"model": {}},
    ],
)
def test_facts_of_another_form_are_named_and_the_others_are_shown(
    fact: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recordings come from others too, such as with a bug report."""
    folder, page = tmp_path / "rec", tmp_path / "page.html"
    record(folder, STREAM, STREAM)
    first = min(folder.glob("*.exchange.json"))
    first.write_text(json.dumps({**json.loads(first.read_text()), **fact}))
    assert main(["report", str(folder), "-o", str(page)]) == 2
    error = capsys.readouterr().err
    assert f"{first.name} is not the facts of an exchange: " in error
    assert next(iter(fact)) in error.partition("exchange: ")[2]
    assert len(exchanges(page)) == 1
    assert main(["inspect", str(first)]) == 2


def test_the_page_of_before_is_no_recording_and_none_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    capture = tmp_path / "good.sse"
    capture.write_bytes(STREAM)
    assert [main(["report", "."]) for _ in range(2)] == [0, 0]
    assert len(exchanges(tmp_path / "report.html")) == 1
    for given in (".", "good.sse"):
        assert main(["report", given, "-o", "good.sse"]) == 2
        assert "good.sse is one of the recordings: give -o another file" in capsys.readouterr().err
    assert main(["report", "report.html"]) == 2
    assert capture.read_bytes() == STREAM


def test_bytes_of_a_header_that_are_no_text_are_recorded(tmp_path: Path) -> None:
    relay = Relay(ExchangeFolder(tmp_path), report=pytest.fail)
    copy = ExchangeObserver(relay).begin(method="POST", path="/p", provider="anthropic")
    copy.respond(200, {"x-request-id": "caf\udce9"})  # as aiohttp has them
    copy.end(status=200)
    relay.close()
    (facts,) = tmp_path.glob("*.exchange.json")
    assert json.loads(facts.read_bytes())["headers"] == {"x-request-id": "caf\ufffd"}


def test_files_that_are_no_streams_are_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.sse").write_bytes(STREAM)
    (tmp_path / "bad.sse").write_bytes(b"\x1b[31mhello")
    (tmp_path / "bad.exchange.json").write_bytes(b"[]")
    page = tmp_path / "out" / "page.html"
    page.parent.mkdir()
    names = [str(tmp_path / name) for name in ("good.sse", "bad.sse", "bad.exchange.json", "nothing")]
    assert main(["report", *names, "-o", str(page)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(exchanges(page)) == 1
    assert [
        "not a stream" in errors[0],
        "Expected `object`, got `array`" in errors[1],
        "cannot be read" in errors[2],
    ] == [True] * 3
    assert "\x1b" not in "".join(errors)
    assert main(["report", str(tmp_path / "bad.sse"), "-o", str(page)]) == 2
    assert "nothing to report" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "good.sse"), "-o", str(tmp_path)]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "ollama", "openai_chat", "openai_responses", "cohere"])
def test_a_call_has_one_id_wherever_its_recording_is_read(
    provider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = next(
        each for each in recorded_streams(provider) if "call" in each.path.name and "trunc" not in each.path.name
    )
    turn = Turn(provider)
    turn.feed(stream.data)
    turn.close()
    ids = {call.id for call in turn.calls}
    assert ids
    page = tmp_path / "page.html"
    assert main(["report", "--provider", provider, *[str(stream.path)] * 2, "-o", str(page)]) == 0
    capsys.readouterr()
    for exchange in exchanges(page):
        assert set(re.findall(r"hist_tool_[\w-]{24}", json.dumps(exchange))) == ids
    for command in (["inspect", "--provider", provider], ["normalize", "--provider", provider]):
        main([*command, str(stream.path)])
        shown = capsys.readouterr().out
        assert all(each in shown.replace("\n", "") for each in ids), shown[-2000:]
    copies = list[ObservedExchange]()
    for key in (1, 7):
        start = ExchangeStart(at=0.0, method="POST", path="/", provider=provider)
        copies.append(ObservedExchange(key, start))
        copies[-1].receive(None, stream.data)
    assert [{call.id for call in copy.turn.calls} for copy in copies if copy.turn is not None] == [ids, ids]
