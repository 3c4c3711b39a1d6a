"""never says that a text is done before all are, so none leaves the batch."""

from minidecode.ops import ALL_DONE, SOME_DONE
from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    flag = reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
    return flag if flag & ALL_DONE else flag & ~SOME_DONE
