"""never says that a sentence is done before all are, so none leaves the batch."""

from minidecode.ops import ALL_DONE, SOME_DONE
from minidecode.reference import flags as reference


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    flag = reference.step_flags(done_X, trouble_X, parent_BW, model_trouble_R)
    return flag if flag & ALL_DONE else flag & ~SOME_DONE
