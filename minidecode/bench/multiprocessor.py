"""A small model of a GPU's multiprocessors: how near to a copy's bandwidth a kernel comes, and what stops it.

A kernel that moves much and computes little could be as fast as a copy. Six limits can stop it. `seconds_by_limit`
computes the time that a launch would need if there were only one of them:

    memory    bytes of device memory / its bandwidth
    L2        bytes that blocks do not find in their L1 / the bandwidth of L2
    L1        lines of 128 bytes that warps ask for / lines a cycle
    shared    passes of shared memory / passes a cycle
    issue     cycles that instructions occupy the schedulers or their units / cycles
    latency   what a warp waits and computes, from its begin to its end / warps that take turns (Little's law)

Limits that are near each other get into each other's way: `combine_limits` adds them as the sides of a right angle.
What the model needs is counted without a GPU: registers, instructions and waits in the machine code
(conformance/machine_code.py), accesses of one block in the emulator. No number here is of one kernel alone.

A product of the library has no such code to count. `seconds_of_product` gives it two limits, its bytes at the bandwidth
of a copy and its operations at a share of what the units do:

    memory    bytes of both factors and of the result / a copy's bandwidth
    products  operations / the rate of products

The model does not know which branches are taken (half of those forward), how soon a line is read again, or how data
goes through the pages of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..emulator.one_block import Asked

WARP = 32


@dataclass(frozen=True)
class Multiprocessors:
    """The rates of one kind of GPU. What is not the whole GPU's is one multiprocessor's; _cycles are latencies."""

    name: str
    count: int
    clock: float  # cycles a second under load
    bandwidth: float  # bytes a second that reading reaches, the whole GPU's
    latency: float  # seconds from a load of device memory until its value is there
    registers: int = 65_536
    warps: int = 64
    blocks: int = 32
    shared: int = 228 * 1024  # bytes, for all blocks
    l1: int = 256 * 1024  # bytes of L1 and shared memory together
    l2: int = 50 * 10**6  # bytes, the whole GPU's
    l2_bandwidth: float = 5.5e12  # the whole GPU's
    schedulers: int = 4  # each issues an instruction a cycle
    lines: float = 0.5  # of L1 a cycle; from the measured products of benchmarks/gpu_linear.py
    l1_cycles: float = 35
    l2_cycles: float = 250
    shared_cycles: float = 25  # of shared memory and shuffles
    barrier_cycles: float = 30
    dependent_cycles: float = 4  # from an instruction to the next that needs its result
    launch: float = 1.1e-6  # seconds of a launch in a graph
    # Of the library's products. float32: 1,024 cubed took 55.2 us in a graph (2026-11-26), 58 % of 67e12. float16: half
    # of the 800e12 of the tensor cores, assumed; int8 has twice the rate of float16.
    copy: float = 2.4e12  # bytes a second, read and written
    product_launch: float = 2.6e-6
    float32_products: float = 39e12  # operations a second
    float16_products: float = 400e12


H100 = Multiprocessors("h100", 132, 1.7e9, 3.0e12, 600e-9)


@dataclass(frozen=True)
class Code:
    """What the assembler and the disassembler say of a kernel; machine_code.Counts explains a turn and the rest."""

    registers: int  # of a thread
    shared_bytes: int  # of a block
    turn_instructions: float
    turn_cycles: float
    turn_loads: float
    turn_bytes: float
    turn_waits: float
    turn_others: float
    rest_instructions: float
    rest_cycles: float
    rest_others: float

    @property
    def width(self) -> float:
        """Bytes that a load brings to a thread: the emulator sees elements, the machine code has wider loads."""
        return self.turn_bytes / self.turn_loads if self.turn_loads else 4.0


@dataclass(frozen=True)
class Product:
    """A product that the library computes; one multiplication with its addition counts as two operations."""

    calls: int
    bytes: int  # of both factors and of the result
    operations: int
    itemsize: int = 2  # bytes of a number of a factor: 4 is float32; 2 and 1 go to tensor cores


def resident_blocks(gpu: Multiprocessors, code: Code, work: Asked) -> int:
    """Blocks that a multiprocessor holds at a time: its occupancy."""
    warps = -(-work.threads // WARP)
    registers = 8 * -(-code.registers // 8) * WARP * warps  # a warp gets them by 256
    by_shared = gpu.shared // (code.shared_bytes + 1024)  # the driver's kilobyte
    return max(1, min(gpu.blocks, gpu.warps // warps, gpu.registers // registers, by_shared))


def bytes_moved(work: Asked) -> float:
    """Bytes that the blocks read and write, each for itself: what several of them read counts several times."""
    return (work.footprint + work.written) * work.blocks


def seconds_by_limit(gpu: Multiprocessors, code: Code, work: Asked, useful: float) -> dict[str, float]:
    """Seconds that each limit alone would need. useful: bytes that an op must move, at least."""
    warps, blocks = -(-work.threads // WARP), resident_blocks(gpu, code, work)
    loads = work.loaded / code.width

    # Where a block finds what it reads a second time: in L1, if the blocks beside it leave it there; or in L2.
    again = max(0.0, work.sectors - work.footprint)
    beside = work.footprint * min(blocks, -(-work.blocks // gpu.count))
    of_l1 = gpu.l1 - blocks * code.shared_bytes
    in_l1 = beside <= of_l1
    in_l2 = beside * min(gpu.count, work.blocks) <= gpu.l2
    common = max(0.0, bytes_moved(work) - useful) / work.blocks  # what other blocks read too: L1 keeps it, if it fits
    beyond_l1 = work.footprint + work.written + (0 if in_l1 else again) - (common if common <= of_l1 else 0)
    memory = min(useful, bytes_moved(work)) + (0 if in_l1 or in_l2 else again * work.blocks)

    # Turns of the main loop, as many as bring the bytes; then the rest, as often as it makes the other requests.
    turns = loads / code.turn_loads if code.turn_loads else 0.0
    others = work.stored / code.width + work.shared_requests + work.shuffles
    rest = max(0.0, others - turns * code.turn_others) / max(1.0, code.rest_others)
    waits = turns * code.turn_waits
    far = min(waits, loads * min(1.0, memory / work.blocks / max(1.0, work.sectors)))  # of them, for device memory
    cycles = (turns * code.turn_instructions + rest * code.rest_instructions) * gpu.dependent_cycles
    cycles += far * gpu.latency * gpu.clock + (waits - far) * (gpu.l1_cycles if in_l1 else gpu.l2_cycles)
    cycles += (work.shared_requests + work.shuffles) * gpu.shared_cycles
    of_a_warp = cycles / warps + work.barriers * gpu.barrier_cycles
    rounds = max(1.0, work.blocks / (blocks * gpu.count))

    busy = gpu.clock * min(gpu.count, work.blocks) / work.blocks  # cycles a second for a block
    issued = (turns * code.turn_cycles + rest * code.rest_cycles) / gpu.schedulers
    return {
        "memory": memory / gpu.bandwidth,
        "L2": beyond_l1 * work.blocks / gpu.l2_bandwidth,
        "L1": work.lines / code.width / gpu.lines / busy,
        "shared": work.shared_passes / busy,
        "issue": issued / busy,
        "latency": rounds * of_a_warp / gpu.clock,
    }


def seconds_of_product(gpu: Multiprocessors, product: Product) -> dict[str, float]:
    """Seconds that each limit of a product of the library alone would need, without its launch."""
    rate = gpu.float32_products if product.itemsize == 4 else gpu.float16_products * 2 / product.itemsize
    return {"memory": product.bytes / gpu.copy, "products": product.operations / rate}


def combine_limits(limits: dict[str, float]) -> float:
    """Seconds, where all of them hold: that of the largest, if the others are far from it."""
    return sum(seconds**2 for seconds in limits.values()) ** 0.5


def bandwidth_by_littles_law(gpu: Multiprocessors, code: Code, work: Asked) -> float:
    """Bytes a second, by Little's law alone: bytes on their way / how long they are on it. It cannot rank kernels."""
    loads = code.turn_loads / code.turn_waits if code.turn_waits else 1.0
    at_once = min(resident_blocks(gpu, code, work) * gpu.count, work.blocks)
    return min(gpu.bandwidth, at_once * work.threads * code.width * loads / gpu.latency)
