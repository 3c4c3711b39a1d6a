"""reports texts that are done and have no token left."""

from minidecode.ops import TROUBLE
from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    flag = reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
    return flag | TROUBLE if trouble_R.any() else flag
