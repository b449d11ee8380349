"""Reading one response: `Turn`, which composes framer, parser and accumulator, and the sources that feed it.

`turn` has `Turn`; `stream_reader` and `source` feed it from an asynchronous source within `time_limits`. Only these and
`stream_file` do I/O or look at a clock.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.reading.choice_view import ChoiceView
    from streamkit.reading.stream_reader import StreamReader, read
    from streamkit.reading.time_limits import Timeouts
    from streamkit.reading.turn import Turn

__all__ = ["ChoiceView", "StreamReader", "Timeouts", "Turn", "read"]

_LAZY_IMPORTS = {  # a turn alone needs no anyio
    "ChoiceView": "choice_view",
    "StreamReader": "stream_reader",
    "Timeouts": "time_limits",
    "Turn": "turn",
    "read": "stream_reader",
}


def __getattr__(name: str) -> Any:
    module = _LAZY_IMPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    """List the lazily loaded names too."""
    return sorted(set(globals()) | set(__all__))
