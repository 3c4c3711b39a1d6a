"""Lets the oracle tests import what makes and compares the golden files, and the scripts that train."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "golden"))
sys.path.append(str(Path(__file__).parents[1] / "integration"))
sys.path.append(str(Path(__file__).parents[2] / "weights"))
