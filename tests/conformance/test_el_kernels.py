"""EL's version 3: what it launches, and what float16 costs it."""

import numpy as np
import pytest

import minidecode as md
from minidecode.conformance.rows import el as el_row
from minidecode.cuda import el
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.device.matmul import PRODUCT

attend = InEmulator(el.attend_el_v3)
SMALL = dict(B=2, W=2, N=9, H=4, G=2, K=3, U=2, D=8, h_dtype=np.float16)
HALF_CASES = [
    SMALL,
    SMALL | dict(W=3, H=3, G=1, N=33, D=31),
    SMALL | dict(B=1, N=1, D=1),
    SMALL | dict(B=1, H=2, N=70, K=16, U=8, D=130),
]


@pytest.mark.parametrize("half", [False, True])
def test_version_3_is_one_kernel_among_four_products(half):
    with counted_launches() as launches:
        attend(*el_row.make_arguments(**SMALL), half=half)
    assert launches == {"masked_softmax (emulator)": 1, f"{PRODUCT} (numpy)": 4}


def rounding(x):
    """r(x): half a unit in the last place of float16, at most."""
    return np.maximum(2.0**-11 * np.abs(x), 2.0**-25)


def half_bound(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale):
    """What the roundings of q' and p may move, as attend_el_v3 says, beside what float32 may."""
    H, G, moved = q_RHK.shape[1], len(w_k_GKD), []
    for _, q_HK, h_ND in el_row.iterate_rows(q_RHK.astype(np.float64), h_BND.astype(np.float64), begin_B):
        for h, q_K in enumerate(q_HK):
            g = h // (H // G)
            el_q_D, v_NU = scale * q_K @ w_k_GKD[g], h_ND @ w_v_GUD[g].T
            p_N = np.exp(h_ND @ el_q_D - (h_ND @ el_q_D).max())
            p_N /= p_N.sum()
            e_N = np.abs(h_ND) @ rounding(el_q_D)
            f_N = np.exp(e_N) * (p_N @ np.exp(e_N))
            moved.append((f_N - 1) * p_N @ np.abs(v_NU - p_N @ v_NU) + rounding(f_N * p_N) @ np.abs(v_NU))
    float32 = el_row.error_bound(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale)
    return float32 + np.reshape(moved, float32.shape)


def off_and_bound(**sizes):
    arguments = el_row.make_arguments(**sizes)
    return np.abs(attend(*arguments, half=True) - el_row.oracle(*arguments)), half_bound(*arguments)


@pytest.mark.parametrize("sizes", HALF_CASES, ids=str)
def test_float16_factors_err_by_their_roundings_and_no_more(sizes):
    off, bound = off_and_bound(**sizes)
    assert (off <= bound).all()
    one_position = sizes["N"] == 1  # whose weight is 1, in any type
    assert one_position or (off > el_row.error_bound(*el_row.make_arguments(**sizes))).any(), (
        "nothing was rounded to float16"
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_the_bound_of_float16_is_narrow(seed):
    """Roundings eight times as coarse, which are bfloat16's, would break it."""
    off, bound = off_and_bound(seed=seed, **SMALL)
    assert (8 * off > bound).any()


def test_float16_factors_want_float16_hidden_states():
    with pytest.raises(md.OptionError, match=r"half=True .* these are float32"):
        attend(*el_row.make_arguments(**SMALL | dict(h_dtype=np.float32)), half=True)
