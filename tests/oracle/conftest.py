"""Lets the oracle tests import what makes the golden files, and their tolerances."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "golden"))
