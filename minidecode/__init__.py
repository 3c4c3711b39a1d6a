"""minidecode: fast transformer decoding that can be read, checked and timed.

The first steps:

    import minidecode as md
    model = md.load("tiny-gpt2")
    out = model.generate(["Fellow citizens,"], num_beams=4, max_new_tokens=40, no_repeat_ngram_size=3)
    print(out.texts[0], out.receipt)

Importing it needs NumPy alone.
"""

from .errors import CheckpointError, InputError, MinidecodeError, NumericalError, OptionError
from .model import Model, Output, bundled_models, load
from .plan import Plan

__version__ = "0.1.0"
__all__ = [
    "CheckpointError",
    "InputError",
    "MinidecodeError",
    "Model",
    "NumericalError",
    "OptionError",
    "Output",
    "Plan",
    "bundled_models",
    "load",
]
