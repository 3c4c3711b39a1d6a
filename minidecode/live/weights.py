"""The weights of a live model of transformers: shared where their layout allows, and seen to change."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..device.low_precision import arrays_in_weights
from ..errors import CheckpointError, OptionError, shown
from ..files.folder import matched_tensors
from ..methods.loaded import LoadedModel
from ..models import FAMILIES, REFUSED, Family

DTYPES = {"torch.float32": "F32", "torch.float64": "F64", "torch.float16": "F16", "torch.bfloat16": "BF16"}
ROUNDING = 1e-4  # of logits, in parts of the largest: float32 makes about a hundredth of that
# Attributes of a model that its forward pass does not read: what `accelerate` binds, and what others set at will.
NOT_COMPUTED = {"generate", "_generate_before_accelerate", "__reduce_ex__", "generation_config", "name_or_path"}
SAMPLED = 64  # numbers of each weight that are compared, since `.data` has no counter of changes


@dataclass(frozen=True)
class LiveTensor:
    """A weight of a live model, as `match_tensors` takes those of files."""

    tensor: Any
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> str:
        return DTYPES.get(str(self.tensor.dtype), str(self.tensor.dtype))

    def read(self, dtype: np.dtype) -> np.ndarray:
        """The numbers: a view where the dtype is the tensor's own, a copy otherwise."""
        detached = self.tensor.detach()
        if self.dtype == "BF16":  # NumPy has none
            detached = detached.float()
        return detached.numpy().astype(dtype, copy=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LiveTensor) and self.tensor.data_ptr() == other.tensor.data_ptr()

    def __hash__(self) -> int:
        return hash(self.tensor.data_ptr())


def live_tensors(live: Any) -> dict[str, LiveTensor]:
    """Name -> weight, as the model's files would hold them."""
    return {name: LiveTensor(tensor, Path(type(live).__name__)) for name, tensor in live.state_dict().items()}


def bound_tensors(family: Family, config: Any, live_tensors: dict[str, LiveTensor], compute: np.dtype):
    """(the family's tensors as arrays, the config): float32 ones of the model are not copied."""
    matched: dict[str, Any]
    matched, config = matched_tensors(
        next(iter(live_tensors.values())).path, family, config, live_tensors, _same_numbers
    )  # type: ignore[arg-type]
    shapes = family.network.tensor_shapes(config)
    return {
        name: matched[name].read(compute) if name in matched else np.zeros(shape, compute)
        for name, shape in shapes.items()
    }, config


def refuse_other_than_live_model(function: str, model: Any) -> None:
    """Raises OptionError on what is no model of transformers, such as one of ours."""
    if isinstance(model, LoadedModel):
        raise OptionError(
            f"{function} takes a model of transformers, and this one runs here already: call its generate"
        )
    if not hasattr(getattr(model, "config", None), "model_type"):
        raise OptionError(
            f"{function} takes a model of transformers, not {shown(model)}: give one that from_pretrained made, or load"
            " it here by md.load"
        )


def check_live_model(live: Any) -> None:
    """Raises CheckpointError on a live model whose `generate` cannot be the same here, with the reason."""
    kind = type(live)
    model_type = getattr(getattr(live, "config", None), "model_type", None)

    def refuse(why: str) -> None:
        raise CheckpointError(f"{kind.__name__}: {why}")

    if _is_autocast():
        refuse("torch.autocast rounds what transformers computes, and not what minidecode does: leave its block")
    if model_type not in FAMILIES:
        refuse(f"model_type {model_type!r} is not supported: {REFUSED.get(str(model_type), 'no family of it is here')}")
    if not kind.__module__.startswith("transformers.models."):
        refuse("it is a class of your own, and its forward pass may be another: accelerate transformers' class")
    if not live.can_generate():
        refuse("it has no head that generates")
    if FAMILIES[str(model_type)].has_encoder and not live.config.is_encoder_decoder:
        refuse("it is a decoder alone, and minidecode has this family with its encoder")
    if hasattr(live, "peft_config") or getattr(live, "_hf_peft_config_loaded", False):
        refuse("it carries an adapter: merge it into the weights first")
    if getattr(live, "is_quantized", False) or getattr(live, "hf_quantizer", None) is not None:
        refuse("its weights are quantized by transformers: load it in float32, and say dtype='int8' here")
    of_all = sys.modules["torch"].nn.modules.module
    if of_all._global_forward_hooks or of_all._global_forward_pre_hooks:
        refuse("a forward hook of all modules would not be called here: remove it")
    for path, module in live.named_modules():
        name = path or "the model"
        if module.training:
            refuse(f"{name} is in training mode, where dropout draws at random: call model.eval() first")
        if hasattr(module, "_hf_hook") or "forward" in vars(module):
            refuse(f"the forward pass of {name} is replaced on this object")
        if module._forward_hooks or module._forward_pre_hooks:
            refuse(f"{name} has a forward hook, which would not be called here")
        if not type(module).__module__.startswith(("torch.nn.modules.", "transformers.")):
            refuse(f"{name} is a {type(module).__name__}, which is no class of transformers'")
    for name, tensor in live.named_parameters():
        if tensor.device.type != "cpu":
            refuse(f"{name} lies on {tensor.device}: move the model to the CPU")


