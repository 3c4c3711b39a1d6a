"""never says that a beam has moved, so caches stay behind."""

from minidecode.ops import MOVED
from minidecode.reference import flags as reference


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    return reference.step_flags(done_X, trouble_X, parent_BW, model_trouble_R) & ~MOVED
