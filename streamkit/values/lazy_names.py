"""Names of a package that load their module on first use.

A package imports such names under ``TYPE_CHECKING`` for type checkers, has them in ``__all__``, and gives their modules
to ``lazy_names``; ``tests/test_exports.py`` compares the three.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: its name.
        modules: names, separated by spaces, by the module that defines them, relative to the package.
    """
    namespace = vars(sys.modules[package])
    module_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(module_of[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"]})

    return load, list_names