def check_same_scores(live: Any, model: Any) -> None:
    """Raises CheckpointError unless both give the same logits for eight tokens, up to rounding.

    So whatever was changed in the live modules and is in no weight, such as an activation or the epsilon of a norm, is
    seen before anything is generated.
    """
    import torch

    ids = np.random.default_rng(0).integers(0, model.config.source_vocab_size, (1, 8))
    given = {"input_ids": torch.from_numpy(ids)}
    start = None
    if model.has_encoder:
        start = [[live.generation_config.decoder_start_token_id or 0]]
        given["decoder_input_ids"] = torch.tensor(start)
    with torch.no_grad():
        theirs = live(**given).logits[0].double().numpy()
    ours = model.logits(ids.tolist(), decoder_input_ids=start)[0]
    gap, largest = float(np.abs(theirs - ours).max()), float(np.abs(theirs).max())
    if not gap <= ROUNDING * max(1.0, largest):
        raise CheckpointError(
            f"{type(live).__name__}: its logits differ by {gap:.2g} from those that its config and its weights give: a "
            "module was changed after it was made"
        )


def fingerprint(live: Any, state: dict[str, LiveTensor]) -> list[Any]:
    """What tells a changed model: its config, its weights and buffers, each module's class and plain attributes.

    `are_same_fingerprints` compares objects in it by identity; it keeps them, so that none takes another's place.
    """
    Tensor, of_every_module = sys.modules["torch"].Tensor, vars(sys.modules["torch"].nn.Module())
    marks = [repr(vars(live.config)), *((name, *_mark_of_tensor(each.tensor)) for name, each in state.items())]
    for path, module in live.named_modules():
        marks += [path, type(module)]
        marks += [_mark_of_tensor(buffer) for buffer in module._buffers.values() if buffer is not None]
        for name, value in vars(module).items():
            if name in of_every_module or (not path and name in NOT_COMPUTED):
                continue
            if isinstance(value, Tensor):
                value = _mark_of_tensor(value)
            elif isinstance(value, (list, tuple, set)):
                value = repr(value)
            marks += [name, value]
    return marks


def are_same_fingerprints(before: list[Any], now: list[Any]) -> bool:
    """Whether two fingerprints are of an unchanged model."""
    return len(before) == len(now) and all(
        a is b or (type(a) is type(b) and isinstance(a, (int, float, str, tuple)) and a == b)
        for a, b in zip(before, now, strict=True)
    )


def _mark_of_tensor(tensor: Any) -> tuple[Any, ...]:
    """What tells a changed tensor: place, torch's counter of changes in place, and a sample of the numbers.

    A change through `.data` has another counter. The sample sees it where it reaches one of SAMPLED numbers.
    """
    flat = tensor.detach().reshape(-1)
    sample = flat[:: max(1, flat.numel() // SAMPLED)]
    return tensor.data_ptr(), tensor._version, tuple(sample.tolist())


def _is_autocast() -> bool:
    torch = sys.modules.get("torch")
    if torch is None:  # then there is no live model either
        return False
    try:
        return torch.is_autocast_enabled("cpu")
    except TypeError:  # before torch 2.4
        return torch.is_autocast_cpu_enabled()


def _same_numbers(a: Any, b: Any) -> bool:
    """Whether two live tensors hold the same numbers."""
    return a.shape == b.shape and bool((a.tensor == b.tensor).all())


def copied_bytes(weights: Any, live: Iterable[LiveTensor]) -> int:
    """Bytes of our weights that do not lie in the live model's memory."""
    spans = sorted(
        (t.tensor.data_ptr(), t.tensor.data_ptr() + t.tensor.numel() * t.tensor.element_size()) for t in live
    )

    def is_shared(array: np.ndarray) -> bool:
        at = array.__array_interface__["data"][0]
        return any(begin <= at < end for begin, end in spans)

    return sum(array.nbytes for array in arrays_in_weights(weights) if not is_shared(array))
