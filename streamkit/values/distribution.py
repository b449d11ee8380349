"""The name under which this package is installed, and the errors about packages that are missing.

``streamkit`` in the package index is another project. This module must depend on nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DISTRIBUTION", "install_command", "missing_package"]

DISTRIBUTION: Final = "streamkit-llm"


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_package(purpose: str, error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the error to raise in place of one about a package that is not installed.

    Args:
        purpose: what needs it.
        error: the error of the import.
        extra: the extra that installs it.
    """
    return ModuleNotFoundError(f"{purpose} needs {error.name}: {install_command(extra)}", name=error.name)
