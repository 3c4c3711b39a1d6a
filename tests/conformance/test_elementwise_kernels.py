"""The fused kernels between two matrix products, beyond their answers: what they load, and which arrays they take."""

import copy
import re

import numpy as np
import pytest

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.check import find_mistake
from minidecode.conformance.rows import activation as activation_row
from minidecode.conformance.rows import embedding as embedding_row
from minidecode.conformance.rows import norm as norm_row
from minidecode.conformance.rows.norm import layer_norm_error_bound
from minidecode.cuda import activation, embedding
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.ops import Norm
from minidecode.reference import norm as norm_reference
from minidecode.reference.activation import ACTIVATIONS, LAPLACE, PLAIN, activation_code

ROWS = ("norm", "embedding", "activation")


def versions(*names):
    """Every implementation of these rows; kernels in the emulator."""
    for name in names:
        for label, function in implementations(CATALOG[name]).items():
            run = InEmulator(function) if label.startswith("cuda") else function
            yield pytest.param(name, run, id=f"{name}-{label.replace(' ', '-')}")


def arguments_of(name):
    """Arguments over 5 rows and 33 columns."""
    rng = np.random.default_rng(1)
    x_RD, y_RD, bias_D = rng.standard_normal((5, 33)), rng.standard_normal((5, 33)), rng.standard_normal(33)
    if name == "norm":
        return norm_row.make_arguments(x_RD, y_RD, bias_D, 1e-5)
    if name == "embedding":
        return embedding_row.make_arguments([4, 0, 2, 2, 1], [1, 4, 0, 3, 2], x_RD, y_RD, 2.0, 1e-5)
    return x_RD.astype(np.float32), bias_D.astype(np.float32), "gelu"


def every_other(array):
    """The same numbers, every other one of a longer array along each axis, which begins at an odd place."""
    wide = np.full([2 * n + 1 for n in array.shape], 77, array.dtype)
    part = wide[(slice(1, None, 2),) * array.ndim]
    part[...] = array
    return part


def transposed(array):
    """The same numbers, its columns lying one behind the other."""
    return np.asfortranarray(array)


def offset(array):
    """The same numbers in one piece, a number further on than an allocator would have put them."""
    piece = np.empty(array.size + 1, array.dtype)[1:].reshape(array.shape)
    piece[...] = array
    return piece


def laid(argument, how):
    if isinstance(argument, Norm):
        return Norm(how(argument.gain_D), how(argument.bias_D), argument.eps)
    return how(argument) if isinstance(argument, np.ndarray) else argument


@pytest.mark.parametrize("how", [every_other, transposed, offset], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("name", "function"), list(versions(*ROWS)))
def test_arrays_may_lie_anyhow(name, function, how):
    """Views are read and written where they lie, also as `out`, whose neighbours stay."""
    given = tuple(laid(a, how) for a in arguments_of(name))
    assert find_mistake(CATALOG[name], function, given) is None
    plain = function(*arguments_of(name))
    several = plain if isinstance(plain, tuple) else (plain,)
    out = tuple(how(np.full(a.shape, np.nan, np.float32)) for a in several)
    function(*given, out=out if len(out) > 1 else out[0])
    for result, expected in zip(out, several, strict=True):
        assert np.allclose(result, expected, rtol=1e-5, atol=1e-6)
        assert how is not every_other or (result.base[::2] == 77).all()


@pytest.mark.parametrize(("name", "function"), list(versions(*ROWS)))
def test_no_row_at_all_is_no_launch(name, function):
    given = tuple(a[:0] if isinstance(a, np.ndarray) and k in (0, 1) and a.ndim == (1 if name == "embedding" else 2)
                  else a for k, a in enumerate(arguments_of(name)))  # fmt: skip
    result = function(*given)
    assert all(a.shape == (0, 33) for a in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("name", "function"), [p for p in versions("norm", "embedding") if "naive" not in p.id])
def test_a_fused_op_is_the_composition_of_its_parts(name, function, seed):
    """Whatever the numbers: x is that of the naive code to two roundings, h the norm of that very x."""
    rng = np.random.default_rng(seed)
    D = int(rng.choice([1, 31, 33, 65]))
    x_RD, y_RD = rng.standard_normal((2, 4, D)) * 10.0 ** rng.integers(-6, 7, size=(2, 4, 1))
    if name == "norm":
        given = norm_row.make_arguments(x_RD, y_RD, None, 1e-5, seed)
    else:
        given = embedding_row.make_arguments(rng.integers(4, size=3), rng.integers(4, size=3), x_RD, y_RD, 3.0, 1e-5)
    x, h = function(*copy.deepcopy(given))
    naive_x, _ = implementations(CATALOG[name])["reference naive"](*copy.deepcopy(given))
    off, _ = (norm_row if name == "norm" else embedding_row).error_bound(*given)
    assert (np.abs(x - naive_x) <= 2 * off).all()
    norm = given[-1]
    assert (np.abs(h - norm_reference.layer_norm_naive(x, norm)) <= 2 * layer_norm_error_bound(x, norm)).all()


