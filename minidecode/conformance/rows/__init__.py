"""What is asked of each row of the catalog, in a file of its name.

`inputs` is a strategy that draws the positional arguments of the op, `planted` a list of cases that random ones seldom
hit, and `large` more of them, of sizes at which versions break that are right on small ones (`sizes.py`): they are
tried within a budget of time, the cheapest first. Rows are distinct, so that row 0 for all rows is seen; what lies
behind a row's length is poison that would change the answer if it were read.

`oracle` is what the answer is, said once more in the plainest way, by no code that implements
the op, in float64 where it matters; `bound` how far an answer may lie from it, for rows under tolerance. Where several
answers are right, `judge` takes the results in front of the arguments and says what is wrong, or None; and `promise`,
where it is, likewise what an answer lacks that is right but not as good as every version but the naive one. `pardoned`,
where it is, takes a result, the oracle's and the arguments, and gives the result with the oracle's numbers where an
answer means nothing and does no harm: ops between a model and the end of a step meet NaN. `paper_inputs` are
(arguments, what they are) at the size that the paper times, of weights or caches that are stored as one of `STORED`,
where the row has that; `says`, where it is, puts into words what an implementation's time does not show, from a result
in front of the arguments; `numbers_made`, where it is, counts what the cost of an input goes by beside its arrays;
`HANDED_OUT` is False where no plan hands `out` to the op, so a user's function is not tried with it.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def asked_of(name: str) -> ModuleType:
    """The file of a row, which needs hypothesis: so it is imported here, when somebody judges."""
    return importlib.import_module(f"{__name__}.{name}")
