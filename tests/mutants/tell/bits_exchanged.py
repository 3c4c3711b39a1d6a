"""tells trouble by the bit of being done."""

from minidecode.ops import ALL_DONE, MOVED, TROUBLE
from minidecode.reference import tell as reference


def tell_step(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    flag = reference.tell_step(done_X, trouble_X, parent_BW, model_trouble_R)
    return flag & MOVED | (flag & ALL_DONE) * TROUBLE | (flag & TROUBLE) // TROUBLE
