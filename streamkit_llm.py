"""The command ``streamkit``, for ``python -m streamkit_llm`` too.

It lies outside the package: ``streamkit`` in the package index is another project, whose package has the same name. An
installation of it, or an upgrade, replaces this one's files, and then nothing in them can report that.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_REPLACED = """\
streamkit: the package {found} is not that of streamkit-llm: another project has this name. To replace it:
  pip uninstall streamkit
  pip install --force-reinstall streamkit-llm
"""


def main() -> int:
    """Run the command line; return the exit code."""
    try:
        from streamkit.cli import main as run
    except ImportError as error:
        if not (error.name or "").startswith("streamkit"):
            raise
        import streamkit

        sys.stderr.write(_REPLACED.format(found=getattr(streamkit, "__file__", None) or "streamkit"))
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
