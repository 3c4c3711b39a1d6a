"""What a generation returns: token ids, scores, texts and the receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..search.stopping import cut_at_stop
from ..search.trace import Trace
from .receipt import Receipt

if TYPE_CHECKING:
    from ..files.tokenizer import Tokenizer


@dataclass(repr=False)
class Output:
    """What `generate` returns: one entry per hypothesis, num_return_sequences of each prompt in turn, best first."""

    token_ids: list[np.ndarray]  # new tokens alone, EOS included where it was reached
    scores: np.ndarray  # sum of log-probabilities / length ** length_penalty
    receipt: Receipt
    tokenizer: Tokenizer | None
    trace: Trace | None = None  # if it was asked for
    stop_strings: tuple[str, ...] = ()
    keep_stop_strings: bool = False

    def __repr__(self) -> str:
        said = self.texts if self.tokenizer else [f"{len(ids)} tokens" for ids in self.token_ids]
        return "\n".join(f"{score:9.4f}  {text!r}" for score, text in zip(self.scores, said, strict=True))

    @property
    def texts(self) -> list[str]:
        """The new text of each hypothesis, up to its stop string, without the prompt and without special tokens."""
        if self.tokenizer is None:
            raise InputError("this model folder has no tokenizer: read token_ids instead of texts")
        texts = [self.tokenizer.decode(ids) for ids in self.token_ids]
        return [cut_at_stop(text, self.stop_strings, self.keep_stop_strings) for text in texts]
