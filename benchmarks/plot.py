"""The table as a plot: one bar for each ratio, with its target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Row, Skipped

__all__ = ["write"]


def write(rows: Sequence[tuple[str, Row]], path: Path) -> None:
    """Write the ratios as an SVG image.

    Raises:
        Skipped: matplotlib is not installed, or there is no ratio.
    """
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise Skipped("matplotlib is not installed: pip install 'streamkit-llm[benchmarks]'") from None
    ratios = [(subject, row) for subject, row in rows if row.unit == "x"]
    if not ratios:
        raise Skipped("no ratio was measured")
    figure = Figure(figsize=(9, 0.28 * len(ratios) + 1.2), layout="constrained")
    axes = figure.subplots()
    places = range(len(ratios))
    over = [row.target is not None and row.value > row.target for _, row in ratios]
    bars = axes.barh(places, [row.value for _, row in ratios], color=["#c44e52" if o else "#4c72b0" for o in over])
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=7)
    for place, (_, row) in zip(places, ratios, strict=True):
        if row.target is not None:
            axes.plot([row.target, row.target], [place - 0.4, place + 0.4], color="black", linewidth=1.5)
    axes.axvline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [f"{subject}: {row.name}" for subject, row in ratios], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("times the CPU time of the same work by hand; the black mark is the target")
    figure.savefig(path, format="svg")
