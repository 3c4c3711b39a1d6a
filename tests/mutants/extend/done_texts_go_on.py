"""writes on where a text is done."""

from minidecode.ops import ALL_DONE
from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    was_done_R, done_R[...] = done_R.copy(), False
    flag = reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
    done_R |= was_done_R
    return flag | ALL_DONE if done_R.all() else flag & ~ALL_DONE
