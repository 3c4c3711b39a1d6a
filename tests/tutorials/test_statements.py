"""Numbers that chapters state in prose are those that their cells print, or that a line computes here.

What a cell prints is kept fresh by test_chapters.py, so a sentence that repeats it is compared with what is recorded.
"""

import re

import numpy as np
import pytest

from minidecode.course.chapters import OUTPUT, find_chapter, without_outputs

PRINTED = [  # chapter, what the prose says, what a cell prints
    ("00", r"products\nof that step take ([\d,]+) operations", r"plan naive: ([\d,]+) operations for one token"),
    ("02", r"43 \(the arithmetic\) and ([\d.]+) \(the bytes\)", r"product_bytes: not predicted, found ([\d.]+)"),
    ("09", r'asks the prompt "we meet again we", in head (\d)', r"beam 1, head (\d)"),
]


@pytest.mark.parametrize(("chapter", "stated", "printed"), PRINTED)
def test_prose_repeats_what_a_cell_prints(chapter, stated, printed):
    text = find_chapter(chapter).text
    outputs = "\n".join(OUTPUT.findall(text))
    said, seen = re.findall(stated, without_outputs(text)), re.findall(printed, outputs)
    assert said and seen and set(said) == set(seen[:1])


def test_float16_is_off_by_the_power_that_chapter_12_states():
    """The step above 1 is 2^-10, and rounding is off by half a step; 2^-12 would be half as much as there is."""
    power = int(re.search(r"at most 2\^-(\d+) of itself", find_chapter("12").text)[1])
    weights_X = np.linspace(1, 2, 2**16 + 1)
    largest = (np.abs(weights_X.astype(np.float16) - weights_X) / weights_X).max()
    assert 2.0 ** -(power + 1) < largest <= 2.0**-power


def test_a_profile_before_the_changes_is_fastseqs_figure_1a():
    """The paper's sections 4.2 and 4.3: a quarter for n-grams and 38 % for post-processing; 1b is after the changes."""
    assert "a quarter of the whole time in it (Figure 1a)" in find_chapter("06").text
    assert "FastSeq's profile before its changes (Figure 1a): 38 %" in find_chapter("13").text
