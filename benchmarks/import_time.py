"""``import streamkit`` with its bytecode there, in CPU time, against ``import msgspec``, which it needs in any case.

Each import runs in a new interpreter, whose start counts in the first row and not in the second. The bytecode is in a
folder of its own, written by a first run that is not counted, so that a checkout that may not be written makes no
difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.measure import Row, Settings, Times

__all__ = ["measure"]

TARGET = 1.3
SCRIPT = "import time\nstart = time.process_time()\nimport {}\nend = time.process_time()\nprint(end, end - start)"
MODULES = ("msgspec", "streamkit")


def seconds(module: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return the CPU time of a new interpreter that imports a module, and of the import alone."""
    command = [sys.executable, "-c", SCRIPT.format(module)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    process, alone = map(float, printed.split())
    return process, alone


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of both imports, with and without the start of the interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for module in MODULES:
            seconds(module, environment)
        runs: dict[str, list[tuple[float, float]]] = {module: [] for module in MODULES}
        for number in range(settings.rounds):
            for module in MODULES if number % 2 == 0 else reversed(MODULES):
                runs[module].append(seconds(module, environment))
    for place, name, target in ((0, "python -c 'import streamkit'", TARGET), (1, "the import alone", None)):
        times = Times({module: [run[place] for run in runs[module]] for module in MODULES})
        ours, floor = (times.median(module) * 1e3 for module in ("streamkit", "msgspec"))
        note = f"{ours:.1f} ms, msgspec alone {floor:.1f}"
        yield Row(name, times.ratio("streamkit", "msgspec"), target=target, note=note)
