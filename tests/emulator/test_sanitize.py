"""`minidecode sanitize`: whole Numba-CUDA scripts without a GPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import sys
import numpy as np
from numba import cuda, float32, void
"""
RIGHT = (
    HEAD
    + """
from numba.cuda import grid, shared, syncthreads

@cuda.jit(device=True)
def twice(v):
    return 2 * v

@cuda.jit(void(float32[:], float32[:]), lineinfo=True, max_registers=32)
def block_sum(x, out):
    s = shared.array(32, float32)
    s[cuda.threadIdx.x] = twice(x[grid(1)])
    syncthreads()
    if cuda.threadIdx.x == 0:
        total = float32(0)
        for k in range(32):
            total += s[k]
        out[cuda.blockIdx.x] = total

@cuda.jit(["void(float32[:], float32[:])"])
def rolled(x, y):
    i = grid(1)
    y[i] = twice(x[i])
    cuda.cg.this_grid().sync()
    value = y[(i + 1) % y.size]
    cuda.cg.this_grid().sync()
    y[i] = value

@cuda.jit
def plus_one(x):
    i = grid(1)
    if i < x.size:
        x[i] += 1

x = np.arange(64, dtype=np.float32)
stream = cuda.stream()
there = cuda.to_device(x, stream=stream)
out = cuda.device_array_like(np.zeros(2, np.float32))
with stream.auto_synchronize():
    block_sum[2, 32, stream](there, out)
print(out.copy_to_host().tolist())
begin, end = cuda.event(), cuda.event()
begin.record(stream)
y = cuda.device_array(64, np.float32)
rolled[2, 32](there, y)
end.record(stream)
end.synchronize()
print(cuda.event_elapsed_time(begin, end), y.copy_to_host()[:3].tolist())
host = np.zeros(5, np.float32)
plus_one.forall(5)(host)
plus_one[1, 32](cuda.InOut(host))
kept = np.ones(5, np.float32)
plus_one[1, 32](cuda.In(kept))
print(host.tolist(), kept.tolist(), cuda.get_current_device().MULTIPROCESSOR_COUNT > 0, cuda.is_available())
print(sys.argv[1:])
"""
)
WRONG = (
    HEAD
    + """
@cuda.jit
def total(x, out):
    out[0] += x[cuda.grid(1)]

@cuda.jit
def beyond(x):
    x[cuda.grid(1)] = 1

@cuda.jit
def copied(x, y):
    y[cuda.grid(1)] = x[cuda.grid(1)]

out = np.zeros(1, np.float32)
for _ in range(3):
    total[1, 32](np.ones(32, np.float32), out)
beyond[1, 33](cuda.to_device(np.zeros(32)))
nothing = cuda.device_array(32, np.float32)
copied[1, 32](nothing, np.zeros(32, np.float32))
nothing.copy_to_device(np.ones(32, np.float32))
copied[1, 32](nothing, np.zeros(32, np.float32))
half = cuda.device_array(32, np.float32)
half[:16] = 1.0
"""
)


WHOLE_SCRIPT = (
    HEAD
    + """
import math
from numba import guvectorize, vectorize

@vectorize(["float32(float32, float32)"], target="cuda")
def root(a, b):
    return math.sqrt(a + b)

@guvectorize(["void(float32[:], float32[:])"], "(n)->()", target="cuda")
def total(x, y):
    y[0] = 0
    for k in range(x.size):
        y[0] += x[k]

@cuda.reduce
def greatest(a, b):
    return max(a, b)

@cuda.jit
def writes_dynamic(x):
    s = cuda.shared.array(0, float32)
    s[cuda.threadIdx.x] = 1
    x[cuda.threadIdx.x] = s[cuda.threadIdx.x]

@cuda.jit
def as_integers(x, y):
    t = cuda.threadIdx.x
    y[t] = x.view(np.int32)[t] + x.flat[t]

x = np.full(32, 8, np.float32)
print(root(x, x)[0], type(root(cuda.to_device(x), cuda.to_device(x))).__name__, total(x.reshape(2, 16)), greatest(x))
with_bytes = writes_dynamic[1, 32, 0, 128]
other = writes_dynamic[1, 16, 0, 64]
with_bytes(x)
event = cuda.event(timing=True)
event.record()
event.wait(cuda.stream())
y = np.zeros(32)
as_integers[1, 32](cuda.as_cuda_array(cuda.to_device(x)), y)
print(event.query(), x.sum(), y[0])
writes_dynamic[1, 32](x)
"""
)


