"""The question at the terminal before a tool runs, as `streamkit chat` asks it.

The question shows what would run in a form that the model cannot forge. Without a terminal, nothing is approved.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import threading
from contextlib import suppress

from streamkit.calls import ToolCall
from streamkit.execution.one_call.background import WorkerThread
from streamkit.tools import Approval

__all__ = ["QUESTION", "ask", "format_question"]

#: The end of each question.
QUESTION = "run it? [y/N, or say why not] "
_TERMINAL = "/dev/tty"
_LOOK = 0.1  # seconds between two looks at whether the question is over
_MOST_SHOWN = 4000  # characters of the arguments
_END = 500  # of them, those at the end
_LONGEST_NAME = 128
_SPACES = re.compile(" {8,}")
_YES = ("y", "yes")
_NO = ("", "n", "no")
_NO_TERMINAL = "there is no terminal at which to ask for approval"


async def ask(call: ToolCall) -> Approval:
    """Ask the user at the terminal whether a call may run, and wait for a line.

    The question is written to the terminal itself, like that of ``sudo``: standard input may contain the prompt, and
    standard output may be a file. Without a terminal the call is denied.
    ``y`` and ``yes`` approve the call. Any other text denies it, and is the reason, except for ``n`` and ``no``.
    If this is cancelled, the line that comes next is not read: it is the next prompt of a chat.
    """
    is_over = threading.Event()
    try:
        line = await WorkerThread(lambda: _read_reply(format_question(call), is_over)).result()
    finally:
        is_over.set()
    if line is None:
        return Approval(allow=False, reason=_NO_TERMINAL)
    reply = line.strip()
    if reply.lower() in _YES:
        return Approval(allow=True)
    return Approval(allow=False, reason=None if reply.lower() in _NO else reply.rstrip("."))


def format_question(call: ToolCall) -> str:
    """Return the question, with the arguments, since a user must see them before they approve.

    Characters that a terminal does not show as such (escape sequences, line ends, direction marks) are escaped as in
    JSON, and so are long runs of spaces, which would move what follows to another line: the model must not be able to
    draw another question than the real one. Of long arguments the beginning and the end are shown, with the number of
    characters between them.
    """
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    if len(text) > _MOST_SHOWN:
        hidden = len(text) - _MOST_SHOWN
        begin, end = text[: _MOST_SHOWN - _END], text[-_END:]
        shown = f"{_escape(begin)} [... {hidden} characters are not shown ...] {_escape(end)}"
    else:
        shown = _escape(text)
    return f"? {_escape(call.name[:_LONGEST_NAME])} {shown}\n  {QUESTION}"


def _escape(text: str) -> str:
    text = _SPACES.sub(lambda run: r"\u0020" * len(run[0]), text)
    return "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text])


def _read_reply(question: str, is_over: threading.Event) -> str | None:
    """Write the question and read one line; return None without a terminal. This function blocks.

    It reads the file descriptor, never ``sys.stdin``: a thread that still reads ``sys.stdin`` when the interpreter ends
    has its lock, which is a fatal error (clustershell/clustershell#461).
    """
    opened = None
    try:
        try:
            input_fd = output_fd = opened = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
        except (OSError, AttributeError):  # the process has no terminal; Windows has no such path and flag
            if sys.stdin is None or not sys.stdin.isatty():
                return None
            input_fd, output_fd = sys.stdin.fileno(), 2
        with suppress(ImportError, OSError):  # no termios on Windows
            import termios

            with suppress(termios.error):  # what was typed before the question is no reply to it
                termios.tcflush(input_fd, termios.TCIFLUSH)
        os.write(output_fd, question.encode("utf-8", "backslashreplace"))
        is_ready = os.name == "nt"  # where only sockets can be waited for
        while not is_ready:
            is_ready = bool(select.select([input_fd], [], [], _LOOK)[0])
            if is_over.is_set():
                return None
        line = os.read(input_fd, 4096)
        if not line.endswith(b"\n"):
            os.write(output_fd, b"\n")  # Ctrl-D
    except (OSError, ValueError):
        return None
    finally:
        if opened is not None:
            os.close(opened)
    return line.decode("utf-8", "replace")
