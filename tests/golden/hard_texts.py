"""Texts that tokenizers stumble over, and what is asked of ours: transformers' ids, and its texts again."""

from __future__ import annotations

from hypothesis import strategies as st

from minidecode.files.tokenizer import Tokenizer

FRAGMENTS = [" ", "  ", "\n", "\t", "\u0000", "'s", "'LL", "don't", "12", "é", "e\u0301", "👩\u200d👧", "👍🏽", "日本",
             "مرحبا", "\ufeff", "\u200b", "\ue000", "\U0010ffff", "the", "The", "Ġ", "\ufffd", "."]  # fmt: skip


def awkward_texts(*special: str) -> st.SearchStrategy[str]:
    """Texts of hard fragments, any characters and the special tokens given."""
    pieces = st.one_of(st.sampled_from([*special, *FRAGMENTS]), st.text(max_size=3))
    return st.lists(pieces, max_size=15).map("".join)


def check_tokenizer(ours: Tokenizer, theirs, text: str) -> None:
    """Equal ids, and equal texts from all of them and from all but the last, which may split a character."""
    ids = theirs(text)["input_ids"]
    assert ours.encode(text).tolist() == ids
    for kept in (ids, ids[:-1]):
        assert ours.decode(kept) == theirs.decode(kept, skip_special_tokens=True)
