"""What the chapters and exercises are made with: figures, the running example, graders. No op, no command.



A chapter says `from minidecode import course`. How one is written stands in docs/CHAPTERS.md.
"""

from .canvas import Canvas
from .exercises.in_notebook import check
from .figure import Figure, scrub, single
from .prediction import seal

__all__ = ["Canvas", "Figure", "check", "scrub", "seal", "single"]