def sanitized(folder, script, *before, after=()):
    """Runs it as a user does, from the folder in which it lies."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "minidecode", "sanitize", *before, "script.py", *after]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)


def test_a_right_script_runs_as_on_a_gpu(tmp_path):
    done = sanitized(tmp_path, RIGHT, after=["--json", "-n", "3"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[992.0, 3040.0]", "0.0 [2.0, 4.0, 6.0]", "[2.0, 2.0, 2.0, 2.0, 2.0] [1.0, 1.0, 1.0, 1.0, 1.0] True True",
        "['--json', '-n', '3']",
    ]  # fmt: skip
    assert done.stderr == "0 errors in 5 launches of 3 kernels\n"


def test_each_mistake_is_reported_once_where_it_was_launched(tmp_path):
    done = sanitized(tmp_path, WRONG)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("    ")]
    launched = {name: WRONG.splitlines().index(line) + 1 for name, line in (
        ("total", "    total[1, 32](np.ones(32, np.float32), out)"),
        ("beyond", "beyond[1, 33](cuda.to_device(np.zeros(32)))"),
        ("copied", "copied[1, 32](nothing, np.zeros(32, np.float32))"),
    )}  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert [": ".join(line.split(": ")[1:3]) for line in lines[:-1]] == [
        "error: race in total"] * 2 + ["error: outside in beyond", "error: uninitialised in copied"]  # fmt: skip
    assert [int(line.split(":")[1]) for line in lines[:-1]] == [
        launched["total"], launched["total"], launched["beyond"], launched["copied"]]  # fmt: skip
    assert lines[-1] == "4 errors in 6 launches of 3 kernels"


def test_launches_by_emulate_count_too(tmp_path):
    """The example of the README: a race in a kernel that the script gives to md.emulate."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    script = re.search(r"`race\.py`.*?```python\n(.*?)```", readme, re.DOTALL)[1]
    done = sanitized(tmp_path, script)
    line = script.splitlines().index("print(md.emulate(reverse)[1, 64](np.arange(64, dtype=np.float32)))") + 1
    first, *_, last = done.stderr.splitlines()
    assert done.returncode == 1 and first.startswith(f"script.py:{line}: error: race in reverse: a[0]: thread 0 reads")
    assert last == "1 error in 1 launch of 1 kernel"
    assert "error: a[0]: thread 0 reads it (line 9)" in done.stdout, "the script prints what it would print"


def test_the_report_as_json_is_alone_on_stdout(tmp_path):
    done = sanitized(tmp_path, WRONG + "print('to the screen')\nsys.exit(7)\n", "--json", "--traced", "1")
    report = json.loads(done.stdout)
    assert done.returncode == report["script_ended_with"] == 7 and "to the screen" in done.stderr
    assert report["launches"] == {"total": 3, "beyond": 1, "copied": 2} and report["traced"] == 3
    assert [e["kind"] for e in report["errors"]] == ["race", "race", "outside", "uninitialised"]
    assert report["errors"][2]["kernel"] == "beyond" and "lies outside" in report["errors"][2]["message"]


def test_what_surrounds_kernels_works_and_a_launch_keeps_its_own_configuration(tmp_path):
    done = sanitized(tmp_path, WHOLE_SCRIPT)
    assert done.stdout.splitlines() == ["4.0 FakeCUDAArray [128. 128.] 8.0", "True 32.0 1065353217.0"], done.stderr
    lines = done.stderr.splitlines()
    at = WHOLE_SCRIPT.splitlines().index("writes_dynamic[1, 32](x)") + 1
    assert lines[0].startswith(f"script.py:{at}: error: outside in writes_dynamic: ") and "0 bytes" in lines[0]
    assert lines[-1] == "1 error in 3 launches of 2 kernels"


@pytest.mark.parametrize(
    ("script", "says"),
    [("kernel = 1 / 0", "script.py:6: ZeroDivisionError: division by zero"), ("if", "script.py:6: SyntaxError"),
     ("@cuda.jit(link=['a.cu'])\ndef f(x): pass", "link=['a.cu']: code in CUDA C cannot be emulated"),
     ("@cuda.jit\ndef f(x): pass\nf(np.zeros(3))", "script.py:8: f is launched without a grid: write f[blocks, thr"),
     ("cuda.compile_ptx(print, ())", "cuda.compile_ptx needs a compiler or a device of CUDA: leave it out here"),
     ("cuda.as_cuda_array([1])", "cuda.as_cuda_array takes arrays of numba.cuda here, not list"),
     ("@cuda.jit\ndef f(x): np.sin(x, x)\nf[1, 1](np.zeros(3))", "np.sin of a whole array is not emulated: name one"),
     ("@cuda.jit\ndef f(x): pass\nf[1](np.zeros(3))", "a launch is kernel[grid, block] or kernel[grid, block, stream"),
     ("from numba.cuda.random import create_xoroshiro128p_states\n@cuda.jit\ndef f(x): pass\n"
      "f[1, 1](create_xoroshiro128p_states(4, 1))", "are not emulated: numbers and booleans only"),
     ("cuda.syncthreads()", "cuda.syncthreads is called outside of a kernel"),
     ("raise ModuleNotFoundError('no cupy', name='cupy')", "no cupy: CuPy is not supported here; use NumPy's"),
     ("@cuda.jit\ndef f(x): pass\nf[1, 2000](np.zeros(3))", "script.py:8: f: a block has at most 1024 threads"),
     ("@cuda.jit\ndef f(x): pass\nf[2**21, 1](np.zeros(3))", "run the script on a smaller input, or add --blocks 8"),
     ("@cuda.jit\ndef f(x): pass\nf[1, 1](np.zeros(3, [('a', 'f4')]))", "are not emulated: numbers and booleans only"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_one_line(tmp_path, script, says):
    done = sanitized(tmp_path, HEAD + "\n" + script)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert says in done.stderr.splitlines()[0], done.stderr


def test_an_interrupt_is_named_and_what_was_found_is_reported(tmp_path):
    done = sanitized(tmp_path, "raise KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr.splitlines()[0] == "minidecode: interrupted" and "0 errors in 0 launches" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["no_such.py"], "there is no script no_such.py"), (["--blocks", "few", __file__], "--blocks is a number above 0"),
     (["--blocks", "0", __file__], "--blocks is a number above 0, or all, and not '0'")],
)  # fmt: skip
def test_bad_arguments_are_refused(cli, arguments, says):
    ran = cli("sanitize", *arguments)
    assert ran.code == 1 and says in ran.err and ran.err.count("\n") == 1
