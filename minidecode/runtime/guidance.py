"""Classifier-free guidance: every text is also continued behind another prompt, and the two predictions are compared.

Sanchez et al. 2023, "Stay on topic with Classifier-Free Guidance", equation 7. The processor `guidance_scale` combines
the scores; this engine computes those behind the other prompt, in a cache of its own, for the same rows.
"""

from __future__ import annotations

import numpy as np

from ..cache.queries import rows_per_token
from ..device.arrays import fetch, put
from .cpu_graphs import CapturedOnCpu
from .engine import Engine


class GuidedEngine(Engine):
    """An engine that steps a second one beside it, whose texts begin with the negative prompts.

    It doubles what a step computes and what caches hold.
    """

    why_in_parts = "a step asks the model twice, with guidance"

    def __init__(self, *args, negative_prompts: list[np.ndarray], **kwargs):
        super().__init__(*args, **kwargs)
        self.other = Engine(*args, **kwargs)
        self.other.on_cpu = self.on_cpu and CapturedOnCpu(self.on_cpu.refused)  # over its own caches
        self.other.graphs = self.graphs  # one account of what is captured, too
        self.other.seconds = self.seconds  # one account of the time
        self.negative_R = negative_prompts  # by row, as of now
        self.prompt_R = np.empty(0, np.int64)  # tokens of each row's own prompt; the prefill tells
        self.unconditional_RV: np.ndarray | None = None  # the other engine's logits, row by row

    def read_latent(self, z_BZ: np.ndarray) -> None:
        super().read_latent(z_BZ)
        self.other.latent = self.latent

    def prefill(self, prompts: list[np.ndarray], every_row: bool = False) -> np.ndarray:
        self.prompt_R = np.array([len(prompt) for prompt in prompts])
        self.unconditional_RV = self.other.prefill(self.negative_R)
        self.beside_bytes = self.other.cache_peak_bytes
        return super().prefill(prompts, every_row)

    def expand(self, beams: int, steps: int) -> None:
        self.other.expand(beams, steps)
        self.beside_bytes = self.other.cache_peak_bytes
        super().expand(beams, steps)
        each_R = np.repeat(np.arange(len(self.negative_R)), beams)
        self.unconditional_RV = self.ops.gather_rows(self.unconditional_RV, put(each_R, self.device))
        self._keep_rows(each_R)

    def keep_only(self, stays_B: np.ndarray, beams: int) -> None:
        self.other.keep_only(stays_B, beams)
        super().keep_only(stays_B, beams)
        self._keep_rows((stays_B[:, None] * beams + np.arange(beams)).reshape(-1))

    def step(self, tokens_RM: np.ndarray, length_R: np.ndarray, parent_R: np.ndarray | None) -> np.ndarray:
        texts_RM, lengths_R = fetch(tokens_RM), fetch(length_R)
        texts = [
            np.concatenate([negative, texts_RM[r, self.prompt_R[r] : lengths_R[r]]])
            for r, negative in enumerate(self.negative_R)
        ]
        others_RM = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for r, text in enumerate(texts):
            others_RM[r, : len(text)] = text
        other_length_R = np.array([len(text) for text in texts])
        self.unconditional_RV = self.other.step(put(others_RM, self.device), put(other_length_R, self.device), parent_R)
        self.rows += len(texts) * rows_per_token(self.weights)
        self.beside_bytes = self.other.cache_peak_bytes
        return super().step(tokens_RM, length_R, parent_R)

    def give_back_bucket(self) -> None:
        self.other.give_back_bucket()
        super().give_back_bucket()

    def _keep_rows(self, stays_R: np.ndarray) -> None:
        """Rows may repeat. A row's beams share its sentence, so parents change nothing here."""
        self.negative_R = [self.negative_R[r] for r in stays_R]
        self.prompt_R = self.prompt_R[stays_R]
