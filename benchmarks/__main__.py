"""Measure the subjects and print one table: ``python -m benchmarks [SUBJECT ...] [--rounds N]``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from pathlib import Path

from benchmarks.measure import Row, Settings, Skipped

#: The modules, in the order of the table; those of ``BY_NAME`` take minutes.
SUBJECTS = (
    "recorded",
    "non_deltas",
    "per_chunk",
    "reading",
    "executors",
    "rounds",
    "memory",
    "import_time",
    "views",
    "concurrency",
    "partial_arguments",
    "forms",
)
BY_NAME = ("peers", "agents", "gateway")


def main(argv: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS + BY_NAME)}")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each variant (default: 9)")
    parser.add_argument("--captures", type=Path, help="a folder of recorded streams, <provider>/<name>.sse")
    parser.add_argument("--plot", type=Path, default=Path("benchmarks.svg"), help="where the plot is written")
    options = parser.parse_args(argv)
    unknown = set(options.subjects) - {*SUBJECTS, *BY_NAME}
    if unknown:
        parser.error(f"no subject {', '.join(sorted(unknown))}: there are {', '.join(SUBJECTS + BY_NAME)}")
    captures = options.captures or os.environ.get("STREAMKIT_CAPTURES")
    if captures is None:
        captures = importlib.import_module("benchmarks.recorded").find_captures()
    elif not Path(captures).is_dir():
        parser.error(f"the folder of captures does not exist: {captures}")
    settings = Settings(options.rounds, Path(captures) if captures else None)
    print(f"Python {platform.python_version()}, {platform.machine()}, medians of {options.rounds} interleaved runs")
    print(f"{'':<56}{'measured':>12}{'target':>9}")
    rows: list[tuple[str, Row]] = []
    for subject in options.subjects or SUBJECTS:
        print(f"{subject}")
        try:
            for row in importlib.import_module(f"benchmarks.{subject}").measure(settings):
                rows.append((subject, row))
                print_row(row)
        except Skipped as reason:
            print(f"  skipped: {reason}")
    try:
        from benchmarks import plot

        plot.write(rows, options.plot)
        print(f"plot: {options.plot}")
    except Skipped as reason:
        print(f"plot skipped: {reason}")


def print_row(row: Row) -> None:
    """Print one line of the table; a figure above its target is marked."""
    target = "" if row.target is None else f"{row.target:g}"
    mark = "!" if row.target is not None and row.value > row.target else " "
    unit = "" if row.unit == "x" else f" {row.unit}"
    print(f"  {row.name:<54}{row.value:>12,.2f}{target:>9} {mark}{unit:<12} {row.note}".rstrip())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
