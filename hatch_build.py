"""What the build of the wheel adds: the exercises' skeletons, made from their solutions, which stay outside."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Skeletons(BuildHookInterface):
    """Strips exercises/NN_name/solution.py into minidecode/exercises/skeletons/NN_name.py of the wheel."""

    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":
            return  # a checkout makes them when they are asked for
        root = Path(self.root)
        strip = _strip_of(root / "minidecode" / "exercises" / "skeleton.py")
        self._made = tempfile.TemporaryDirectory()
        for solution in sorted(root.glob("exercises/[0-9][0-9]_*/solution.py")):
            name = f"{solution.parent.name}.py"
            made = Path(self._made.name) / name
            made.write_text(strip(solution.read_text(encoding="utf-8")), encoding="utf-8")
            build_data["force_include"][str(made)] = f"minidecode/exercises/skeletons/{name}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            self._made.cleanup()


def _strip_of(path: Path):
    """The one function that makes skeletons, loaded by its place: the package itself needs NumPy."""
    spec = importlib.util.spec_from_file_location("skeleton", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.strip
