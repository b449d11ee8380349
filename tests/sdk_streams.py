"""A server on loopback that answers with given bytes, and the official SDKs as its clients."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sdk_clients import Ask, sdk_of

from streamkit import Turn

__all__ = ["Streams"]

KINDS = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "event_stream": "application/vnd.amazon.eventstream",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one write: the second of two waits 40 ms for the first's acknowledgement

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        in_path = re.search(r"/models?/([^/:]+)", self.path)
        data, kind = self.server.streams[in_path[1] if in_path else json.loads(body)["model"]]  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


class Streams:
    """A server that answers with recorded bytes, and a client of each SDK that asks it. The model is the stream."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.streams = {}  # type: ignore[attr-defined]
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01))
        self._thread.start()
        self._clients = ExitStack()
        self._asks: dict[Any, Ask] = {}

    def close(self) -> None:
        self._clients.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def read(self, data: bytes, turn: Turn) -> BaseException | None:
        """Feed a turn with the objects that the SDK makes of the bytes; what the SDK raised."""
        sdk = sdk_of(turn.provider.name)
        if sdk not in self._asks:
            host, port = self._server.server_address[:2]
            self._asks[sdk] = self._clients.enter_context(sdk(f"http://{host!s}:{port}"))
        streams: dict[str, Any] = self._server.streams  # type: ignore[attr-defined]
        streams[name := f"m{len(streams)}"] = (data, KINDS[turn.provider.traits.framing])
        error = None
        chunks = iter(())
        try:
            chunks = iter(self._asks[sdk](name))
            objects = list(_until_it_raises(chunks, raised := []))
            error = raised[0] if raised else None
        except Exception as refused:
            objects, error = [], refused
        for piece in objects:
            turn.feed(piece)
        turn.close(error, complete=error is None)
        return error


def _until_it_raises(chunks: Iterator[Any], raised: list[BaseException]) -> Iterator[Any]:
    try:
        yield from chunks
    except Exception as error:
        raised.append(error)
