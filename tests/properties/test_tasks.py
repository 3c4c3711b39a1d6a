"""Functions that run task by task get the arrays and numbers of the call, whoever runs them and however they lie."""

import os
import subprocess
import sys

import numpy as np
import pytest

from minidecode.cpu.common.graph import Graph
from minidecode.cpu.common.tasks import in_tasks
from minidecode.cpu.common.thread_pool import ALL_WORKERS, CALLER_ALONE, DONE, REFUSED, parallel_for


@in_tasks()
def weigh(task, weights_RX, cube_ABC, column_XX, flags_R, octets_R, nothing_XX, adds, scale, wide, count, small, y_R):
    """A number of each argument, so that none may stand in another's place."""
    if len(y_R) != len(weights_RX):
        return REFUSED
    total = nothing_XX.size + 3 * nothing_XX.shape[1] + wide * count - small
    for x in range(weights_RX.shape[1]):
        total += weights_RX[task, x] * (x + 1)
    for a in range(cube_ABC.shape[0]):
        total += cube_ABC[a, -1, 1] * column_XX[a, 1]
    total += scale * octets_R[task] if flags_R[task] else -scale
    y_R[task] = y_R[task] + total if adds else total
    return DONE


def arguments(adds=True, rows=5):
    rng = np.random.default_rng(3)
    weights_RX = rng.standard_normal((rows, 12)).astype(np.float32)[:, ::3]
    cube_ABC, column_XX = rng.standard_normal((2, 3, 4)), np.asfortranarray(rng.standard_normal((2, 7)))
    flags_R, octets_R = np.arange(rows) % 2 == 0, np.arange(200, 200 + rows).astype(np.uint8)
    cube_ABC.flags.writeable = False
    nothing_XX = np.empty((0, 6), np.int32)
    numbers = adds, np.float32(0.375), -2.5, -3, np.int32(-7)
    return weights_RX, cube_ABC, column_XX, flags_R, octets_R, nothing_XX, *numbers, np.full(rows, 100.0)


def by_hand(weights_RX, cube_ABC, column_XX, flags_R, octets_R, nothing_XX, adds, scale, wide, count, small, y_R):
    each = 18 + wide * count - small + (cube_ABC[:, -1, 1] * column_XX[:, 1]).sum()
    ends_R = np.where(flags_R, scale * octets_R.astype(float), -scale)
    return weights_RX.astype(float) @ [1, 2, 3, 4] + each + ends_R + (y_R if adds else 0)


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("runs", ["alone", "shared", "again"])
def test_tasks_get_what_the_call_was_given(runs, adds):
    given = arguments(adds)
    right_R, y_R = by_hand(*given), given[-1]
    if runs == "again":
        graph = Graph()
        graph.note(weigh, 5, given, CALLER_ALONE)
        assert (y_R == 100).all()
        graph.launch()
    else:
        assert parallel_for(weigh, 5, given, CALLER_ALONE if runs == "alone" else ALL_WORKERS)
    np.testing.assert_allclose(y_R, right_R, rtol=1e-5)


def test_what_does_not_fit_is_refused():
    given = *arguments()[:-1], np.full(6, 100.0)
    assert parallel_for(weigh, 5, given, CALLER_ALONE) is False
    assert parallel_for(weigh, 5, given, ALL_WORKERS) is False
    assert (given[-1] == 100).all()
    assert parallel_for(weigh, 0, given, CALLER_ALONE) is True  # nobody looks


MINE = """
from minidecode.cpu.common.tasks import in_tasks
from minidecode.cpu.common.thread_pool import DONE
@in_tasks()
def write(task, y_R):
    y_R[task] = {}
    return DONE
"""
CALL = """
import numpy as np
from mine import write
from minidecode.cpu.common.thread_pool import CALLER_ALONE, parallel_for
y_R = np.zeros(2)
parallel_for(write, 2, (y_R,), CALLER_ALONE)
print(y_R.tolist(), sum(write.stats.cache_hits.values()), "from disk")
"""


def test_code_on_disk_is_that_of_the_function(tmp_path):
    """A process finds what another has compiled, until the function's own file changes."""
    shown = []
    for number in ("task + 1", "task + 1", "task + 20"):
        (tmp_path / "mine.py").write_text(MINE.format(number))
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "code"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, env=env, cwd=tmp_path)
        shown.append(done.stdout.strip() or done.stderr)
    assert shown == ["[1.0, 2.0] 0 from disk", "[1.0, 2.0] 1 from disk", "[20.0, 21.0] 0 from disk"]
