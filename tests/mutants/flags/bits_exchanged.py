"""tells trouble by the bit of being done."""

from minidecode.ops import ALL_DONE, MOVED, TROUBLE
from minidecode.reference import flags as reference


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    flag = reference.step_flags(done_X, trouble_X, parent_BW, model_trouble_R)
    return flag & MOVED | (flag & ALL_DONE) * TROUBLE | (flag & TROUBLE) // TROUBLE
