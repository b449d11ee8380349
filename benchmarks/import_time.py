"""``import streamkit`` with its bytecode there, in CPU time, against ``import msgspec``, which it needs in any case.

The package loads most of its names on first use, so the import of ``Turn`` is measured too, and a program that makes
one run with one tool (``first_loop``). That one is compared with a program that validates with one model of pydantic in
an event loop of anyio, and does nothing else.

Each import runs in a new interpreter, whose start counts in the rows of a command. The bytecode is in a folder of its
own, written by a first run that is not counted, so that a checkout that may not be written makes no difference.
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
SCRIPT = "import time\nstart = time.process_time()\n{}\nend = time.process_time()\nprint(end, end - start)"
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


def seconds(statement: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return the CPU time of a new interpreter that runs an import, and of the import alone."""
    command = [sys.executable, "-c", SCRIPT.format(statement)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    process, alone = map(float, printed.split())
    return process, alone


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of both imports, with and without the start of the interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for statement in STATEMENTS:
            seconds(statement, environment)
        runs: dict[str, list[tuple[float, float]]] = {statement: [] for statement in STATEMENTS}
        for number in range(settings.rounds):
            for statement in STATEMENTS if number % 2 == 0 else reversed(STATEMENTS):
                runs[statement].append(seconds(statement, environment))
    for statement in IMPORTS:
        for place, name in enumerate((f"python -c '{statement}'", f"{statement}, the import alone")):
            times = Times({each: [run[place] for run in runs[each]] for each in STATEMENTS})
            note = f"{times.median(statement) * 1e3:.1f} ms, msgspec alone {times.median(FLOOR) * 1e3:.1f}"
            target = TARGET if statement == "import streamkit" and place == 0 else None
            yield Row(name, times.ratio(statement, FLOOR), target=target, note=note)
    times = Times({each: [run[0] for run in runs[each]] for each in STATEMENTS})
    note = (
        f"{times.median(FIRST_LOOP) * 1e3:.1f} ms, pydantic and anyio alone {times.median(FLOOR_FIRST_LOOP) * 1e3:.1f}"
    )
    ratio = times.ratio(FIRST_LOOP, FLOOR_FIRST_LOOP)
    yield Row("a program of one run with one tool", ratio, target=TARGET_FIRST_LOOP, note=note)
