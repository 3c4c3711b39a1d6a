"""looks positions up in the rows of the next sentence, as where tables of several batches are joined without care."""

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, *rest):
    R, B = len(q_RHK), len(prompt_k_BGNK)
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return indirect.attend_indirect(q_RHK, *prompt, k_RGTK, v_RGTU, (indirection_RT + R // B) % R, *rest)
