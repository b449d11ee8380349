"""What a command returns, or raises, as an exit code and a line of standard error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from streamkit.cli.terminal import OutputError, escape_line
from streamkit.errors import UsageError
from streamkit.values.redaction import redact

__all__ = ["WRONG_USE", "exit_code_of"]

WRONG_USE = 2  #: the exit code of wrong arguments or input
#: The extra that installs a package which a command needs.
_EXTRAS = {
    "rich": "cli",
    "httpx": "cli",
    "starlette": "cli",
    "uvicorn": "cli",
    "aiohttp": "gateway",
    "prometheus_client": "metrics",
}


def exit_code_of(command: str, run: Callable[[], int]) -> int:
    """Run a command; return its exit code, after what it raises was printed."""
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except OutputError as error:
        with suppress(OSError, ValueError):  # what is still in the buffer must not fail again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error.error, BrokenPipeError):
            return 0  # the reader of the output has closed it (`| head`)
        with suppress(OutputError):  # it may be standard error
            _report(command, str(error))
        return 1
    except UsageError as error:
        _report(command, str(error))
        return 2
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        install = f"pip install 'streamkit[{_EXTRAS[missing]}]'"
        _report(command, f"needs {missing}, which is not installed: {install}", between=" ")
        return 2
    except Exception:
        # Printed here and not by the interpreter, which would not escape what the exception quotes.
        print(redact(traceback.format_exc()), file=sys.stderr, end="")
        return 1
    return code


def _report(command: str, message: str, between: str = ": ") -> None:
    """Print an error as one line."""
    print(f"streamkit {command}{between}{escape_line(redact(message))}", file=sys.stderr)
