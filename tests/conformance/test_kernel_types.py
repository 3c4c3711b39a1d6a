"""Type inference of kernels without CUDA: ours are clean; what the compiler would refuse is refused, with its line."""

import importlib
import inspect
import pkgutil
import sys

import pytest
from numba import cuda, float32, float64, int32, int64

from minidecode import cuda as kernels_package
from minidecode.conformance.kernel_types import check_types

F = float32[::1]


def kernel_files() -> list[str]:
    """The modules of cuda/ and cuda/common/."""
    found = pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda.")
    return [info.name for info in found if not info.ispkg]


def our_kernels():
    for name in kernel_files():
        module = importlib.import_module(name)
        for kernel, signatures in getattr(module, "SIGNATURES", {}).items():
            for signature in signatures:
                yield pytest.param(kernel, signature, id=f"{name.rpartition('.')[2]}-{kernel.py_func.__name__}")


@pytest.mark.parametrize(("kernel", "signature"), list(our_kernels()))
def test_our_kernels_type_without_a_remark(kernel, signature):
    assert check_types(kernel, signature) == []


@pytest.mark.parametrize("name", kernel_files())
def test_every_kernel_has_a_signature(name):
    module = importlib.import_module(name)
    dispatchers = [v for v in vars(module).values() if hasattr(v, "py_func") and hasattr(v, "targetoptions")]
    own = [v for v in dispatchers if v.py_func.__module__ == module.__name__]
    signatures = getattr(module, "SIGNATURES", {})
    assert {v for v in own if not v.targetoptions.get("device")} <= {*signatures}
    for kernel in signatures:  # its own, or one that a function of another file has made for it
        home = sys.modules[kernel.py_func.__module__]
        assert home is module or all(kernel is not there for there in vars(home).values())


def line_of(function, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


@cuda.jit(device=True)
def doubled_by_accident(a):
    return a * 2.0


@cuda.jit
def half(x, y):
    i = cuda.grid(1)
    total = 0.0
    y[i] = x[i] * 0.5
    total += x[i]
    y[i] = total / x.size


@cuda.jit
def through_a_device_function(x, y):
    y[0] = doubled_by_accident(x[0])


@cuda.jit
def clean(x, y):
    i = cuda.grid(1)
    if i < min(x.size, 100):
        value = x[i] * float32(0.5)
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 16)
        y[i] = value


@cuda.jit
def with_a_dict(x, y):
    seen = {}
    seen[0] = x[0]
    y[0] = seen[0]


@cuda.jit
def with_a_list(x, y):
    seen = []
    seen.append(x[0])
    y[0] = seen[0]


@cuda.jit
def with_a_run_time_shape(x, y):
    tile = cuda.shared.array(x.size, float32)
    tile[0] = x[0]
    y[0] = tile[0]


@cuda.jit
def with_a_vote_of_bools(x, y):
    y[0] = cuda.syncthreads_count(x[0] > 0)


@cuda.jit
def with_a_vote_of_floats(x, y):
    y[0] = cuda.syncthreads_or(x[0])


@cuda.jit
def with_a_vote_of_integers(x, y):
    y[0] = cuda.syncthreads_and(int32(x[0] > 0))


@cuda.jit
def with_an_unknown_name(x, y):
    y[0] = no_such_function(x[0])  # noqa: F821


def test_double_precision_by_accident_is_warned_of_with_its_lines():
    notes = check_types(half, (F, F))
    assert {n.kind for n in notes} == {"warning"}
    expected = ["total = 0.0", "x[i] * 0.5", "total += x[i]", "total / x.size"]
    assert [n.line for n in notes] == [line_of(half, text) for text in expected]
    assert "y[i] = x[i] * 0.5" in str(notes[1])
    inside, outside = check_types(through_a_device_function, (F, F))
    assert "return a * 2.0" in inside.message
    assert outside.line == line_of(through_a_device_function, "doubled")


def test_double_precision_on_purpose_is_not():
    assert check_types(half, (float64[::1], float64[::1])) == []


def test_a_clean_kernel_has_no_remarks():
    assert check_types(clean, (F, F)) == [] == check_types(with_a_vote_of_integers, (F, F))
    assert check_types(clean.py_func, (float32[::1], float32[::1])) == []


@pytest.mark.parametrize(
    ("kernel", "text", "says"),
    [(with_a_dict, "seen[0] = x[0]", "a dict cannot live on a GPU"),
     (with_a_list, "seen.append", "a list cannot live on a GPU"),
     (with_a_run_time_shape, "shared.array", "must be a number known when the kernel is compiled"),
     (with_a_vote_of_bools, "syncthreads_count", "take an integer, no bool and no float: write int32(...) around it"),
     (with_a_vote_of_floats, "syncthreads_or", "take an integer, no bool and no float: write int32(...) around it"),
     (with_an_unknown_name, "no_such_function", "no_such_function")],
)  # fmt: skip
def test_what_the_compiler_would_refuse(kernel, text, says):
    (note,) = check_types(kernel, (F, F))
    assert note.kind == "error" and says in note.message
    assert note.line == line_of(kernel, text)
    assert "\x1b" not in str(note)


@cuda.jit(device=True)
def narrow_outside(x):
    return float32(x * 0.5)


@cuda.jit
def through_a_narrow_function(x):
    x[0] = narrow_outside(x[1])


@cuda.jit
def adds_a_scalar(x, eps):
    x[0] = x[1] + eps


def test_double_precision_inside_a_device_function_and_by_a_scalar():
    (note,) = check_types(through_a_narrow_function, (F,))
    assert "return float32(x * 0.5)" in note.message
    first, second = check_types(adds_a_scalar, (F, float64))
    assert "pass np.float32(eps)" in first.message and "x[1] + eps" in second.message
    assert check_types(adds_a_scalar, (F, float32)) == check_types(adds_a_scalar, (float64[::1], float64)) == []


@cuda.jit
def returns_a_number(x):
    if x[0] > 1:
        return x[0]


@cuda.jit
def assigns_a_slice(x):
    x[1:3] = x[2:4]


@cuda.jit
def comprehends(x):
    pair = [k for k in range(2)]
    x[0] = pair[1]


@pytest.mark.parametrize(
    ("kernel", "text", "says"),
    [(returns_a_number, "return x[0]", "a kernel returns nothing"),
     (assigns_a_slice, "x[1:3]", "assign element by element"),
     *([(comprehends, "def ", "write a loop")] if sys.version_info < (3, 12) else [])],  # from then on it is a loop
)  # fmt: skip
def test_what_inference_lets_pass(kernel, text, says):
    (note,) = check_types(kernel, (F,))
    assert note.kind == "error" and says in note.message
    assert text == "def " or note.line == line_of(kernel, text)


def test_wide_integers_are_no_doubles():
    @cuda.jit
    def add(x, y):
        y[0] = x[0] + x[1]

    assert check_types(add, (int32[::1], int64[::1])) == []


SIZE = 96


@cuda.jit
def halves_from_a_constant(x, y):
    left = SIZE
    while left > 1:
        left = (left + 1) // 2
    y[0] = x[left]


def test_a_variable_may_begin_as_a_constant_and_change():
    """Numba types each assignment for itself (SSA); without that it would refuse what its compiler takes."""
    assert check_types(halves_from_a_constant, (F, F)) == []
