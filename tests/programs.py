"""Run programs of the documents, each in a process forked from one that has imported what they use.

So a program starts in a hundredth of the time that a new interpreter takes for the same imports. A test of what an
import loads or of how a command starts needs ``subprocess``. Where there is no fork, each process is a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path
from subprocess import CompletedProcess

from shared_data import ROOT

#: Another Python, with an installed streamkit that the programs are to run with (.ci/programs.py).
PYTHON = os.environ.get("STREAMKIT_PROGRAMS_PYTHON")
#: Loaded once: what most of the programs import. A module that is missing is passed over.
PRELOADED = ["asyncio", "httpx", "pydantic", "streamkit.execution.run.batches", "streamkit.testing.server", "trio"]

_CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()
_CONTEXT = multiprocessing.get_context("forkserver") if _CAN_FORK else multiprocessing.get_context("spawn")
if _CAN_FORK:
    _CONTEXT.set_forkserver_preload(PRELOADED)


def run_program(code: str) -> CompletedProcess[str]:
    """Return the output of a program that has run in the checkout, with warnings as errors, as ``__main__``."""
    if PYTHON is not None:  # -P: nothing is imported from the checkout
        command = [PYTHON, "-P", "-W", "error", "-c", code]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [str(Path(folder, name)) for name in ("stdout", "stderr")]
        process = _CONTEXT.Process(target=_run, args=(code, *outputs))
        process.start()
        process.join(300)
        process.kill()
        process.join()
        stdout, stderr = (Path(path).read_text("utf-8") for path in outputs)
        return CompletedProcess(code, process.exitcode or 0, stdout, stderr)


def _run(code: str, *outputs: str) -> None:
    """Run a program in this process, which has nothing else to do, with its output in two files."""
    for descriptor, path in enumerate(outputs, 1):
        with open(path, "wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.chdir(ROOT)
    warnings.simplefilter("error")
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<program>", "exec"), main.__dict__)  # noqa: S102 - the program of a document
