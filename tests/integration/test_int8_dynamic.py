"""int8_dynamic: whole-number products in every kind of instruction, and models that use them."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import binding, ir
from tolerance import FLOAT32

import minidecode as md
from minidecode.cpu import linear_int8 as compiled
from minidecode.cpu.common import packing, panel_gemm, tile
from minidecode.cpu.common.tile import DOT, DOT_PRODUCTS, FLOATS
from minidecode.device.low_precision import DYNAMIC, arrays_in_weights, stored_weight, unpack_panels
from minidecode.ops import Weight
from minidecode.reference import linear_int8 as reference

HERE = [dtype for dtype, bits in DYNAMIC.items() if DOT is not None and bits <= DOT.x_bits]
pytestmark = pytest.mark.skipif(not HERE, reason="no integer dot product here")
PROMPT = "Fellow citizens of the Senate and of the House"


def weight_of(rng, inputs, outputs, dtype=HERE[0] if HERE else "int8_dynamic"):
    return stored_weight(dtype, Weight(rng.standard_normal((inputs, outputs)).astype(np.float32)))


@pytest.mark.parametrize("dtype", HERE)
@pytest.mark.parametrize("inputs", [1, 3, 4, 63, 65, 300])
def test_sums_are_numpys_bit_for_bit(dtype, inputs):
    """At every number of rows that a tile has, and outputs that fill a panel, miss one, or begin another."""
    rng = np.random.default_rng(inputs)
    for rows in (1, 2, 3, 4, 5, 6, 7, 12, 13, 40):
        for outputs in {1, DOT.width - 1, DOT.width, DOT.width + 1, 3 * DOT.width + 5}:
            x_RX, weight = (
                rng.standard_normal((rows, inputs)).astype(np.float32),
                weight_of(rng, inputs, outputs, dtype),
            )
            right = reference.linear_int8_naive(x_RX, weight)
            for given in (weight, panel_gemm.pack_int8(weight)):
                assert compiled.linear_int8(x_RX, given).tobytes() == right.tobytes(), (rows, outputs)
                assert reference.linear_int8(x_RX, given).tobytes() == right.tobytes()


def test_many_tasks_make_what_one_makes(monkeypatch):
    """More rows and panels than a task has; and all on one thread."""
    rng = np.random.default_rng(0)
    x_RX, weight = rng.standard_normal((700, 512)).astype(np.float32), weight_of(rng, 512, 1500)
    right, packed = reference.linear_int8(x_RX, weight), panel_gemm.pack_int8(weight)
    assert compiled.linear_int8(x_RX, packed).tobytes() == right.tobytes()
    monkeypatch.setattr(panel_gemm, "ROWS_OF_TASK", 100)
    monkeypatch.setattr(panel_gemm, "PANELS_BYTES", 1)
    assert compiled.linear_int8(x_RX, packed).tobytes() == right.tobytes()
    monkeypatch.setattr(panel_gemm, "WORTH_TWO_TASKS", 2**60)
    assert compiled.linear_int8(x_RX, packed).tobytes() == right.tobytes()


BLOCKS = (1, 7, 96, 256, 2000)  # steps: one; some that divide the inputs or not; all


@pytest.mark.parametrize("rows", [1, 6, 8, 60])
def test_int8_results_do_not_depend_on_where_blocks_end(monkeypatch, rows):
    rng = np.random.default_rng(rows)
    x_RX, weight = rng.standard_normal((rows, 1300), "f"), weight_of(rng, 1300, 150)
    right, packed = reference.linear_int8_naive(x_RX, weight), panel_gemm.pack_int8(weight)
    for steps in BLOCKS:
        monkeypatch.setattr(panel_gemm, "steps_of_block", lambda rows, steps=steps: steps)
        assert compiled.linear_int8(x_RX, packed).tobytes() == right.tobytes()


@pytest.mark.skipif(tile.FLOAT is None, reason="needs AVX-512")
@pytest.mark.parametrize("rows", [1, 6, 8, 60])
def test_float_results_do_not_depend_on_where_blocks_end(monkeypatch, rows):
    """Bit for bit; and they are sums of 1,300 products, each of which and each addition may round once."""
    rng = np.random.default_rng(rows)
    x_RX, w_XX, results = rng.standard_normal((rows, 1300), "f"), rng.standard_normal((150, 1300), "f"), []
    weight = panel_gemm.pack_floats(Weight(w_XX, layout="oi"))
    for steps in BLOCKS:
        monkeypatch.setattr(panel_gemm, "steps_of_block", lambda rows, steps=steps: steps)
        results.append(np.full((rows, 150), np.nan, np.float32))
        panel_gemm.multiply_floats(x_RX, weight, results[-1])
    assert len({y_RX.tobytes() for y_RX in results}) == 1
    error_RX = np.abs(results[0] - x_RX.astype(float) @ w_XX.T.astype(float))
    assert (error_RX <= 1301 * FLOAT32 * (np.abs(x_RX) @ np.abs(w_XX.T))).all()


def test_the_longest_sum_of_the_largest_numbers():
    """66,000 products of 127 by 127, and with the offset of 255 by 127: no sum leaves 32 bits."""
    x_RX, matrix = np.ones((2, 66_000), np.float32), np.ones((66_000, 2), np.float32)
    x_RX[1] = -1
    weight = stored_weight(HERE[0], Weight(matrix))
    right = np.float32([[66_000], [-66_000]]) + np.zeros((1, 2), np.float32)
    for function in (reference.linear_int8_naive, reference.linear_int8, compiled.linear_int8):
        np.testing.assert_allclose(function(x_RX, weight), right, rtol=1e-6)
        with pytest.raises(md.OptionError, match="adds up at most 66,000 inputs in 32 bits, and here are 66,001: load"):
            function(np.ones((1, 66_001), np.float32), weight)


def test_results_go_where_they_are_asked_for():
    rng = np.random.default_rng(1)
    x_RX, weight, bias_X = rng.standard_normal((7, 40)).astype(np.float32), weight_of(rng, 40, 70), np.ones(70, "f")
    right, before = reference.linear_int8_naive(x_RX, weight, bias_X, "relu"), rng.standard_normal((7, 70))
    plain, wide = np.empty(7 * 70 + 1, np.float32)[1:].reshape(7, 70), np.empty((7, 140), np.float32)
    for out in (plain, wide[:, ::2], np.empty((70, 7), np.float32).T):  # 4 bytes off a cache line; with gaps; columns
        assert compiled.linear_int8(x_RX, weight, bias_X, "relu", out=out) is out
        np.testing.assert_allclose(out, right, rtol=1e-6, atol=1e-6)
        out[...] = before
        assert compiled.linear_int8(x_RX, weight, bias_X, "relu", add_to=out) is out
        np.testing.assert_allclose(out, right + before.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert compiled.linear_int8(x_RX[:0], weight).shape == reference.linear_int8(x_RX[:0], weight).shape == (0, 70)
    assert compiled.linear_int8(x_RX[:, ::2], weight_of(rng, 20, 5)).shape == (7, 5)


def test_a_row_that_is_not_finite_spoils_itself_alone():
    rng = np.random.default_rng(2)
    x_RX, weight = rng.standard_normal((9, 70)).astype(np.float32), weight_of(rng, 70, 9)
    x_RX[1, 69], x_RX[3, 0], x_RX[5, 64], x_RX[7] = np.nan, np.inf, -np.inf, 0
    for function in (reference.linear_int8_naive, reference.linear_int8, compiled.linear_int8):
        y_RX = function(x_RX, weight)
        assert np.isnan(y_RX[[1, 3, 5]]).all() and (y_RX[7] == 0).all()
        assert y_RX[::2].tobytes() == function(np.ascontiguousarray(x_RX[::2]), weight).tobytes()


KIND_HERE = """
import numpy as np
from minidecode.cpu.common.tile import DOT
from minidecode.cpu.linear_int8 import linear_int8
from minidecode.ops import Weight
from minidecode.reference.linear_int8 import linear_int8_naive
from minidecode.device.low_precision import stored_weight
rng, kind = np.random.default_rng(0), DOT
for rows, inputs, outputs in ((1, 3, 7), (5, 64, 64), (13, 300, 130)):
    for sign in (1, -1):
        x_RX = rng.standard_normal((rows, inputs)).astype(np.float32)
        x_RX[0] = sign  # the largest sums there are
        matrix = rng.standard_normal((inputs, outputs)).astype(np.float32)
        matrix[:, 0] = 1
        weight = stored_weight("int8_dynamic" if kind.x_bits == 8 else "int8_dynamic7", Weight(matrix))
        assert linear_int8(x_RX, weight).tobytes() == linear_int8_naive(x_RX, weight).tobytes()
