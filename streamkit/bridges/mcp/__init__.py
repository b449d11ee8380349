"""The tools of an MCP server as streamkit tools.

``mcp_tools`` lists the tools of a connected server; each of them calls the server (``tools``), and its result becomes a
value for the model (``results``). The ``mcp`` package is responsible for the connection, the wire and the server's
process: nothing is opened or closed here. The tools run in the event loop of the session, and only while it is open.

If the server disconnects, its calls become errors. If it does so over HTTP before the response began, the mcp package
(2.3.0) instead cancels the block in which the connection was opened, with the run inside it, and that block raises.

mcp 2 is required. With 1.x a canceled call does not reach the server as ``notifications/cancelled``, and the server
continues to work (github.com/modelcontextprotocol/python-sdk/issues/2507; checked with 1.30.0).

This package must not depend on providers or on the execution of calls.
"""

from __future__ import annotations

try:
    import mcp as _mcp  # noqa: F401 - named here, so that the message names the extra
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"streamkit.bridges.mcp needs {error.name}: pip install 'streamkit[mcp]'", name=error.name
    ) from None

from streamkit.bridges.mcp.tools import mcp_tools

__all__ = ["mcp_tools"]
