"""A third-party provider with its own wire, in one module.

The wire is lines of JSON: ``{"by": model, "ref": id}``, ``{"say": text}``, ``{"think": text}``, ``{"use": name,
"no": n, "as": id}``, ``{"more": text, "no": n}`` (a delta of the arguments), ``{"bye": why, "cost": [in, out]}``,
``{"oops": text}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.provider import Provider, RenderedMessages, Sink, Traits


class Parser:
    """The parser of the wire."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def frame(self, name: bytes, data: bytes) -> None:
        try:
            chunk = json.loads(data)
        except ValueError:
            self.sink.fail(StreamError("protocol_error", "a line is no JSON", raw=data.decode(errors="replace")))
            return
        if isinstance(chunk, dict):
            self.chunk(chunk)
        else:
            self.sink.unknown(chunk)

    def end(self) -> None:
        pass

    def chunk(self, data: dict[str, Any]) -> None:
        answer = self.sink.choice(0)
        match data:
            case {"by": str(model), "ref": str(ref)}:
                self.sink.identify(ref, model)
            case {"say": str(text)}:
                answer.text(text)
            case {"think": str(text)}:
                answer.reasoning(text)
            case {"use": str(name), "no": int(number)}:
                answer.tool(NormalizedToolChunk("start", id=data.get("as"), name=name, key=number))
            case {"more": str(text), "no": int(number)}:
                answer.tool(NormalizedToolChunk("delta", arguments_delta=text, key=number))
            case {"bye": str(why)}:
                if isinstance(cost := data.get("cost"), list) and len(cost) == 2:
                    self.sink.usage(Usage(input_tokens=cost[0], output_tokens=cost[1], raw=cost))
                answer.finish(why, {"full": "length", "tools": "tool_calls"}.get(why, "stop"))
            case {"oops": message}:
                self.sink.fail(StreamError("provider_error", str(message), data))
            case _:
                self.sink.unknown(data)


class Acme(Provider):
    """The provider."""

    parse = Parser

    def __init__(self) -> None:
        super().__init__(Traits(name="acme", framing="ndjson", matches_head=lambda head: head.startswith(b'{"by":')))

    def parser(self, sink: Sink) -> Parser:
        return self.parse(sink)

    def render(self, contents: Any, **_: Any) -> RenderedMessages:
        return RenderedMessages([{"from": content.speaker} for content in contents])

    def build_request(self, rendered: RenderedMessages, **_: Any) -> dict[str, Any]:
        return {"thread": rendered.messages}

    def emit(self, content: Any, *, response_id: str, model: str, **_: Any) -> Iterator[bytes]:
        yield json.dumps({"by": model, "ref": response_id}).encode() + b"\n"
        for block in content.blocks:
            yield json.dumps({"say": block.text}).encode() + b"\n"
        yield b'{"bye": "done"}\n'

    def error_body(self, status: int, message: str, code: str | None = None) -> dict[str, Any]:
        return {"oops": message}


PROVIDER = Acme()