print(kind.name, kind.x_bits)
"""
LOWER = {  # what Numba is told of the processor
    "vnni512": ("cascadelake", "+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd,+avx512vnni"),
    "vnni256": ("alderlake", "+avx2,+fma,+avxvnni"),
    "maddubs512": ("skylake-avx512", "+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd"),
    "maddubs256": ("haswell", "+avx2,+fma"),
    "sdot": ("neoverse-n1", "+neon"),  # the name implies dotprod
}


@pytest.mark.parametrize("name", LOWER)
def test_processors_with_less_make_the_same_sums(name, tmp_path):
    """As on an older processor, in a process of its own; the instructions must be there to run them."""
    kind = next(kind for kind in DOT_PRODUCTS if kind.name == name)
    if not tile.features().issuperset(kind.features):
        pytest.skip(f"this processor has no {name}")
    cpu, features = LOWER[name]
    told = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KIND_HERE], capture_output=True, text=True, env=os.environ | told)
    assert done.stdout == f"{name} {kind.x_bits}\n", done.stderr


@pytest.mark.parametrize(
    "processor, listed, has_it",
    [
        ("neoverse-n1", "+aes,+crc,+fp-armv8,+lse,+neon,-rand,+sha2,-sve", True),  # as LLVM lists it there
        ("neoverse-n1", "+neon,-dotprod", False),
        ("apple-m1", "", True),  # LLVM lists nothing on macOS
        ("cortex-a72", "-aes,+crc,+fp-armv8,+neon,-rand,-sha2,-sve", False),
        ("generic", "+neon", False),
        ("generic", "+neon,+dotprod", True),
    ],
)
def test_the_name_of_an_arm_processor_says_whether_it_has_sdot(processor, listed, has_it, monkeypatch):
    triple = "aarch64-unknown-linux-gnu"
    target_for(triple)
    codegen = SimpleNamespace(magic_tuple=lambda: (triple, processor, listed))
    target_context = SimpleNamespace(codegen=lambda: codegen)
    monkeypatch.setattr(tile, "cpu_target", SimpleNamespace(target_context=target_context))
    assert ("dotprod" in tile.features()) == has_it
    assert (tile.best_of(DOT_PRODUCTS) is not None) == has_it


def target_for(triple):
    """LLVM's target; the test is skipped where this llvmlite writes no code for it."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        return binding.Target.from_triple(triple)
    except RuntimeError as error:
        pytest.skip(f"this llvmlite writes no code for {triple}: {error}")


