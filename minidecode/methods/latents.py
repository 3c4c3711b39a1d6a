"""Latents of sentences: those that are given, drawn from the prior, or read from texts."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device.arrays import fetch
from ..device.blas_threads import few_blas_threads
from ..errors import InputError, OptionError
from ..models import bert
from ..plan import Plan
from ..runtime.draws import sentence_keys
from ..runtime.inputs import Texts
from ..runtime.receipt import CountedOps
from .encoding import Read, fit_rows, forward_passes, refuse_nonfinite
from .loaded import LoadedModel
from .out_of_memory import retries_after_freeing

MOST_STEPS = 2**16  # of an interpolation


@dataclass(frozen=True)
class Posterior:
    """What an encoder says of the latents of texts: z is normally distributed, each number by itself."""

    mean_BZ: np.ndarray
    log_variance_BZ: np.ndarray

    def sample(self, seed: int) -> np.ndarray:
        """z_BZ = mean + exp(log variance / 2) * noise. Raises OptionError on a seed that is none."""
        noise_BZ = np.random.default_rng(checked_seed("seed", seed)).standard_normal(self.mean_BZ.shape)
        return (self.mean_BZ + np.exp(self.log_variance_BZ / 2) * noise_BZ).astype(self.mean_BZ.dtype)


@retries_after_freeing
def encode_latent(
    model: LoadedModel, texts: Texts | None = None, *, input_ids: Any = None, attention_mask: Any = None,
    plan: str | Plan | None = None,
) -> Posterior:  # fmt: skip
    """What the encoder of a model with a latent reads from texts: mean and log variance of their latents.

        z_BZ = model.encode_latent(["the old baker sold a boat."]).mean_BZ
        print(model.generate("the", latent=z_BZ).texts)

    Raises InputError on texts that cannot be used, OptionError on a model without a latent.
    """
    if not model.has_latent:
        raise OptionError(f"encode_latent: a {model.family} model has no latent: use one of type gpt2_latent")
    most = model.config.n_positions
    ids = model.inputs.read_texts_or_ids(texts, input_ids, attention_mask, "text", most)
    ids = fit_rows(ids, most, None, model.inputs.count_closing(ids))
    plan = (model.plan if plan is None else Plan.parse(plan)).on(model.device)
    functions, _ = plan.resolve(device=model.device, **model.plan_traits)
    ops, read = CountedOps(functions), Read(ids, [np.zeros_like(row) for row in ids])
    with few_blas_threads(model.is_small):
        rows = forward_passes(bert, model.weights.encoder, ops, read, most, model.device, first_alone=True)
        parts = [fetch(model.network.posterior(model.weights, x_RD, ops)) for x_RD, _ in rows]
    mean_BZ, log_variance_BZ = np.split(np.concatenate(parts), 2, axis=1)
    refuse_nonfinite(model, mean_BZ)
    refuse_nonfinite(model, log_variance_BZ)
    return Posterior(mean_BZ, log_variance_BZ)


def latents_of(model: LoadedModel, latent: Any, seed: int | None, sentences, copies: Sequence[int] | None = None):
    """z_BZ of a call; None of a model without a latent. Raises OptionError where it has none to give."""
    if model.has_latent:
        computed_in = model.weights.memory.computed_in
        return chosen_latents(latent, seed, sentences, model.config.latent_size, computed_in, copies)
    for name, value in (("latent", latent), ("latent_seed", seed)):
        if value is not None:
            raise OptionError(f"{name}: a {model.family} model has no latent: leave it out")
    return None


def shared_latent(model: LoadedModel, latent: Any, seed: int | None) -> np.ndarray | None:
    """z_Z that many texts share, checked; None where none is given. Raises as `generate` does."""
    z_BZ = latents_of(model, latent, seed, [np.zeros(1, np.int64)])
    return None if latent is None else z_BZ[0]


def chosen_latents(
    latent: Any, seed: int | None, sentences: Sequence[np.ndarray], Z: int, dtype: np.dtype,
    copies: Sequence[int] | None = None,
) -> np.ndarray:  # fmt: skip
    """z_BZ of a call: as given, drawn by the seed, or zeros, the mean of the prior.

    latent: Z numbers for all sentences, or Z for each. A drawn one depends on the sentence's tokens, and on how many
    equal ones there were before it (copies, or counted here): so it is the same in any batch. Raises InputError on
    latents of another shape or that are not finite, OptionError on seeds.
    """
    B = len(sentences)
    if latent is not None and seed is not None:
        raise OptionError("latent and latent_seed both say what the latent is: leave one of them out")
    if seed is not None:
        seed = checked_seed("latent_seed", seed)
        keys_B2 = sentence_keys(sentences, copies, 1).astype(np.uint64)
        keys_B = keys_B2[:, 0] << np.uint64(32) | keys_B2[:, 1]
        generators = (np.random.Generator(np.random.Philox(key=np.array([seed, key], np.uint64))) for key in keys_B)
        return np.array([generator.standard_normal(Z) for generator in generators]).astype(dtype)
    if latent is None:
        return np.zeros((B, Z), dtype)
    try:
        given = np.asarray(latent)
    except (TypeError, ValueError):  # rows of several lengths, which make no array
        given = np.empty(0, object)
    if given.dtype.kind not in "fiu":
        raise InputError(f"latent must be {Z} numbers, or that many for each sentence, not {latent!r:.80}")
    with np.errstate(over="ignore"):  # infinity is an error below
        z_BZ = given.astype(dtype)
    if z_BZ.shape not in ((Z,), (B, Z)):
        raise InputError(f"latent has shape {z_BZ.shape}: give ({Z},) for all sentences, or ({B}, {Z})")
    if not np.isfinite(z_BZ).all():
        raise InputError("latent holds NaN or infinity: give finite numbers")
    return np.broadcast_to(z_BZ, (B, Z)).copy()


def checked_seed(name: str, seed: Any) -> int:
    """The seed. Raises OptionError on what is no integer of 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not 0 <= int(seed) < 2**64:
        raise OptionError(f"{name} must be an integer from 0 to 2**64 - 1, not {seed!r}")
    return int(seed)


def interpolate_latents(a_Z: np.ndarray, b_Z: np.ndarray, steps: int) -> np.ndarray:
    """z_BZ = (1 - t) a + t b for this many t from 0 to 1, both included."""
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or not 2 <= int(steps) <= MOST_STEPS:
        raise OptionError(
            f"steps must be an integer from 2 to {MOST_STEPS:,}, as the first and the last are the texts, not {steps!r}"
        )
    t_B1 = np.linspace(0, 1, int(steps))[:, None]
    return ((1 - t_B1) * a_Z + t_B1 * b_Z).astype(a_Z.dtype)
