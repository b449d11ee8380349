"""The table of requests: its data, and its page in the documentation.

``python -m request_table`` in ``tests`` writes both anew from the installed SDKs. Read the difference before you keep
it: a new field of an SDK has to arrive, to be said, or to become one of the defaults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from request_table.observe import DEFAULTS, statuses_of
from request_table.sdk_types import versions
from request_table.wires import WIRES, rows_of

ROOT = Path(__file__).parents[2]
DATA = ROOT / "streamkit" / "testing" / "rules" / "request_fields.json"
PAGE = ROOT / "docs" / "requests.md"
_NAMES = {
    "openai_chat": "Chat Completions",
    "openai_responses": "Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "bedrock_converse": "Converse",
    "cohere": "Cohere",
    "ollama": "Ollama",
}
_SIGNS = {
    "exact": "=", "translated": "~", "words": "text", "described": "**text**", "default": "(=)", "left out": "-",
    "refused": "**no**",
}  # fmt: skip
_INTRODUCTION = """# What arrives of a request

Each documented field and part of the seven wires, from the types of their SDKs, at each other wire, as
`parse_request` and `render_request` write it, and so does the gateway. Nothing is lost in silence: what does not arrive
has a sentence in `changes`.

| | |
|---|---|
| = | the same value, in the target's field |
| ~ | in another form, or the nearest value that is accepted |
| text | as a text that the model reads, with all of it |
| **text** | left out, and a text for the model names it; a strict gateway refuses the request |
| (=) | the target does the same without a field |
| - | left out, and said; the meaning of the request is the same |
| **no** | left out, and said; a [strict gateway](rules.md#a-strict-gateway) refuses the request |

The value of a row is a sample of its type. Limits of single models, values that a target does not have and combinations
of fields are in [the rules](rules.md#requests). A client of the upstream's own wire gets everything through.
This page is generated (`CONTRIBUTING.md`).
"""


def build_data() -> dict[str, Any]:
    """Return the fields of all wires, with a sample of each request, and what happens to them."""
    sdks = versions()
    return {wire: {"sdk": sdks[wire], "fields": statuses_of(wire)} for wire in WIRES}


def read_data() -> dict[str, Any]:
    """Return the data of the package."""
    data: dict[str, Any] = json.loads(DATA.read_text())
    return data


def data_text(data: dict[str, Any]) -> str:
    """Return the data as JSON, a row on a line, so that a new field is a new line."""
    wires = []
    for wire, about in data.items():
        rows = [f"   {json.dumps(path)}: {json.dumps(at)}" for path, at in about["fields"].items()]
        wires.append(
            f' {json.dumps(wire)}: {{"sdk": {json.dumps(about["sdk"])}, "fields": {{\n' + ",\n".join(rows) + "}}"
        )
    return "{\n" + ",\n".join(wires) + "\n}\n"


def page_text(data: dict[str, Any]) -> str:
    """Return the page of the documentation."""
    lines = [_INTRODUCTION]
    for wire, about in data.items():
        targets = [each for each in WIRES if each != wire]
        lines.append(f"## {_NAMES[wire]} ({about['sdk']})\n")
        lines.append("| Field or part | " + " | ".join(_NAMES[each] for each in targets) + " |")
        lines.append("|---" * (len(targets) + 1) + "|")
        for path, at in about["fields"].items():
            lines.append(f"| `{path}` | " + " | ".join(_SIGNS[at[each]] for each in targets) + " |")
        lines.append("")
    return "\n".join(lines)


__all__ = ["DATA", "DEFAULTS", "PAGE", "build_data", "data_text", "page_text", "read_data", "rows_of"]