MACHINE_CODE = {  # kind -> processor, its features, and the instruction that multiplies
    "vnni512": ("x86_64", "+avx512f,+avx512vnni", "vpdpbusd"),
    "vnni256": ("x86_64", "+avx2,+avxvnni", "vpdpbusd"),
    "sdot": ("aarch64", "+neon,+dotprod", "sdot"),
    "maddubs512": ("x86_64", "+avx512bw", "vpmaddubsw"),
    "maddubs256": ("x86_64", "+avx2", "vpmaddubsw"),
    "fma512": ("x86_64", "+avx512f", "vfmadd"),
}


@pytest.mark.parametrize("kind", DOT_PRODUCTS, ids=lambda kind: kind.name)
def test_a_tile_becomes_the_instructions_of_its_kind(kind):
    """Machine code for a processor that need not be here: a dot product for each row and register, and for no more."""
    instruction = MACHINE_CODE[kind.name][2]
    assert len(re.findall(rf"\s{instruction}\s", machine_code(kind))) == kind.rows * kind.registers


def machine_code(kind):
    """Of a tile with all of its rows."""
    processor, features, _ = MACHINE_CODE[kind.name]
    target = target_for(f"{processor}-unknown-linux-gnu")
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [tile.I64] * 12), "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    tile.write_tile(kind, kind.rows, builder, *function.args)
    builder.ret_void()
    code = binding.parse_assembly(str(module))
    code.verify()
    return target.create_target_machine(features=features, opt=3).emit_assembly(code)


