"""A broken provider plugin breaks nothing else, and is named with its distribution and its error."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from third_party_provider import PROVIDER as ACME

import streamkit
from streamkit import Content, Turn, UsageError, cli, detect, providers
from streamkit.errors import UnknownProvider
from streamkit.providers import registry
from streamkit.providers.provider import Provider, Sink, Traits

CHAT = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'


class Distribution:
    """The metadata of an installed distribution."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = "1.2"


class EntryPoint:
    """An entry point whose object is what a function returns."""

    def __init__(self, name: str, load: Callable[[], Any], dist: Any = None) -> None:
        self.name = name
        self.value = f"{name}_plugin:PROVIDER"
        self.load = load
        self.dist = dist


class RaisingTraits:
    """An object whose traits raise."""

    name = "raising"

    @property
    def traits(self) -> Traits:
        raise RuntimeError("no traits today")


class TextlessError(Exception):
    """An exception that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raise(error: BaseException) -> Any:
    raise error


def _matches_head(head: bytes) -> bool:
    raise KeyError("head")


LATE = Provider(Traits(name="late", matches_head=_matches_head))
TAKEN = Provider(Traits(name="anthropic"))
BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "import_error": (lambda: _raise(ImportError("no module named acme_sdk")), "ImportError: no module named acme_sdk"),
    "exits": (lambda: _raise(SystemExit(3)), "SystemExit: 3"),
    "no_provider": (object, "UsageError: a provider must have Traits"),
    "no_methods": (lambda: type("Bare", (), {"traits": Traits(name="bare"), "name": "bare"})(), "a method parser"),
    "raising": (RaisingTraits, "RuntimeError: no traits today"),
    "second": (lambda: TAKEN, "a provider named 'anthropic' is registered already"),
    "textless": (lambda: _raise(TextlessError()), "TextlessError"),
}


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install broken plugins and a working one."""
    providers.names()  # the built-in ones are found before the registry is replaced by a copy
    points = [EntryPoint(name, load, Distribution(f"dist-{name}")) for name, (load, _) in BROKEN.items()]
    points += [EntryPoint("acme", lambda: ACME), EntryPoint("late", lambda: LATE, Distribution("dist-late"))]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_broken", {})
    monkeypatch.setattr(registry, "_origins", {})
    monkeypatch.setattr(registry, "_entry_points_loaded", False)


@pytest.mark.usefixtures("plugins")
def test_broken_plugins_break_nothing_else() -> None:
    assert detect(CHAT) == "openai_chat"
    assert detect(b'{"by": "m"}\n'.replace(b": ", b":")) == "acme"
    names = providers.names()
    assert {"acme", "anthropic", "late", "openai_chat"} <= set(names)
    assert not set(BROKEN) & set(names)
    assert providers.get("acme") is ACME
    assert providers.get("anthropic") is not TAKEN
    turn = Turn("openai_chat")
    turn.feed(CHAT)
    assert turn.text == "Hi"


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_named_with_its_distribution_and_error(name: str) -> None:
    with pytest.raises(UnknownProvider) as raised:
        providers.get(name)
    message = str(raised.value)
    for part in (repr(name), "cannot be loaded", BROKEN[name][1], f"dist-{name} 1.2", f"{name}_plugin:PROVIDER"):
        assert part in message
    assert name in providers.broken()
    with pytest.raises(UnknownProvider, match=r"provider 'nowhere'; known are: .*Plugins that cannot be loaded"):
        Turn("nowhere")


@pytest.mark.usefixtures("plugins")
def test_a_plugin_whose_detection_raises_is_listed_and_still_usable(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamkit"):
        assert [detect(CHAT), detect(CHAT)] == ["openai_chat"] * 2
    assert (
        providers.broken()["late"]
        == "KeyError: 'head' (the distribution dist-late 1.2, entry point late = late_plugin:PROVIDER)"
    )
    assert providers.get("late") is LATE
    logged = [record.getMessage() for record in caplog.records]
    assert len([message for message in logged if "'late'" in message]) == 1
    assert all(any(repr(name) in message for message in logged) for name in BROKEN)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("arguments", [["--help"], ["normalize", "--help"], ["chat", "--help"], ["convert", "--help"]])
def test_the_help_of_the_command_line_works(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 0
    assert "usage: streamkit" in capsys.readouterr().out


@pytest.mark.usefixtures("plugins")
def test_a_command_works_beside_broken_plugins(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "recording.sse"
    recording.write_bytes(CHAT + b"data: [DONE]\n\n")
    assert cli.main(["normalize", str(recording)]) == 0
    assert '"text":"Hi"' in capsys.readouterr().out
    assert cli.main(["normalize", "--provider", "import_error", str(recording)]) == 2
    assert "no module named acme_sdk" in capsys.readouterr().err


def test_register_refuses_what_is_no_provider() -> None:
    with pytest.raises(UsageError, match="Traits"):
        providers.register(object())  # type: ignore[arg-type]


# ---------------------------------------------------------------- a provider without some of the modules


class Bare:
    """A parser that reads texts."""

    def __init__(self, sink: Sink, traits: Traits) -> None:
        self.sink = sink

    def frame(self, name: bytes, data: bytes) -> None:
        self.chunk(json.loads(data))

    def chunk(self, data: dict[str, Any]) -> None:
        self.sink.identify("r", "m")
        self.sink.choice(0).text(data["text"])
        self.sink.choice(0).finish("stop", "stop")

    def end(self) -> None: ...


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Provider:
    package, parser = ModuleType("bare_provider"), ModuleType("bare_provider.parser")
    package.__path__ = []  # type: ignore[attr-defined]
    parser.create_parser = Bare  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bare_provider", package)
    monkeypatch.setitem(sys.modules, "bare_provider.parser", parser)
    return Provider(Traits(name="bare"), "bare_provider")


@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("messages", lambda provider: streamkit.render([Content.human("Hi")], provider)),
        ("messages", lambda provider: streamkit.render_request([Content.human("Hi")], provider)),
        ("messages", lambda provider: run_of(provider, thread=[{"role": "user"}]).run_sync()),
        ("importer", lambda provider: streamkit.parse_messages([{"role": "user"}], provider)),
        ("requests", lambda provider: streamkit.parse_request({"messages": []}, provider)),
        ("writer", lambda provider: streamkit.writer(provider)),
        ("writer", lambda provider: provider.error_body(500, "no")),
        ("writer", lambda provider: provider.error_event(500, "no")),
    ],
)
def test_a_module_that_a_provider_lacks_is_named(bare: Provider, module: str, use: Any) -> None:
    with pytest.raises(UsageError, match=rf"'bare_provider' has no module 'bare_provider\.{module}', which "):
        use(bare)


def run_of(provider: Provider, **options: Any) -> Any:
    return streamkit.run_loop(lambda context: [{"text": "Hi."}], provider=provider, **options)


def test_a_provider_that_only_parses_reads_streams(bare: Provider) -> None:
    assert run_of(bare, history=[Content.human("Hi")]).run_sync().text == "Hi."


def test_a_module_that_does_not_find_what_it_imports_raises_as_ever(
    bare: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "writer.py").write_text("import bare_provider_sdk\n")
    monkeypatch.setattr(sys.modules["bare_provider"], "__path__", [str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="bare_provider_sdk"):
        streamkit.writer(bare)
