"""A conversation in one provider's form, in another's.

The file holds a thread as JSON: a list of the provider's messages, or the body of a request that has them. What is
printed is what the conversation is in a request's body of the other provider; what had to be changed or left out for
it goes to stderr, one sentence a line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from streamkit import providers
from streamkit.errors import UsageError

__all__ = ["configure", "run"]

_VERCEL = "vercel"
_MESSAGES = ("messages", "contents", "input")  # by what names request bodies hold a thread
_SYSTEM = ("system", "systemInstruction", "system_instruction", "instructions")
_NOT_THE_CONVERSATION = ("stream", "stream_options")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    names = ", ".join([*providers.names(), _VERCEL])
    parser.add_argument("file", metavar="FILE", help="a thread as JSON, or a request's body; - for stdin")
    parser.add_argument("--from", dest="source", required=True, metavar="P", help=f"whose form it has: {names}")
    parser.add_argument("--to", dest="target", required=True, metavar="P", help="whose form it shall have")
    parser.add_argument(
        "--unsupported",
        choices=("raise", "text", "drop"),
        default="raise",
        help="what becomes of images and files that the target cannot carry (default: raise, exit code 2)",
    )
    parser.add_argument(
        "--version", type=int, choices=(4, 5), default=5, help=f"of the messages of {_VERCEL} (default: 5)"
    )


def run(options: argparse.Namespace) -> int:
    """Convert the thread; 2 where there is none in the file, or the target cannot carry it."""
    messages, system = _thread(options.file)
    contents = providers.parse_messages(messages, options.source, system=system)
    changes: list[str] = []
    made: Any
    if options.target == _VERCEL:
        from streamkit.history import convert_to_vercel_messages, repair

        repaired = repair(contents)
        changes = repaired.changes
        made = convert_to_vercel_messages(repaired.contents, version=options.version)
    else:
        providers.render(contents, options.target, unsupported=options.unsupported, changes=changes)
        body = providers.render_request(contents, options.target, unsupported=options.unsupported)
        made = {name: value for name, value in body.items() if name not in _NOT_THE_CONVERSATION}
    print(json.dumps(made, ensure_ascii=False, indent=2))
    for change in changes:
        print(change, file=sys.stderr)
    return 0


def _thread(name: str) -> tuple[list[dict[str, Any]], Any]:
    """The messages in a file, and the system text that stands beside them."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        held = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} cannot be read as JSON: {error}") from None
    system = None
    if isinstance(held, dict):
        system = next((held[field] for field in _SYSTEM if field in held), None)
        held = next((held[field] for field in _MESSAGES if field in held), held)
    if not isinstance(held, list):
        raise UsageError(f"{name} holds no thread: neither a list of messages nor a request's body with one")
    return held, system
