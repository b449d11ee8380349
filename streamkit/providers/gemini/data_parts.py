"""Parts of a Gemini candidate that are neither text nor a call: files, steps of server tools, unknown data.

Wire      https://ai.google.dev/api/caching#Part

This module does not depend on chunks, candidates or signatures.
"""

from __future__ import annotations

from typing import Any

from streamkit.events import ServerToolPhase
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.provider import ChoiceSink

__all__ = ["DATA_FIELDS", "FURTHER_DATA_FIELDS", "PART_METADATA", "TEXT_METADATA", "read_data"]

# https://ai.google.dev/api/caching#Part: the fields of a part that are not its data, then the union field ``data``
# without text and calls. ``toolCall`` and ``toolResponse`` are in the SDK's Part
# (https://googleapis.github.io/python-genai/genai.html#genai.types.Part), and of google-genai 3.4 are the fields for
# speech, the processing of media, documents, spreadsheets and audio.
TEXT_METADATA = ("partMetadata", "speechMetadata")
PART_METADATA = (
    *TEXT_METADATA,
    "mediaResolution",
    "videoMetadata",
    "mediaProcessing",
    "documentMetadata",
    "spreadsheetMetadata",
    "audioMetadata",
)
_NON_DATA_FIELDS = frozenset(("text", "thought", SIGNATURE, *PART_METADATA))
DATA_FIELDS = frozenset(("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"))
FURTHER_DATA_FIELDS = frozenset(("functionResponse", "audioTranscription"))  # data without an event of its own


def read_data(raw: dict[str, Any], choice: ChoiceSink, *, is_thought: bool) -> bool:
    """Report a part without text or call: a file, a step of a server tool or unknown data; False if it has none.

    Server tools are executed code (https://ai.google.dev/gemini-api/docs/code-execution) and ``toolCall`` with its
    ``toolResponse``: "The client is NOT expected to execute this `ToolCall`" but should pass both back
    (https://googleapis.github.io/python-genai/genai.html#genai.types.ToolCall).
    """
    names = [name for name, value in raw.items() if value is not None and name not in _NON_DATA_FIELDS]
    name = next((name for name in names if name in DATA_FIELDS and isinstance(raw[name], dict)), "")
    data: dict[str, Any] = raw[name] if name else {}
    data_id = as_text(data.get("id"))
    if name in ("executableCode", "codeExecutionResult"):
        fields = {field: value for field, value in data.items() if field != "id"}
        if name == "executableCode":
            choice.server_tool(data_id, "code_execution", "started")
        phase: ServerToolPhase = "arguments" if name == "executableCode" else "result"
        choice.server_tool(data_id, "code_execution", phase, fields, raw=raw)
    elif name == "toolCall":
        tool, arguments = as_text(data.get("toolType")) or "tool", data.get("args")
        choice.server_tool(data_id, tool, "started", raw=raw if arguments is None else None)
        if arguments is not None:
            choice.server_tool(data_id, tool, "arguments", arguments, raw=raw)
    elif name == "toolResponse":
        tool = as_text(data.get("toolType")) or "tool"
        choice.server_tool(data_id, tool, "result", data.get("response"), raw=raw)
    elif name == "inlineData" and isinstance(data.get("data"), str) and not is_thought:
        choice.file(as_text(data.get("mimeType")), data["data"], raw=raw)
    elif name == "fileData" and isinstance(data.get("fileUri"), str) and not is_thought:
        choice.file(as_text(data.get("mimeType")), None, data["fileUri"], raw=raw)
    elif names:
        choice.provider_block(raw)  # includes a thought that is an image: a draft, not a part of the response
    return bool(names)
