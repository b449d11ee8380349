"""What streams carry beside text, reasoning and calls: audio, images, sources, server-run tools, log probabilities.

None of it is in most streams, so a parser makes a ``Beside`` only when the first of it comes. What it remembers is
what vendors repeat: the sources so far in every chunk, a server's tool when it starts and again when it is done.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.decoding import as_text, compact_json, read_json
from streamkit.providers.openai_chat.schema import Delta
from streamkit.providers.provider import ChoiceSink, Sink

__all__ = ["AUDIO", "ExtrasReader", "filters_of"]

#: The key of what a spoken answer says, and of its sound.
AUDIO = "audio"


class ExtrasReader:
    """Reads the rare parts of one stream."""

    __slots__ = ("_audio", "_sink", "_sources", "_sources_before", "_tools")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._audio: dict[ChoiceSink, dict[str, Any]] = {}
        self._sources: set[str] = set()  # those that were said
        self._sources_before: Any = None  # what the last chunk had: most repeat it
        self._tools: dict[tuple[ChoiceSink, str | None], dict[str, Any]] = {}

    def read(self, answer: ChoiceSink, delta: Delta) -> None:
        """What one delta says, beside what it says."""
        for annotation in _listed(delta.annotations):
            answer.citation(annotation)
        if isinstance(delta.context, dict):
            for source in _listed(delta.context.get("citations")):
                answer.citation(source)
        for image in _listed(delta.images):
            _read_image(answer, image)
        for tool in _listed(delta.executed_tools):
            self._read_tool(answer, tool)
        if delta.reasoning_steps:
            # Whether a chunk repeats the steps before it is not documented, so they are shown as they come.
            self._sink.unknown({"reasoning_steps": delta.reasoning_steps})
        if isinstance(delta.audio, dict):
            self._read_audio(answer, delta.audio)
        elif delta.audio is not None:
            self._sink.unknown({"audio": delta.audio})

    def _read_audio(self, answer: ChoiceSink, audio: dict[str, Any]) -> None:
        """A spoken answer: its transcript is the answer's text, its sound a file in pieces.

        It goes back as its id (https://platform.openai.com/docs/guides/audio), to everyone else as its text.
        """
        about = self._audio.get(answer, {})
        news = {name: audio[name] for name in ("id", "expires_at") if audio.get(name) is not None}
        transcript, data = audio.get("transcript"), audio.get("data")
        spoken = transcript if isinstance(transcript, str) else ""
        if spoken or ("id" in news and "id" not in about):
            answer.text(spoken, AUDIO)
        if spoken or news:
            self._audio[answer] = about = about | news
            answer.add_metadata({"audio": about}, AUDIO)
        if isinstance(data, str) and data:
            answer.file("audio/*", data, key=AUDIO)

    def _read_tool(self, answer: ChoiceSink, tool: Any) -> None:
        """A tool that Groq ran (https://console.groq.com/docs/compound): told apart by its index, it has no id."""
        if not isinstance(tool, dict):
            self._sink.unknown({"executed_tools": [tool]})
            return
        number = as_text(tool.get("index"))
        name = as_text(tool.get("type")) or as_text(tool.get("name")) or ""
        before = self._tools.get((answer, number), {})
        arguments = tool.get("arguments")
        result = {
            field: value
            for field, value in tool.items()
            if field not in ("index", "type", "name", "arguments") and value is not None
        }
        news: list[tuple[Any, Any]] = []
        if arguments not in (None, "") and arguments != before.get("arguments"):
            news.append(("arguments", _object(arguments)))
        if result and result != before.get("result"):
            news.append(("result", result))
        if not news and not before:
            news.append(("started", None))
        for place, (phase, data) in enumerate(news, 1 - len(news)):
            answer.server_tool(number, name, phase, data, raw=None if place else tool)
        self._tools[answer, number] = {"arguments": arguments, "result": result, "seen": True}

    def sources(self, answer: ChoiceSink, results: Any, addresses: Any) -> None:
        """The sources of a whole answer, each said once: Perplexity repeats all of them in every chunk."""
        if self._sources_before == (results, addresses):
            return
        self._sources_before = (results, addresses)
        for source in (*_listed(results), *_listed(addresses)):
            name = source if isinstance(source, str) else compact_json(source)
            if name not in self._sources:
                self._sources.add(name)
                if isinstance(source, dict) and isinstance(source.get("url"), str):
                    self._sources.add(source["url"])
                answer.citation(source)

    def logprobs(self, answer: ChoiceSink, index: int, logprobs: Any, *, spoke: bool) -> None:
        """Log probabilities: there is no word for them, so they are shown as they came and kept with their text."""
        named = logprobs if isinstance(logprobs, dict) else {"": logprobs}
        if not any(named.values()):
            return  # {"content": [], "refusal": null}
        self._sink.unknown({"index": index, "logprobs": logprobs})
        if spoke:
            entries = [*_listed(named.get("content")), *_listed(named.get("refusal"))]
            answer.add_metadata({"logprobs": entries or [logprobs]})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _object(text: Any) -> Any:
    """Arguments as what they say, where they are JSON."""
    try:
        return read_json(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text


def _read_image(answer: ChoiceSink, image: Any) -> None:
    """An image, by its address or as a data URL (https://openrouter.ai/docs/features/multimodal/image-generation)."""
    address = image.get("image_url") if isinstance(image, dict) else None
    url = address.get("url") if isinstance(address, dict) else None
    if not isinstance(url, str):
        answer.provider_block(image)
        return
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        answer.file(head[5:-7].partition(";")[0] or "image/*", data, raw=image)
    else:
        answer.file("image/*", url=url, raw=image)


def filters_of(chunk: Any) -> list[str]:
    """The content filters that stopped an answer, by Azure's ``content_filter_results``, with their severity."""
    found: list[str] = []
    for choice in _listed(chunk.get("choices")) if isinstance(chunk, dict) else ():
        results = choice.get("content_filter_results") if isinstance(choice, dict) else None
        for name, result in results.items() if isinstance(results, dict) else ():
            if isinstance(result, dict) and result.get("filtered") is True:
                severity = result.get("severity")
                found.append(f"{name} ({severity})" if isinstance(severity, str) else name)
    return found
