"""``import streamkit`` with its bytecode there, in CPU time, against ``import msgspec``, which it needs in any case.

The package loads most of its names on first use, so the import of ``Turn`` is measured too, and a program that makes
one run with one tool (``first_loop``). That one is compared with a program that validates with one model of pydantic in
an event loop of anyio, and does nothing else.

Each runs in a new interpreter, whose start counts. The bytecode is in a folder of its own, written by a first run that
is not counted, so that a checkout that may not be written makes no difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.measure import Row, Settings, Times

__all__ = ["measure"]

TARGET, TARGET_FIRST_LOOP = 1.3, 1.3
SCRIPT = "{}\nimport time\nprint(time.process_time())"
FLOOR, IMPORTS = "import msgspec", ("import streamkit", "from streamkit import Turn")
FIRST_LOOP = "import benchmarks.first_loop"
FLOOR_FIRST_LOOP = """
import anyio
from pydantic import BaseModel

class Arguments(BaseModel):
    city: str

async def main():
    Arguments(city="Oslo")

anyio.run(main)"""
STATEMENTS = (FLOOR, *IMPORTS, FLOOR_FIRST_LOOP, FIRST_LOOP)


def seconds(statement: str, environment: dict[str, str]) -> float:
    """Return the CPU time of a new interpreter that runs a statement."""
    command = [sys.executable, "-c", SCRIPT.format(statement)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of both imports and of the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for statement in STATEMENTS:
            seconds(statement, environment)
        times = Times({statement: [] for statement in STATEMENTS})
        for number in range(settings.rounds):
            for statement in STATEMENTS if number % 2 == 0 else reversed(STATEMENTS):
                times.seconds[statement].append(seconds(statement, environment))
    targets = {"import streamkit": TARGET}
    rows = [(f"python -c '{each}'", each, FLOOR, targets.get(each), "msgspec") for each in IMPORTS]
    program = "a program of one run with one tool"
    rows.append((program, FIRST_LOOP, FLOOR_FIRST_LOOP, TARGET_FIRST_LOOP, "pydantic and anyio"))
    for name, ours, floor, target, by_hand in rows:
        note = f"{times.median(ours) * 1e3:.1f} ms, {by_hand} alone {times.median(floor) * 1e3:.1f}"
        yield Row(name, times.ratio(ours, floor), target=target, note=note)
