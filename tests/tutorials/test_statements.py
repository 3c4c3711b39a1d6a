"""Numbers that chapters state in prose are those that their cells print, or that a line computes here.

What a cell prints is kept fresh by test_chapters.py, so a sentence that repeats it is compared with what is recorded.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.course.chapters import OUTPUT, find_chapter, without_outputs
from minidecode.reference.linear_int8 import EXACT, MOST_INPUTS

ROOT = Path(__file__).parents[2]
PRINTED = [  # chapter, what the prose says, what a cell prints
    ("00", r"products of that step take ([\d,]+) operations", r"plan naive: ([\d,]+) operations for one token"),
    ("01", r"it is busy for 0.5 of ([\d.]+)\.", r"v100 +([\d.]+)"),
    ("01", r"The roof rises to ([\d.]+) a byte", r"recorded +([\d.]+)"),
    ("01", r"agrees with (\d+) without", r"v100 +([\d.]+)"),
    ("01", r"without and (\d+) with tensor cores", r"v100 .* (\d+) on tensor cores"),
    ("02", r"\+ 95 = ([\d,]+) rows in all", r"64 steps, ([\d,]+) rows"),
    ("02", r"each token is computed once: (\d+) rows", r"tokens that were ever fed: (\d+)"),
    ("02", r"The rows fell (\d+) times", r"rows: not predicted, found ([\d.]+)"),
    ("02", r" and ([\d.]+) \(the bytes of the products\)", r"product_bytes: not predicted, found ([\d.]+)"),
    ("03", r"`cache=replicated` has these ([\d.]+) MB", r"new arrays ([\d.]+) MB"),
    ("09", r'asks the prompt "we meet again we", in head (\d)', r"beam 1, head (\d)"),
    ("11", r"It is 8 \* \(1 \+ 1/2 \+ ... \+ 1/8\) = ([\d.]+);", r"C =  8: law ([\d.]+)"),
    ("13", r"two steps of zero instead of (\d+)\.", r"a scale for each row +half of the inputs within (\d+) steps"),
]


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize(("chapter", "stated", "printed"), PRINTED)
def test_prose_repeats_what_a_cell_prints(chapter, stated, printed):
    """To as many digits as the prose has."""
    text = find_chapter(chapter).text
    (said,) = re.findall(stated, " ".join(without_outputs(text).split()))
    seen = re.findall(printed, "\n".join(OUTPUT.findall(text)))[0]
    digits = len(said.partition(".")[2])
    assert number(said) == round(number(seen), digits)


def test_operations_fell_as_often_as_chapter_2_says():
    """By the catalog's costs, of a prompt and an answer as long as the chapter's."""
    model, operations = md.load("tiny-gpt2"), {}
    for plan in ("cache=none", "cache=preallocated"):
        how = {"max_new_tokens": 64, "min_new_tokens": 64, "plan": plan, "costs": True}
        ops = model.generate(input_ids=[list(range(5, 37))], **how).receipt.ops
        operations[plan] = sum(cost.operations for op in ops.values() for cost in op.costs)
    (said,) = re.findall(r"between (\d+) \(the operations\)", find_chapter("02").text)
    assert int(said) == round(operations["cache=none"] / operations["cache=preallocated"])


def test_what_chapter_11_says_of_thresholds_for_each_beam():
    """Beams with equal scores lose hardly anything; one that is far ahead loses in half of all steps, as a row does."""
    losses = (ROOT / "benchmarks" / "results" / "hars-losses.json").read_text(encoding="utf-8")
    alike, *_, far_apart = json.loads(losses)["beam_scores"]
    assert alike["gap"] == 0 and alike["few_per_beam"] < 0.02 and alike["strict_per_beam"] < 0.01
    assert far_apart["few_per_beam"] == far_apart["few_flat"] and abs(far_apart["few_flat"] - 0.5) < 0.05


def test_float16_is_off_by_the_power_that_chapter_13_states():
    """The step above 1 is 2^-10, and rounding is off by half a step; 2^-12 would be half as much as there is."""
    power = int(re.search(r"at most\s2\^-(\d+)\sof\sitself", find_chapter("13").text)[1])
    weights_X = np.linspace(1, 2, 2**16 + 1)
    largest = (np.abs(weights_X.astype(np.float16) - weights_X) / weights_X).max()
    assert 2.0 ** -(power + 1) < largest <= 2.0**-power


def test_whole_numbers_fit_where_chapter_13_says():
    """Products of bytes in 16 bits, in the 24 of a float32, and in 32."""
    text = " ".join(find_chapter("13").text.split())
    assert "255 * 127 = 32,385. Two of them are beyond 32,767" in text and 255 * 127 == 32_385 <= 2**15 - 1 < 2 * 32_385
    assert "2 * 127 * 127 = 32,258 just fits" in text and 2 * 127 * 127 == 32_258 <= 2**15 - 1
    assert "exactly up to 2^24, and 1,040 products of 127 by 127" in text and EXACT == 1_040 == 2**24 // 127**2
    assert "room for 66,000 inputs" in text and MOST_INPUTS == 66_000 <= (2**31 - 1) // (255 * 127)


def test_scores_of_the_second_sentence_collide_as_chapter_11_says():
    text = find_chapter("11").text
    assert "equal that were not, from the second sentence on" in text
    different = dict(re.findall(r"sentence (\d): +(\d+) different scores of 1,000", text))
    assert different["1"] == "1000" and int(different["2"]) < 1000


def test_a_profile_before_the_changes_is_fastseqs_figure_1a():
    """The paper's sections 4.2 and 4.3: a quarter for n-grams and 38 % for post-processing; 1b is after the changes."""
    assert "a quarter of the whole time in it (Figure 1a)" in find_chapter("06").text
    assert "FastSeq's profile before its changes (Figure 1a): 38 %" in find_chapter("15").text
