"""Convert a conversation from one provider's format to another's.

The file contains a conversation as JSON: a list of the provider's messages, or the body of a request with them. The
command prints the fields of the other provider's request body that the conversation decides. Changes and omissions are
written to standard error, one sentence a line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from streamkit import providers
from streamkit.cli.terminal import escape_line, json_output
from streamkit.errors import UsageError
from streamkit.values.redaction import redact

__all__ = ["configure", "run"]

_VERCEL = "vercel"
_MESSAGES = ("messages", "contents", "input")  # the fields of request bodies with the messages
_SYSTEM = ("system", "systemInstruction", "system_instruction", "instructions")
_NOT_THE_CONVERSATION = ("stream", "stream_options")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    names = ", ".join([*providers.names(), _VERCEL])
    parser.add_argument("file", metavar="FILE", help="the messages or a request body, as JSON; - for standard input")
    parser.add_argument("--from", dest="source", required=True, metavar="P", help=f"the format of the file: {names}")
    parser.add_argument("--to", dest="target", required=True, metavar="P", help="the format to convert to")
    parser.add_argument(
        "--unsupported",
        choices=("raise", "text", "drop"),
        default="raise",
        help="images and files that the target does not support: fail (default, exit code 2), describe or leave out",
    )
    parser.add_argument(
        "--version", type=int, choices=(4, 5), default=5, help=f"the version of the {_VERCEL} messages (default: 5)"
    )


def run(options: argparse.Namespace) -> int:
    """Convert the conversation; return 2 if the file has none, or the target does not support it."""
    messages, system = _read_messages(options.file)
    changes: list[str] = []
    contents = providers.parse_messages(messages, options.source, system=system, changes=changes)
    converted: Any
    if options.target == _VERCEL:
        from streamkit.history import convert_to_vercel_messages, repair

        repaired = repair(contents)
        changes += repaired.changes
        converted = convert_to_vercel_messages(repaired.contents, version=options.version)
    else:
        body = providers.render_request(contents, options.target, unsupported=options.unsupported, changes=changes)
        converted = {name: value for name, value in body.items() if name not in _NOT_THE_CONVERSATION}
    json_output().write_json(json.dumps(converted, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass"))
    for change in changes:
        print(escape_line(redact(change)), file=sys.stderr)
    return 0


def _read_messages(name: str) -> tuple[list[dict[str, Any]], Any]:
    """Return the messages in a file, and the system text of the request body."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        document = json.loads(text.removeprefix("\ufeff"))
    except (OSError, ValueError, RecursionError) as error:
        source = "standard input" if name == "-" else "the file"
        reason = (error.strerror or error) if isinstance(error, OSError) else error
        raise UsageError(f"{name}: {source} cannot be read as JSON: {reason}") from None
    system = None
    if isinstance(document, dict):
        system = next((document[field] for field in _SYSTEM if field in document), None)
        document = next((document[field] for field in _MESSAGES if field in document), document)
    if not isinstance(document, list):
        raise UsageError(f"{name}: the file must contain a list of messages, or a request body with one")
    return document, system
