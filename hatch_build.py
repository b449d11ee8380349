"""Put the cases of ``streamkit conformance`` into the wheel as one archive: 600 files take four times their size."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CASES = Path("tests/conformance/cases")
ARCHIVE = "streamkit/testing/cases.zip"


class CaseArchive(BuildHookInterface[Any]):
    """The hook of the wheel. A checkout that is installed as editable has the files themselves."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the archive, the same for the same files."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        path, root = Path(self._folder.name) / "cases.zip", Path(self.root) / CASES
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for file in sorted(root.glob("*/[!._]*")):
                archive.writestr(ZipInfo(file.relative_to(root).as_posix()), file.read_bytes(), ZIP_DEFLATED)
        build_data["force_include"][str(path)] = ARCHIVE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the archive, which the wheel has."""
        if version != "editable":
            self._folder.cleanup()
