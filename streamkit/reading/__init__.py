"""Reading one response: `Turn`, which composes framer, parser and accumulator, and the sources that feed it.

`turn` has `Turn`; `stream_reader` and `source` feed it from an asynchronous source within `time_limits`. Only these and
`stream_file` do I/O or look at a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.reading.choice_view import ChoiceView
    from streamkit.reading.stream_reader import StreamReader, read
    from streamkit.reading.time_limits import Timeouts
    from streamkit.reading.turn import Turn

__all__ = ["ChoiceView", "StreamReader", "Timeouts", "Turn", "read"]

__getattr__, __dir__ = lazy_names(  # a turn alone needs no anyio
    __name__,
    {
        "choice_view": "ChoiceView",
        "stream_reader": "StreamReader read",
        "time_limits": "Timeouts",
        "turn": "Turn",
    },
)
