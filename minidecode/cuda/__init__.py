"""The ops as Numba-CUDA kernels, under the same file and function names. Shared code is in common/.

Each file opens with its ladder: one sentence for what each version changes. Every version stays callable. Kernels
decorate without a GPU; launch.py runs them on one, or in the emulator.

The ladder ends in the floor of the newest version, a prediction, and what was measured. Three rules predict an H100: a
launch in a graph takes 1.1 us; a load that waits for memory, or for another load's result, 0.5 us more (`beam_scores`
has one, and took 1.5 us); what is larger than the L2 cache moves at a copy's 2.4 TB/s, reads and writes together. All
records are in benchmarks/results/gpu-h100-kernels.json.

`minidecode predict` counts more: a share is 1 over the root of the sum of (1 / share)^2 of its limits, less what a
launch takes (bench/multiprocessor.py).

A docstring gives the launch, grid and block, and the bytes that all threads ask for, whether memory or a cache serves
them. Letters are those of dims.py; s is the size of the number that it names.
"""

from ..device.kernels import SOURCES
from ..device.sources import hash_of_sources

hash_of_sources(SOURCES)  # of what is imported from here on: files may change before a kernel is compiled
