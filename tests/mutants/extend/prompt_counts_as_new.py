"""counts the prompt into the limit of new tokens."""

from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    return reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R,
        done_R, 0 * prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
