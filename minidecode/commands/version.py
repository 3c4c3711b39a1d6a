"""`minidecode --version`: the version, and the commit where it is known; read from files, without running git."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
COMMIT = "commit.txt"  # beside this file, in a wheel that was built in a checkout


def version_line() -> str:
    """The line that --version prints, such as "minidecode 0.1.0 (commit 5cb7cb8bb301)"."""
    from .. import __version__

    commit = commit_of_checkout(PACKAGE.parent) or commit_of_install(PACKAGE)
    return f"minidecode {__version__}" + (f" (commit {commit[:12]})" if commit else "")


def commit_of_checkout(folder: Path) -> str | None:
    """The commit that a checkout of this project in the folder is at; None where there is none."""
    try:
        if not (folder / "pyproject.toml").is_file():
            return None
        git = folder / ".git"
        if git.is_file():  # a worktree: the file names the folder
            git = folder / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return _commit_if_valid(head)
        name, shared = head.removeprefix("ref:").strip(), git
        if (git / "commondir").is_file():
            shared = git / (git / "commondir").read_text(encoding="utf-8").strip()
        for place in (git / name, shared / name):
            if place.is_file():
                return _commit_if_valid(place.read_text(encoding="utf-8").strip())
        packed = (shared / "packed-refs").read_text(encoding="utf-8")
        match = re.search(rf"^(\w+) {re.escape(name)}$", packed, re.MULTILINE)
        return _commit_if_valid(match[1]) if match else None
    except (OSError, ValueError):  # what cannot be read names no commit
        return None


def commit_of_install(package: Path) -> str | None:
    """The commit that the wheel was built at, or that pip installed from (PEP 610); None where neither is known."""
    from importlib import metadata

    with contextlib.suppress(OSError):
        return _commit_if_valid((package / "commands" / COMMIT).read_text(encoding="ascii").strip())
    for installed in metadata.distributions(name=package.name, path=[str(package.parent)]):
        try:
            commit = json.loads(installed.read_text("direct_url.json") or "{}").get("vcs_info", {}).get("commit_id")
        except (OSError, ValueError, AttributeError):
            continue
        return _commit_if_valid(str(commit))
    return None


def _commit_if_valid(commit: str) -> str | None:
    return commit if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit) else None