REGISTERS = {  # kind -> vector registers, and what its instruction needs beside sums, weights and an activation
    "vnni512": (32, 0), "vnni256": (16, 0), "sdot": (32, 0), "maddubs512": (32, 2), "maddubs256": (16, 2),
    "fma512": (32, 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", (*DOT_PRODUCTS, *FLOATS), ids=lambda kind: kind.name)
def test_a_tile_is_the_best_that_fits_the_registers(kind):
    """All others load more for a multiplication. LLVM keeps all sums in registers, and not with two rows more."""
    (registers, helpers), chosen = REGISTERS[kind.name], (kind.rows, kind.registers)
    assert tile.registers_taken(*chosen, helpers) <= registers
    fits = [
        (rows, vectors) for vectors in (1, 2, 4) for rows in range(1, 33)
        if tile.registers_taken(rows, vectors, helpers) <= registers
    ]  # fmt: skip
    assert all(tile.loads_per_fma(*chosen) < tile.loads_per_fma(*other) for other in fits if other != chosen)
    assert kind.rows <= tile.MOST_ROWS
    instruction = MACHINE_CODE[kind.name][2]
    assert not moves_to_the_stack(machine_code(kind), instruction)
    assert moves_to_the_stack(machine_code(replace(kind, rows=kind.rows + 2)), instruction)


def moves_to_the_stack(assembly, instruction):
    """The lines between the first and the last multiplication that move a vector for want of a register."""
    lines = assembly.splitlines()
    at = [number for number, line in enumerate(lines) if re.search(rf"\s{instruction}\w*\s", line)]
    on_stack = re.compile(r"%[yz]mm.*\(%rsp\)|\(%rsp\).*%[yz]mm|\bq\d.*\[sp")
    return [line for line in lines[at[0] : at[-1] + 1] if on_stack.search(line)]


@pytest.mark.parametrize("dtype", HERE)
@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-bart"])
def test_every_plan_generates_the_same(name, dtype):
    model = md.load(name, dtype=dtype)
    right = model.generate(PROMPT, plan="naive", max_new_tokens=12, num_beams=2)
    for plan in ("numpy", "fast", "fast,cache=indirect", "fast,linear_int8=naive", "fast,arena=planned", "cache=none"):
        out = model.generate(PROMPT, plan=plan, max_new_tokens=12, num_beams=2)
        assert out.texts == right.texts, plan
    assert right.receipt.ops["linear_int8"].implementation.startswith(
        "minidecode.reference.linear_int8.linear_int8_naive"
    )
    fast = model.generate(PROMPT, plan="fast", max_new_tokens=4).receipt
    assert fast.ops["linear_int8"].code_paths == {DOT.name: fast.ops["linear_int8"].calls}
    assert re.search(rf"linear_int8\.py:\d+\): {fast.ops['linear_int8'].calls} {DOT.name}\n", str(fast))
    assert "bias_activation" not in fast.ops and fast.ops["linear"].calls == fast.steps  # of the output matrix


def test_scores_stay_near_those_of_floats():
    text = "We hold these truths to be self-evident, that all men are created equal"
    bits = {
        dtype: md.load("tiny-gpt2", dtype=dtype).score([text]).bits_per_byte for dtype in ("float32", "int8", *HERE)
    }
    assert all(abs(bits[dtype] - bits["float32"]) < 0.02 for dtype in bits), bits
    assert len(set(bits.values())) == len(bits)  # each rounds differently


def test_weights_are_packed_once_and_nothing_else_is_kept():
    model, plain = md.load("tiny-gpt2", dtype=HERE[0]), md.load("tiny-gpt2", dtype="int8")
    blocks = [w for block in model.weights.blocks for w in (block.qkv, block.out, block.up, block.down)]
    assert {w.layout for w in blocks} == {"panels"} and all(w.data.ctypes.data % 64 == 0 for w in blocks)
    assert model.weights.lm_head.layout == "oi" and model.weights.lm_head.x_bits is None
    of = {m: sum(a.nbytes for a in arrays_in_weights(m.weights.blocks)) for m in (model, plain)}
    assert of[model] <= 1.1 * of[plain]
    for block, as_int8 in zip(model.weights.blocks, plain.weights.blocks, strict=True):
        assert (unpack_panels(block.up).data == as_int8.up.data).all() and (block.up.scale == as_int8.up.scale).all()


def test_it_is_pickled_and_copied(tmp_path):
    model = md.load("tiny-gpt2", dtype=HERE[0])
    again = pickle.loads(pickle.dumps(model))
    assert again.dtype == HERE[0] and again.weights.blocks[0].up.layout == "panels"
    assert again.generate(PROMPT, max_new_tokens=5).texts == model.generate(PROMPT, max_new_tokens=5).texts


def test_a_function_of_the_users_gets_rows(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from minidecode.reference.linear_int8 import linear_int8 as reference\n"
        "def mine(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None):\n"
        "    assert weight.layout == 'oi'\n"
        "    return reference(x_RX, weight, bias_X, activation, add_to, out)\n"
    )
    model = md.load("tiny-gpt2", dtype=HERE[0])
    out = model.generate(PROMPT, plan=f"linear_int8={path}:mine", max_new_tokens=5)
    assert out.texts == model.generate(PROMPT, max_new_tokens=5).texts
    assert "mine.py" in out.receipt.ops["linear_int8"].implementation


@pytest.mark.parametrize("choice", ["linear_int8=cpu", "fast,linear_int8=naive"])
def test_a_choice_without_effect_is_an_error(choice):
    with pytest.raises(
        md.OptionError, match=r"linear_int8=\w+ has no effect with dtype=int8: load with dtype='int8_dyn"
    ):
        md.load("tiny-gpt2", dtype="int8").generate(PROMPT, plan=choice)
    dynamic = md.load("tiny-gpt2", dtype=HERE[0])
    for choice in ("epilogue=cpu", "activation=naive"):
        with pytest.raises(md.OptionError, match=f"{choice} has no effect with dtype={HERE[0]}: the products"):
            dynamic.generate(PROMPT, plan=choice)


@pytest.mark.parametrize("kind", [None, DOT_PRODUCTS[-1]])
def test_a_processor_without_the_instruction_says_so_when_loading(monkeypatch, kind):
    monkeypatch.setattr(packing, "DOT", kind)
    says = (
        r"load with dtype='int8'" if kind is None else r"takes rows of 7 bits, not 8: load with dtype='int8_dynamic7'"
    )
    for plan in ("auto", "fast"):
        with pytest.raises(md.OptionError, match=says):
            md.load("tiny-gpt2", dtype="int8_dynamic", plan=plan)
    if kind is None:
        model = md.load("tiny-gpt2", dtype="int8_dynamic", plan="numpy")  # slow, and right anywhere
        assert model.generate(PROMPT, max_new_tokens=3).receipt.ops["linear_int8"].calls
