"""A model as memory bounds and rounding bounds see it: weights on a device, their config, what their family can do."""

from __future__ import annotations

from ..models import FAMILIES
from ..models.config import Config, ModelWeights


class ModelOnDevice:
    """The fields of a loaded model (methods/loaded.py) that its sizes follow from."""

    weights: ModelWeights
    config: Config
    family: str
    dtype: str  # as given to `load`
    device: str

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether texts given are sources that another text is generated from (BART, UniLM), or beginnings (GPT-2)."""
        return self.has_encoder or self.reads_in_front

    @property
    def has_encoder(self) -> bool:
        """Whether a decoder looks at what an encoder makes of sources (BART, T5)."""
        return FAMILIES[self.family].has_encoder

    @property
    def reads_in_front(self) -> bool:
        """Whether the layers of a target read its source in front of it, so that both share one context (UniLM)."""
        return FAMILIES[self.family].reads_in_front

    @property
    def is_rotary(self) -> bool:
        """Whether queries and keys are turned by their positions (Llama)."""
        return FAMILIES[self.family].is_rotary

    @property
    def has_latent(self) -> bool:
        """Whether a latent stands in front of each text (gpt2_latent)."""
        return FAMILIES[self.family].has_latent
