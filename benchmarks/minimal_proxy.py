"""A proxy that passes on bytes, the floor of what a gateway in Python costs: asyncio's streams and nothing else.

    python -m benchmarks.minimal_proxy PORT UPSTREAM_PORT

It keeps one connection to the upstream for each of its client's. It reads a request by its content-length, replaces its
path by the upstream's, and passes on the bytes of the response until the last chunk.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

__all__ = ["read_request"]

_END = b"0\r\n\r\n"
_HEAD = "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Return the body of the next request on a connection.

    Raises:
        asyncio.IncompleteReadError: the client has closed the connection.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    return await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def _serve(port: int, upstream: int) -> None:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        response, request = await asyncio.open_connection("127.0.0.1", upstream)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                body = await read_request(reader)
                request.write(_HEAD.format(len(body)).encode() + body)
                part = b" "
                while part and not part.endswith(_END):
                    part = await response.read(65536)
                    writer.write(part)
                    await writer.drain()
        request.close()
        writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
