"""takes no notice of what was noted of the model's scores before processors."""

from minidecode.reference import flags as reference


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    return reference.step_flags(done_X, trouble_X, parent_BW)
