"""What the build of the wheel adds: the commit, and the skeletons of the exercises and of the course project.

They are made from solutions that stay outside.

Of these it notes their shapes, by which `grade` knows them again.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Skeletons(BuildHookInterface):
    """Strips exercises/NN_name/solution.py into minidecode/course/exercises/skeletons/NN_name.py of the wheel."""

    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":
            return  # a checkout makes them when they are asked for
        root = Path(self.root)
        strip = _module(root / "minidecode" / "course" / "exercises" / "skeleton.py").strip_solution
        published, shapes = _module(root / "minidecode" / "course" / "exercises" / "published.py"), {}
        self._made = tempfile.TemporaryDirectory()
        for solution in sorted(root.glob("exercises/[0-9][0-9]_*/solution.py")):
            name = f"{solution.parent.name}.py"
            made = Path(self._made.name) / name
            made.write_text(strip(solution.read_text(encoding="utf-8")), encoding="utf-8")
            build_data["force_include"][str(made)] = f"minidecode/course/exercises/skeletons/{name}"
            shapes[made.stem] = published.read_solutions(solution.parent, made.read_text(encoding="utf-8"))
        engine = Path(self._made.name) / "engine.py"
        engine.write_text(
            strip((root / "exercises" / "engine" / "solution.py").read_text(encoding="utf-8")), encoding="utf-8"
        )
        build_data["force_include"][str(engine)] = "minidecode/course/project/engine_skeleton.py"
        version_file = _module(root / "minidecode" / "commands" / "version.py")
        if commit := version_file.commit_of_checkout(root):
            told = Path(self._made.name) / version_file.COMMIT
            told.write_text(commit, encoding="ascii")
            build_data["force_include"][str(told)] = f"minidecode/commands/{version_file.COMMIT}"
        noted = Path(self._made.name) / published.NOTED
        noted.write_text(published.solutions_as_json(shapes), encoding="utf-8")
        build_data["force_include"][str(noted)] = f"minidecode/course/exercises/skeletons/{published.NOTED}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            self._made.cleanup()


def _module(path: Path):
    """A module that needs Python alone, loaded by its place: the package itself needs NumPy."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
