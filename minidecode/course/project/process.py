"""Starts the process in which an engine races, and ends it if it says nothing for too long."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError, quoted

SECONDS = 180  # for one turn of a race


def race_of(engine: Path, checkpoint: Path, stages: list[int], environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What the process says, one result at a time. stages: those that pass.

    Raises InputError where it ends early or says nothing for SECONDS.
    """
    command = [sys.executable, "-m", "minidecode.course.project.run", str(engine), str(checkpoint),
               ",".join(map(str, stages))]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        alarm = Alarm(process)
        try:
            for line in process.stdout:
                alarm.stop()
                yield json.loads(line)
                alarm = Alarm(process)
            process.wait()
        finally:
            alarm.stop()
            process.kill()
    if alarm.has_rung or process.returncode:
        what = f"no answer within {SECONDS} s" if alarm.has_rung else f"it ended with code {process.returncode}"
        raise InputError(f"{quoted(engine)}, the race: {what}: is there an endless loop, or a call that ends Python?")


class Alarm:
    """Ends a process that has said nothing for SECONDS."""

    def __init__(self, process: subprocess.Popen):
        self.has_rung, self._process = False, process
        self._timer = threading.Timer(SECONDS, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.has_rung = True
        self._process.kill()

    def stop(self) -> None:
        self._timer.cancel()