def test_every_activation_of_a_config_is_in_every_backend():
    assert set(ACTIVATIONS) == set(activation_row.EQUATIONS)
    assert {activation_code(name) for name in ACTIVATIONS} == set(range(PLAIN, LAPLACE + 1)), (
        "each has a kernel's number"
    )


ENDS = np.array([[-1e38, -1e4, -200.0, -88.0, -30.0, -4.0, 0.0, 4.0, 30.0, 88.0, 200.0, 1e4, 1e18]], np.float32)


@pytest.mark.parametrize("name", ["mish", "laplace", "gelu_10", "linear", "relu2"])
@pytest.mark.parametrize("function", [pytest.param(p.values[1], id=p.id) for p in versions("activation")])
def test_activations_of_large_numbers(function, name):
    """Where an exponential or an error function has nothing more to say: no NaN, no sum that overflowed."""
    result = function(ENDS, None, name)[0]
    assert np.isfinite(result).all()
    assert (
        np.abs(result - activation_row.oracle(ENDS, None, name)) <= activation_row.error_bound(ENDS, None, name)
    ).all()
    if name == "laplace":
        assert result[:5].tolist() == [0.0] * 5 and result[8:].tolist() == [1.0] * 5
    if name == "mish":
        assert (result[8:] == ENDS[0, 8:]).all() and (np.abs(result[:4]) <= 1e-30).all()


@pytest.mark.parametrize("name", ROWS)
def test_kernels_refuse_double_precision(name):
    given = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in arguments_of(name)]
    for label, function in implementations(CATALOG[name]).items():
        if label.startswith("cuda"):
            with pytest.raises(md.OptionError, match="in float32, not float64"):
                function(*given)


