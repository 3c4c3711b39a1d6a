"""turns the queries alone: keys go into the cache as they are."""

from dataclasses import replace

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    return reference.rotate_heads(qkv_RX, bias_X, replace(heads, G=0), pos_R, turns_NK)
