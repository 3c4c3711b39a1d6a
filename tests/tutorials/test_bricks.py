"""The figure of a memory's bricks tells copies by what is stored, and where."""

import numpy as np

from minidecode.course.bricks import Strip, count_copies, draw_bricks, draw_lookups


def test_a_copy_is_the_same_bits_for_the_same_position():
    a_MX = np.arange(8.0).reshape(4, 2)
    whole = Strip("beam 0", "abcd", a_MX)
    assert count_copies([whole]) == 0
    assert count_copies([whole, whole]) == 4
    assert count_copies([whole, Strip("beam 1", "bc", a_MX[1:3], first=1)]) == 2
    assert count_copies([whole, Strip("elsewhere", "bc", a_MX[1:3], first=2)]) == 0, "another position is another brick"
    assert count_copies([whole, Strip("beam 1", "abcd", np.nextafter(a_MX, 9))]) == 0, "one bit apart"


def test_bricks_and_lookups_are_drawn_as_told():
    strips = [Strip("beam 0", "ab", np.zeros((2, 2))), Strip("beam 1", "ab", np.zeros((2, 2)))]
    alt = "Two rows of two bricks, the second row copies."
    figure = draw_bricks([("Step 1.", {"each": strips})], name="99-b", caption="Copies?", alt=alt)
    svg = figure.files()["99-b.svg"]
    assert "4 bricks, 2 copies: 64 bytes" in svg and svg.count('class="pale edge"') == 3  # two and the legend's
    table = draw_lookups(["ab", "cd"], np.array([[1, 0], [0, 1]]), name="99-t", caption="Where?", alt=alt)
    assert table.labels == ('Row 0 reads "c b".', 'Row 1 reads "a d".')
