"""Judges any implementation of an op: yours, a student's, or ours.

    import minidecode as md
    print(md.conformance.check("ngram", my_function))

The same from the shell: `minidecode check ngram my_file.py:my_function`.
"""

from .check import Verdict, check

__all__ = ["Verdict", "check"]
