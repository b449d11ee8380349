"""What `streamkit chat` reads from files and programs: the history, attachments, and the tools of MCP servers."""

from __future__ import annotations

import shlex
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from streamkit.errors import UsageError
from streamkit.history import Content, FileBlock, ImageBlock
from streamkit.reading.stream_file import create_private
from streamkit.values.media import media_type_of_name, sniff_media_type, to_data_url

if TYPE_CHECKING:
    from streamkit.tools import Tool

__all__ = ["ChatHistory", "open_mcp_tools", "read_attachment"]

_MOST_ATTACHED = 30 * 1024 * 1024  # bytes; no provider takes more in a request
_MCP_START = 30.0  # seconds that a server may take to start
_CONTENTS = TypeAdapter(list[Content])


class ChatHistory:
    """The conversation, and the file that keeps it.

    Args:
        path: the file, which is read if it exists, and written after each answer; None to keep nothing.

    Attributes:
        contents: the conversation.

    Raises:
        UsageError: the file cannot be read, or cannot be written later.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.contents: list[Content] = []
        if path is None:
            return
        try:
            self.contents = _CONTENTS.validate_json(path.read_bytes())
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise UsageError(f"--history {path}: there is no folder {path.parent}") from None
        except OSError as error:
            raise UsageError(f"--history {path}: the file cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            reason = " ".join([".".join(map(str, problem["loc"])), problem["msg"]]).strip()
            raise UsageError(f"--history {path}: this is no history that `streamkit chat` wrote: {reason}") from None

    def set_system(self, text: str) -> None:
        """Set the system prompt, also of a conversation that has another one."""
        self.contents = [Content.system(text), *(each for each in self.contents if each.speaker != "system")]

    def add(self, contents: Sequence[Content]) -> None:
        """Add what was said, and write the file.

        Raises:
            UsageError: the file cannot be written; the conversation has the contents.
        """
        self.contents += contents
        if self._path is None:
            return
        unfinished = self._path.with_name(f".{self._path.name}.tmp")
        try:
            with create_private(unfinished) as file:
                file.write(_CONTENTS.dump_json(self.contents, indent=1) + b"\n")
            unfinished.replace(self._path)
        except OSError as error:
            raise UsageError(f"--history {self._path}: the file cannot be written: {error.strerror or error}") from None


def read_attachment(name: str) -> ImageBlock | FileBlock:
    """Return a file as the block of a message: an image, a document, or a text.

    Raises:
        UsageError: the file cannot be read, is too large, or is of no known type.
    """
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(_MOST_ATTACHED + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be attached: {error.strerror or error}") from None
    if len(data) > _MOST_ATTACHED:
        raise UsageError(f"{name} cannot be attached: it has more than {_MOST_ATTACHED >> 20} MB")
    media_type = sniff_media_type(data) or media_type_of_name(name)
    if media_type is None:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{name} cannot be attached: its type is not known, and it is no text") from None
        media_type = "text/plain"
    encoded = b64encode(data).decode()
    if media_type.startswith("image/"):
        return ImageBlock(data=to_data_url(encoded, media_type))
    return FileBlock(media_type=media_type, data=encoded, name=Path(name).name)


@asynccontextmanager
async def open_mcp_tools(command: str) -> AsyncIterator[list[Tool]]:
    """Start an MCP server over its standard input and output; yield its tools, each call of which asks for approval.

    What the server writes to standard error is kept from the terminal, which would obey it.

    Raises:
        UsageError: the command cannot be started, or is no MCP server.
        ModuleNotFoundError: mcp is not installed.
    """
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from streamkit.bridges.mcp import mcp_tools  # names the extra

    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:  # of a quotation mark without its second one, or of nothing
        raise UsageError(f"--mcp must be a command such as 'npx -y server', not {command!r}: {error}") from None
    is_open = False
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            # Without the variables of the environment that are not usual, since they have the keys of providers.
            parameters = StdioServerParameters(command=program, args=arguments)
            async with stdio_client(parameters, errlog=log) as streams, ClientSession(*streams) as session:
                with anyio.fail_after(_MCP_START):
                    await session.initialize()
                    tools = await mcp_tools(session, approval="ask")
                is_open = True
                yield tools
        except Exception as error:
            if is_open:
                raise
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            log.seek(0)
            written = log.read().strip().splitlines()
            slow = f"it did not answer within {_MCP_START:.0f} s" if isinstance(error, TimeoutError) else str(error)
            reason = slow + (f"; it wrote: {written[-1]}" if written else "")
            raise UsageError(f"--mcp {command}: the server did not start: {reason}") from None
