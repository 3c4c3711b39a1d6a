"""takes no notice of what was noted of the model's scores before processors."""

from minidecode.reference import tell as reference


def tell_step(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    return reference.tell_step(done_X, trouble_X, parent_BW)
