"""Machine code is counted from the disassembler's text: loops, waits, 64-bit compares. No toolkit is needed."""

import pytest

from minidecode.conformance.machine_code import count_instructions
from minidecode.errors import OptionError

HEAD = [
    "        /*0000*/                   LDC R1, c[0x0][0x28] ;",
    "        /*0010*/              @!P0 BRA `(.L_x_9) ;",
]
TAIL = [".L_x_9:", "        /*0900*/                   EXIT ;", "        /*0910*/                   NOP ;"]
LOAD = "        /*0100*/                   LDG.E.128 R{}, desc[UR4][R2.64] ;"
USE = "        /*0200*/                   FFMA R40, R{}, R41, R40 ;"
BACK = "        /*0300*/               @P0 BRA `(.L_x_1) ;"


def counts(*body: str):
    return count_instructions("\n".join([*HEAD, ".L_x_1:", *body, BACK, *TAIL]))


def test_loads_that_are_used_one_by_one_wait_each_time():
    one = counts(LOAD.format(4), USE.format(7), LOAD.format(8), USE.format(8))
    assert (one.loop_loads, one.loop_bytes, one.loop_waits, one.first_loads) == (2, 32, 2, 1)


def test_loads_that_are_issued_together_wait_once():
    both = counts(LOAD.format(4), LOAD.format(8), USE.format(4), USE.format(11))
    assert (both.loop_loads, both.loop_waits, both.first_loads) == (2, 1, 2)
    assert (both.loop_instructions, both.loop_bytes) == (5, 32)


def test_a_load_for_the_next_turn_is_waited_for_there():
    ahead = counts(USE.format(4), LOAD.format(4))
    assert (ahead.loop_waits, ahead.first_loads) == (1, 1)


def test_branches_compares_and_local_memory():
    found = counts(
        LOAD.format(4), USE.format(4), "        /*0210*/                   ISETP.GE.AND.EX P0, PT, R1, RZ, PT, P0 ;",
        "        /*0220*/                   ISETP.GE.AND P0, PT, R1, RZ, PT ;",
        "        /*0230*/              @!P1 STL [R1+0x8], R4 ;", "        /*0240*/                   LDL.64 R6, [R1] ;",
    )  # fmt: skip
    assert (found.branches, found.wide_compares, found.local_accesses) == (2, 1, 2)
    assert (found.instructions, found.loop_instructions) == (10, 7)


def test_the_loop_that_loads_most_is_the_main_one():
    small = [".L_x_3:", LOAD.format(4), USE.format(4), "        /*0250*/               @P2 BRA `(.L_x_3) ;"]
    outer = counts(LOAD.format(8), USE.format(8), *small)
    assert (outer.loop_loads, outer.loop_instructions) == (2, 6), "the loop around it loads more"
    inner = counts(*small)
    assert (inner.loop_loads, inner.loop_instructions) == (1, 3), "as much: the inner one"


def test_half_of_the_branches_forward_are_taken():
    guarded = ["        /*0150*/              @!P1 BRA `(.L_x_4) ;", LOAD.format(4), USE.format(4), ".L_x_4:"]
    found = counts(LOAD.format(8), USE.format(8), *guarded)
    assert (found.loop_instructions, found.turn_instructions) == (6, 5)
    assert (found.turn_loads, found.turn_bytes, found.turn_waits) == (1.5, 24, 1.5)
    assert found.rest_instructions == 3, "two before the loop, and the end, which all come to"


def test_code_out_of_the_way_is_no_loop():
    away = [".L_x_5:", LOAD.format(4), "        /*0400*/                   EXIT ;",
            "        /*0410*/                   BRA `(.L_x_5) ;"]  # fmt: skip
    found = count_instructions("\n".join([*HEAD, *away, *TAIL]))
    assert not found.has_loop
    assert found.loop_instructions == found.instructions


def test_a_text_without_instructions_is_refused():
    with pytest.raises(OptionError, match="no instruction"):
        count_instructions("\t.target\tsm_90\n")
