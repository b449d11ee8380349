"""Print pip constraints that select the lowest version that ``pyproject.toml`` allows of each runtime dependency.

The dependencies are those of the package and of its extras; ``suite``, ``dev`` and ``docs`` have tools of the project,
whose versions are not limited.
"""

import re
import sys
import tomllib
from pathlib import Path

#: A name, perhaps with extras, its lowest version, and perhaps the marker of an environment.
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]+\])?>=(?P<version>[0-9.]+)(?: *;.*)?")

#: The extras of the tests and of the site.
TOOLS = ("suite", "dev", "docs")


def lowest(pyproject: Path) -> list[str]:
    """Return one ``name==version`` for each ``name>=version`` of the package and of its extras but ``TOOLS``."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = {name: listed for name, listed in project["optional-dependencies"].items() if name not in TOOLS}
    constraints = []
    for requirement in sorted({*project["dependencies"], *(entry for listed in extras.values() for entry in listed)}):
        if requirement.startswith(f"{project['name']}["):
            continue  # an extra that contains another one
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            sys.exit(f"{pyproject}: {requirement!r} has no lower bound of the form name>=version")
        constraints.append(f"{match['name']}=={match['version']}")
    return constraints


if __name__ == "__main__":
    print("\n".join(lowest(Path(__file__).parents[1] / "pyproject.toml")))
