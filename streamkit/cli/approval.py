"""Ask whoever sits at the terminal whether a tool may run.

At the terminal itself, as ``sudo`` asks: standard input may hold the prompt, and standard output goes where the answer
is wanted. Nobody there is a no. It knows calls and a terminal; not runs, nor what else is written.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from streamkit.calls import ToolCall
from streamkit.execution.worker_thread import WorkerThread
from streamkit.tools import Approval

__all__ = ["QUESTION", "ask", "format_question"]

#: How a question ends.
QUESTION = "run it? [y/N, or say why not] "

_TERMINAL = "/dev/tty"
_YES = ("y", "yes")
_NO = ("", "n", "no")
_NOBODY = "nobody could be asked, since there is no terminal"


async def ask(call: ToolCall) -> Approval:
    """Ask, and wait for a line. ``y`` and ``yes`` agree; any words but ``n`` and ``no`` are the reason for a no.

    Cancelled, it leaves a thread behind that waits for the line, and that ends with the program.
    """
    line = await WorkerThread(lambda: _answer(format_question(call))).result()
    if line is None:
        return Approval(allow=False, reason=_NOBODY)
    said = line.strip()
    if said.lower() in _YES:
        return Approval(allow=True)
    return Approval(allow=False, reason=None if said.lower() in _NO else said.rstrip("."))


def format_question(call: ToolCall) -> str:
    """What is asked: all of the arguments, since what is not shown cannot be agreed to.

    What no terminal shows as a letter (escape sequences, line ends, marks that turn the direction of writing) is
    written as JSON escapes it: the model must not be able to draw another question than the one that is asked.
    """
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    shown = "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text])
    return f"? {call.name} {shown}\n  {QUESTION}"


def _answer(asked: str) -> str | None:
    """One line of the terminal, None where there is none. It blocks.

    By file descriptor, never by ``sys.stdin``: a thread that still reads there when the interpreter ends holds its
    lock, and that is a fatal error (clustershell/clustershell#461).
    """
    opened = None
    try:
        try:
            reading = writing = opened = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
        except (OSError, AttributeError):  # no terminal is the process's own; Windows has none of that name
            if sys.stdin is None or not sys.stdin.isatty():
                return None
            reading, writing = sys.stdin.fileno(), 2
        _forget_what_was_typed(reading)
        os.write(writing, asked.encode("utf-8", "backslashreplace"))
        line = os.read(reading, 4096)
        if not line.endswith(b"\n"):
            os.write(writing, b"\n")  # Ctrl-D
    except (OSError, ValueError):
        return None
    finally:
        if opened is not None:
            os.close(opened)
    return line.decode("utf-8", "replace")


def _forget_what_was_typed(terminal: int) -> None:
    """A line that was typed before the question was there does not answer it."""
    with suppress(ImportError, OSError):  # no termios on Windows
        import termios

        with suppress(termios.error):
            termios.tcflush(terminal, termios.TCIFLUSH)