@pytest.mark.parametrize("name", ROWS)
def test_compiled_code_computes_in_double_precision_too(name):
    def double(a):
        return a.astype(np.float64) if a.dtype == np.float32 else a

    given = [laid(a, double) for a in arguments_of(name)]
    results = [implementations(CATALOG[name])[label](*copy.deepcopy(given)) for label in ("cpu", "reference naive")]
    for mine, naive in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
        assert mine.dtype == np.float64 and np.allclose(mine, naive, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", ["reference naive", "reference", "cpu"])
@pytest.mark.parametrize("place", [0, 1])
def test_ids_outside_of_their_table_are_refused_on_the_cpu(label, place):
    given = list(arguments_of("embedding"))
    given[place] = np.array([0, 1, 5, 0, 0])
    with pytest.raises(IndexError):
        implementations(CATALOG["embedding"])[label](*given)


@pytest.mark.parametrize("version", ["v1", "v2", "cuda"])
@pytest.mark.parametrize("place", [0, 1])
def test_ids_outside_of_their_table_are_found_by_the_emulator(version, place):
    given = list(arguments_of("embedding"))
    given[place] = np.array([0, 1, 5, 0, 0])
    label = "cuda" if version == "cuda" else f"cuda {version}"
    with pytest.raises(md.EmulationError, match="lies outside"):
        InEmulator(implementations(CATALOG["embedding"])[label])(*given)


# What the kernels load: fewer loads are the point of the later versions.


def test_a_bias_is_loaded_once_for_the_rows_that_a_thread_walks_down():
    R, F = 10, 64  # three walks: of 4, 3 and 3 rows
    f_RF, bias_F = np.ones((R, F), np.float32), np.ones(F, np.float32)
    code, out_RF = activation_code("gelu_new"), np.empty((R, F), np.float32)
    first = md.emulate(activation.activation_per_number)[R * F // 128, 128](f_RF, bias_F, code, out_RF)
    second = md.emulate(activation.activation_per_column)[(1, 3), 128](f_RF, bias_F, code, out_RF)
    loads = [sum(c.global_loads for c in run.lines.values()) for run in (first, second)]
    assert loads == [2 * R * F, (R + 3) * F]
    stores = [sum(c.global_stores for c in run.lines.values()) for run in (first, second)]
    assert stores == [R * F] * 2


def test_four_columns_are_for_rows_that_begin_at_16_bytes():
    f_RF, bias_F = np.ones((3, 64), np.float32), np.ones(64, np.float32)
    ragged_RF = np.ones((3, 65), np.float32)
    for given, kernel in (((f_RF, bias_F), "of_fours"), ((ragged_RF, np.ones(65, np.float32)), "per_column"),
                          ((ragged_RF[:, :64], bias_F), "per_column"), ((offset(f_RF), bias_F), "per_column"),
                          ((f_RF, offset(bias_F)), "per_column"),
                          ((f_RF[:, :62], bias_F[:62]), "per_column")):  # fmt: skip
        with counted_launches() as launches:
            InEmulator(activation.bias_activation)(*given, "relu")
        assert list(launches) == [f"activation_{kernel} (emulator)"]


def test_the_assembler_sees_128_bit_loads_and_stores():
    pytest.importorskip("numba_cuda", reason="needs the toolkit: pip install '.[ptx]'")
    pytest.importorskip("cuda.core", reason="needs the toolkit: pip install '.[ptx]'")
    from minidecode.conformance.kernel_build import compile_and_link

    for kernel, (signature,) in activation.SIGNATURES.items():
        built = compile_and_link(kernel, signature, (8, 0))
        is_wide = kernel not in (activation.activation_per_number, activation.activation_per_column)
        wide_loads = re.findall(r"ld\.global\.v4|ld\.global\.v2\.[ub]64", built.ptx)
        assert bool(wide_loads) == ("st.global.v4" in built.ptx) == is_wide


def embedding_runs(R, D):
    rng = np.random.default_rng(0)
    ids, pos = rng.integers(7, size=R), rng.integers(5, size=R)
    tables = rng.standard_normal((7, D)).astype(np.float32), rng.standard_normal((5, D)).astype(np.float32)
    gain, shift, eps, x, h = np.ones(D, "f4"), np.zeros(D, "f4"), np.float32(1e-5), *np.empty((2, R, D), "f4")
    fused = ids, pos, *tables, np.float32(1), gain, shift, eps, x, h
    return {
        "embed": md.emulate(embedding.embed_per_number)[-(-R * D // 128), 128](ids, pos, *tables, np.float32(1), x),
        "norm": md.emulate(embedding.norm_per_row)[R, 128](x, gain, shift, eps, h),
        "block": md.emulate(embedding.embedding_per_block)[R, 128](*fused),
        "warp": md.emulate(embedding.embedding_per_warp)[-(-R // 4), 128](*fused),
    }


def test_fused_embedding_reads_nothing_that_it_wrote():
    """Unfused, x comes back four times: for its mean, twice for its deviations, and for its norm."""
    R, D = 6, 100
    runs = embedding_runs(R, D)
    loads = {name: sum(c.global_loads for c in run.lines.values()) for name, run in runs.items()}
    numbers, threads = R * D, 128
    assert loads["embed"] == 4 * numbers, "the token's number, the position's, and both indices, for each number"
    assert loads["norm"] == (4 + 2) * numbers
    assert loads["block"] == 4 * numbers + 2 * R * threads
    assert loads["warp"] == 4 * numbers + 2 * R * 32
    assert {run.verdict for run in runs.values()} == {"clean"}


def test_a_warp_per_row_needs_no_barrier_and_no_shared_memory():
    run = embedding_runs(6, 100)["warp"]
    assert all(c.shared_loads == c.shared_stores == 0 for c in run.lines.values())


@pytest.mark.parametrize("seed", range(3))
def test_kernels_are_clean_in_any_order_of_threads(seed):
    given = arguments_of("embedding")
    ids, pos, wte, wpe, scale, norm = given
    x, h = np.empty((2, 5, 33), np.float32)
    fused = ids, pos, wte, wpe, np.float32(scale), norm.gain_D, norm.bias_D, np.float32(norm.eps), x, h
    for kernel, grid in (embedding.embedding_per_block, 5), (embedding.embedding_per_warp, 2):
        assert md.emulate(kernel, seed=seed)[grid, 128](*fused).verdict == "clean"
        assert (np.abs(h - embedding_row.oracle(*given)[1]) <= embedding_row.error_bound(*given)[1]).all()


def test_rows_too_wide_for_one_version_take_another():
    for D, kernels in (1024, {"embedding_kept"}), (1023, {"embedding_per_warp"}), (1025, {"embedding_per_block"}), (
        4097, {"embed_per_number", "norm_per_row"}):  # fmt: skip
        tables = np.ones((2, 1, D), np.float32)
        with counted_launches() as launches:
            given = np.zeros(1, np.int64), np.zeros(1, np.int64), *tables, 1.0, Norm(*np.ones((2, D), "f4"), 1e-5)
            InEmulator(embedding.embed_norm)(*given)
        assert {name.split()[0] for name in launches} == kernels
