"""Judges any implementation of an op, yours or ours: inputs, oracles, bounds, kernel types and builds. No timing.



    import minidecode as md
    print(md.conformance.check("ngram", my_function))

The same from the shell: `minidecode check ngram my_file.py:my_function`.
"""

from .check import Verdict, check

__all__ = ["Verdict", "check"]
