"""Recordings as turns of a script: their bytes on their own wire, the same turn on every other one."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from smallest_requests import smallest_request

from streamkit import Content, Turn, providers
from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.writing.content_events import write_content
from streamkit.testing import Recorded, Reply, Server, serve

WIRES = ["anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "gemini", "ollama", "openai_chat"]
WIRES += ["openai_responses"]
CONTENT = Content(
    speaker="ai",
    blocks=[
        ReasoningBlock(text="Hm."),
        TextBlock(text="Let me look."),
        ToolCallBlock(id="call_1", name="get_weather", parameters={"city": "Oslo"}),
    ],
)


def write(folder: Path, name: str, *, stream: bool = True) -> Path:
    path = folder / "recording"
    writer = providers.writer(name, response_id="r1", model="m", stream=stream)
    frames = write_content(writer, CONTENT, finish=None, usage=Usage(12, 3), delta_size=16)
    path.write_bytes(b"".join(frames))
    return path


def ask(server: Server, name: str, *, stream: bool = True) -> httpx.Response:
    path = providers.get(name).traits.endpoint.path.format(model="m")
    if not stream:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        path = path.replace("/converse-stream", "/converse").replace("/invoke-with-response-stream", "/invoke")
    body = smallest_request(name)
    if "stream" in body or providers.get(name).traits.endpoint.streams_by_default:
        body["stream"] = stream
    if stream and providers.get(name).traits.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return httpx.post(server.base_url(name) + path, json=body)


def read(name: str, response: httpx.Response) -> tuple[object, ...]:
    turn = Turn(name)
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    assert turn.error is None
    assert turn.finish is not None
    calls = [(call.name, call.arguments) for call in turn.executable]
    return turn.text, calls, turn.finish.reason, turn.usage and turn.usage.output_tokens


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])
def test_a_recording_is_sent_unchanged_on_its_own_wire(tmp_path: Path, name: str, stream: bool) -> None:
    path = write(tmp_path, name, stream=stream)
    with serve([Recorded(path, provider=name)], strict=False) as server:
        response = ask(server, name, stream=stream)
    assert response.content == path.read_bytes()


@pytest.mark.parametrize("recorded", WIRES)
@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])
def test_a_recording_is_the_same_turn_on_every_wire(tmp_path: Path, recorded: str, name: str, stream: bool) -> None:
    with serve([Recorded(write(tmp_path, recorded), provider=recorded)], strict=False) as server:
        turn = read(name, ask(server, name, stream=stream))
    assert turn == ("Let me look.", [("get_weather", {"city": "Oslo"})], "tool_calls", 3)


def test_a_stream_is_sent_frame_by_frame(tmp_path: Path) -> None:
    recorded = Recorded(write(tmp_path, "anthropic"))
    frames = recorded.own_steps(providers.get("anthropic"), "sse")
    assert frames is not None
    assert len(frames) > 5
    assert all(frame.endswith(b"\n\n") for frame in frames)


def test_the_wire_of_a_recording_is_found(tmp_path: Path) -> None:
    with serve(Recorded(write(tmp_path, "anthropic"))) as server:
        assert read("openai_chat", ask(server, "openai_chat"))[0] == "Let me look."


def test_a_recorded_error_is_an_error_on_another_wire(tmp_path: Path) -> None:
    path = tmp_path / "error.sse"
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    path.write_text(f"event: error\ndata: {json.dumps(error)}\n\n")
    with serve([Recorded(path)] * 2) as server:
        stream, body = (ask(server, "openai_chat", stream=stream) for stream in (True, False))
    assert "Overloaded" in stream.text
    assert body.status_code >= 500
    assert body.json()["error"]["message"] == "Overloaded"


def test_a_file_of_no_known_wire_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Hello")
    with pytest.raises(UsageError, match="name its provider"):
        Recorded(path)
    with pytest.raises(FileNotFoundError):
        Recorded(tmp_path / "absent")


# ---------------------------------------------------------------- speed


def test_a_reply_has_deltas_of_its_own_size() -> None:
    with serve([Reply("abcdef", delta_size=2), Reply("abcdef")], delta_size=3) as server:
        texts = [ask(server, "openai_chat").text for _ in range(2)]
    assert '"ab"' in texts[0]
    assert '"abc"' in texts[1]


def test_a_reply_has_a_delay_of_its_own() -> None:
    """The server would pause for an hour between two chunks."""
    with serve([Reply("abcdef", delay=0)], delay=3600) as server:
        assert ask(server, "openai_chat").status_code == 200


@pytest.mark.parametrize("options", [{"delay": -1}, {"delay": float("inf")}, {"delta_size": 0}])
def test_a_speed_out_of_range_is_a_mistake(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"delay must be|delta_size must be"):
        Reply("Hi.", **options)  # type: ignore[arg-type]
