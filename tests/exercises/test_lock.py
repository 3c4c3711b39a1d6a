"""What Linux itself refuses to a student's process, native code included: here without the audit hook before it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minidecode.course.exercises import sandbox

LOCK = Path(sandbox.HERE) / "lock.py"
HELD = sandbox._what_the_system_refuses()
OUTSIDE = Path(sandbox.HERE).parents[1] / "ops.py"  # closed, whether or not it lies below a folder that is read


def tried(tmp_path: Path, *attempts: str) -> list[str]:
    """What comes of each attempt in a process that is locked and has no hook: its value, or the error's name."""
    (tmp_path / "mine.txt").write_text("mine")
    closed = str(Path(sandbox.HERE).parent)
    code = (
        "import ctypes, json, os, socket, subprocess, sys, threading, time\n"
        f"sys.path.insert(0, {str(LOCK.parent)!r})\nimport lock\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def native(*call):\n    if libc.syscall(*call) < 0:\n        raise OSError(ctypes.get_errno(), '')\n"
        f"folder = {str(tmp_path)!r}\n"
        f"held = lock.lock_process([os.path.dirname(os.__file__), folder], [{closed!r}])\n"
        "told = []\n"
        f"for attempt in {list(attempts)!r}:\n"
        "    try:\n        told.append(repr(eval(attempt)))\n"
        "    except OSError as error:\n        told.append(type(error).__name__)\n"
        "print(json.dumps(told), flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif("calls" not in HELD, reason="this system has no seccomp")
@pytest.mark.parametrize(
    "attempt",
    [
        "os.fork()", "os.execv('/bin/true', ['true'])", "subprocess.run(['true'])", "socket.socket()",
        "os.kill(os.getppid(), 0)", "os.rename(folder + '/mine.txt', folder + '/yours.txt')",
        "os.remove(folder + '/mine.txt')", "os.utime(folder, (1, 1))", "os.mkfifo(folder + '/pipe')",
        "os.chmod(folder, 0o777)", "open(folder + '/new.txt', 'w')", "os.setpriority(0, 0, 5)",
        "native(lock.CLONE[lock.platform.machine()], 17, 0, 0, 0, 0)",
    ],
)  # fmt: skip
def test_processes_signals_and_changes_are_refused_by_the_system(attempt, tmp_path):
    assert tried(tmp_path, attempt) == ["PermissionError"]
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert [f.name for f in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.skipif("files" not in HELD, reason="this system has no Landlock")
@pytest.mark.parametrize(
    "place", ["/etc/passwd", "/proc/self/maps", "/proc/1/environ", str(OUTSIDE), str(Path(__file__))]
)
def test_files_elsewhere_are_closed_to_the_system_as_well(place, tmp_path):
    assert tried(tmp_path, f"open({place!r}).read()") == ["PermissionError"]


@pytest.mark.skipif("files" not in HELD, reason="this system has no Landlock")
def test_a_link_in_the_students_folder_leads_nowhere(tmp_path):
    neighbour = tmp_path / "neighbour.py"
    neighbour.write_text("secret = 1")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link.py").symlink_to(neighbour)
    assert tried(mine, "open(folder + '/link.py').read()") == ["PermissionError"]


def test_what_a_submission_needs_still_works(tmp_path):
    """Reading one's own files and Python's, modules with code of their own, threads."""
    assert tried(
        tmp_path, "open(folder + '/mine.txt').read()", "os.listdir(folder)",
        "__import__('_decimal').Decimal(1) + 1", "__import__('_hashlib').new('sha256').digest_size",
        "(lambda t: (t.start(), t.join(), t.is_alive()))(threading.Thread(target=time.sleep, args=(0.01,)))[2]",
    ) == ["'mine'", "['mine.txt']", "Decimal('2')", "32", "False"]  # fmt: skip
