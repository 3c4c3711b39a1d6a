"""takes the position bias off the scores: the wrong sign."""

from dataclasses import replace

from minidecode.reference import indirect


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    wrong = bias and replace(bias, bias_XHP=-bias.bias_XHP)
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT
    return indirect.attend_indirect(q_RHK, *cache, begin_R, end_R, scale, wrong)
