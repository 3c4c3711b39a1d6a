"""turns the values too, as far as they are as wide as keys."""

from dataclasses import replace

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    wide = replace(heads, G=2 * heads.G) if heads.U == heads.K else heads
    return reference.rotate_heads(qkv_RX, bias_X, wide, pos_R, turns_NK)
