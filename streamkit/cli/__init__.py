"""The command line: ``streamkit demo``, ``normalize``, ``inspect`` and the other commands. One command a file.

A command is a module with ``configure`` (its arguments) and ``run``, which returns the exit code: 0; 1 if the command
failed; 2 if its arguments or input are wrong; 130 after Ctrl-C. A command imports what the base install does not have
when it runs, so that ``--help`` and ``normalize`` work without the extra.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

import streamkit
from streamkit.cli import chat, conformance, convert, demo, gateway, inspect, key, normalize, report, tap
from streamkit.cli.terminal import OutputError, escape_line, protected
from streamkit.errors import UsageError
from streamkit.values.distribution import install_command
from streamkit.values.redaction import redact

__all__ = ["main"]

#: The extra that installs a package which a command needs.
_EXTRAS = {
    "rich": "cli",
    "httpx": "cli",
    "starlette": "cli",
    "uvicorn": "cli",
    "aiohttp": "gateway",
    "prometheus_client": "metrics",
    "mcp": "mcp",
}
_COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "normalize": normalize,
    "inspect": inspect,
    "report": report,
    "convert": convert,
    "conformance": conformance,
    "chat": chat,
    "gateway": gateway,
    "key": key,
    "tap": tap,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    with protected():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    # The commands print what fails themselves; without a handler Python writes the log to the terminal too.
    for name in ("streamkit", "uvicorn"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    try:
        code: int = _COMMANDS[options.command].run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except OutputError as error:
        return _end_without_output(options.command, error)
    except UsageError as error:
        _report(options.command, str(error))
        return 2
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        install = install_command(_EXTRAS[missing])
        _report(options.command, f"needs {missing}, which is not installed: {install}", between=" ")
        return 2
    except Exception as error:
        while isinstance(error, ExceptionGroup):  # of a task group in which the command printed
            error = error.exceptions[0]
        if isinstance(error, OutputError):
            return _end_without_output(options.command, error)
        # Printed here and not by the interpreter, which would not escape what the exception quotes.
        print(redact(traceback.format_exc()), file=sys.stderr, end="")
        return 1
    return code


def _end_without_output(command: str, error: OutputError) -> int:
    """Report that an output cannot be written; return the exit code."""
    with suppress(OSError, ValueError):  # what is still in the buffer must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error.error, BrokenPipeError):
        return 0  # the reader of the output has closed it (`| head`)
    with suppress(OutputError):  # it may be standard error
        _report(command, str(error))
    return 1


def _report(command: str, message: str, between: str = ": ") -> None:
    """Print an error as one line."""
    print(f"streamkit {command}{between}{escape_line(redact(message))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="streamkit",
        description="Streaming tool calls from any LLM provider.",
        formatter_class=_Help,
        epilog=_wrap(
            "Run `streamkit COMMAND --help` for details. Start with `streamkit demo`: it needs no key and no network."
        ),
    )
    parser.add_argument("--version", action="version", version=f"streamkit {streamkit.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command")
    for name, module in _COMMANDS.items():
        description = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=description.splitlines()[0],
            description=_wrap(description),
            formatter_class=_Help,
        )
        module.configure(command)
    return parser


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with a wide column for the names of commands and options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


def _wrap(text: str) -> str:
    """Wrap paragraphs to the width of the terminal; keep indented ones unchanged."""
    width = max(min(shutil.get_terminal_size().columns - 2, 100), 20)
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else textwrap.fill(part, width) for part in paragraphs)
