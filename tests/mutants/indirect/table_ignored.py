"""reads each row's own positions where it wrote them, as if no beam had ever changed places."""

from minidecode.reference import split


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, *rest):
    return split.attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, *rest)
