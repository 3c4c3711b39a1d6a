"""reads the table column by column, as one that lies with the positions first."""

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, *rest):
    transposed_RT = indirection_RT.reshape(indirection_RT.shape[::-1]).T
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return indirect.attend_indirect(q_RHK, *prompt, k_RGTK, v_RGTU, transposed_RT, *rest)
