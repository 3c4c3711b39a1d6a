"""Sampling with beams against the newest transformers, live: the day on which it draws otherwise, this says so.

tests/golden/make_sampled_beams.py says what is compared; its recorded counts are of the versions that differed so far.
"""

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="needs transformers itself: pip install '.[oracle]'")
transformers = pytest.importorskip(
    "transformers", minversion="5.24", reason="needs transformers: pip install '.[oracle]'"
)

from make_sampled_beams import CASES, drawn, likeliest, loaded, options_of  # noqa: E402
from test_dialect_golden import drawn_here, likelihood_of_one_source  # noqa: E402


@pytest.mark.parametrize("number", range(len(CASES)))
def test_texts_are_drawn_as_often_as_the_newest_transformers_draws_them(number):
    name, prompt, options = CASES[number]
    theirs = loaded(name)
    options = options_of(options, likeliest(theirs, prompt))
    expected = drawn(theirs, prompt, options, seed=100 + number)
    found = drawn_here({"model": name, "prompt": prompt, "options": options})
    assert likelihood_of_one_source(found, expected) > 1e-4, (
        f"transformers {transformers.__version__} draws otherwise than dialect=hf, which follows 5.24: record it with "
        f"tests/golden/make_sampled_beams.py; {found.most_common(5)} and {expected.most_common(5)}"
    )
