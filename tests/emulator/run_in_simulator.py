"""Runs the small kernels in Numba's own simulator and writes what came out: NUMBA_ENABLE_CUDASIM must be 1."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from kernels_everywhere import CASES


def main() -> None:
    outputs = {}
    for case in (c for c in CASES if c.simulator):
        arguments = case.arguments()
        case.kernel[case.launch](*arguments)
        outputs[case.kernel.fn.__name__] = arguments[-1]
    np.savez(sys.argv[1], **outputs)


if __name__ == "__main__":
    main()
