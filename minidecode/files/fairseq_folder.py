"""fairseq's checkpoint (`checkpoint_best.pt`) -> a model folder, without fairseq; nothing that the file says is run.

Beside its tensors a checkpoint holds training's own objects, such as an argparse.Namespace. torch_pickle.py describes
them: no module is imported for a file, and nothing is called. Of the settings, those are taken that change what is
computed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, OptionError
from ..models import FAMILIES, fairseq
from ..models.fairseq import FairseqConfig
from .checkpoint import match_tensors, write_safetensors
from .fairseq_lm import SETTINGS, LanguageModel
from .fairseq_tokenizer import BOS, CODES, EOS, PAD, UNKNOWN, is_language
from .fairseq_words import BPE_FILES, MASK, check_dictionary, tokenizer_files
from .new_folder import path_of_new, whole_folder
from .stored import STORED_DTYPES, Stored
from .torch_file import Strided, named_tensors, read_torch_value
from .torch_pickle import Described, Tensor, UnreadableError

WIDTHS = ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim")
KEPT = {f.name for f in dataclasses.fields(FairseqConfig) if f.name != "model_type"} | set(FairseqConfig.REFUSED) | {
    "arch", "activation_fn", "source_lang", "target_lang", *WIDTHS,
} | SETTINGS  # fmt: skip
# As fairseq-generate has them.
GENERATION = {
    "dialect": "fairseq", "bos_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS, "unk_token_id": UNKNOWN,
    "decoder_start_token_id": EOS, "num_beams": 5, "max_len_a": 0.0, "max_len_b": 200,
}  # fmt: skip
OF_EACH_BART = {
    "encoder_normalize_before": False, "decoder_normalize_before": False, "encoder_learned_pos": True,
    "decoder_learned_pos": True, "no_token_positional_embeddings": False, "share_all_embeddings": True,
    "layernorm_embedding": True,
}  # fmt: skip
TASKS_WITH_CODES = (
    "translation_from_pretrained_bart", "translation_multi_simple_epoch", "multilingual_translation",
    "semisupervised_translation", "multilingual_denoising",
)  # fmt: skip
NORMS = {  # of layers, in the oldest files
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


@dataclass(frozen=True)
class FairseqConversion:
    """What `convert_fairseq` wrote."""

    folder: str
    model_type: str
    source_lang: str | None
    target_lang: str | None
    parameters: int  # numbers in the weights, tied ones once
    codes: str | None  # the file of BPE codes that the folder has

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        codes = f"BPE codes: {self.codes}" if self.codes else "no BPE codes: give texts in the pieces of the dictionary"
        translates = self.model_type == "fairseq"
        what = f"{self.source_lang} to {self.target_lang}" if translates else f"a model of type {self.model_type}"
        return f"{self.folder}\n{what}, {self.parameters:,} parameters\n{codes}"


@dataclass(frozen=True)
class Contents:
    """What a folder is written of."""

    fields: dict[str, Any]  # of config.json
    generation: dict[str, Any]  # of generation_config.json
    layout: dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape of each tensor
    read: Callable[[str], np.ndarray]  # its numbers
    parameters: int
    texts: dict[str, str]  # files of the tokenizer
    copied: list[Path]  # more of them
    codes: str | None


def convert_fairseq(
    path: str | Path, out: str | Path, *, source_lang: str | None = None, target_lang: str | None = None,
    dictionaries: str | Path | None = None, progress: Callable[[int, int], None] | None = None,
) -> FairseqConversion:  # fmt: skip
    """Writes into the new folder `out` the model of a fairseq checkpoint, with its dictionaries and BPE codes.

    A Transformer becomes a folder of type fairseq; a BART one of type bart, and a language model one of type gpt2, both
    as transformers has them. The files of text lie in the folder `dictionaries`, by default the checkpoint's:
    `dict.SRC.txt`, `dict.TGT.txt`, and one of CODES if the model has one; of a BART or a language model `dict.txt`, and
    GPT-2's `encoder.json` and `vocab.bpe`. source_lang, target_lang: SRC and TGT, where the checkpoint does not say.
    progress: called with (tensors written, of how many).

    Raises OptionError on a language that is not the checkpoint's, CheckpointError on a file that is damaged or of a
    kind that is not supported, before anything is written.
    """
    path, out = Path(path).expanduser(), path_of_new(out)
    settings, in_file = read_fairseq(path)
    beside = path.parent if dictionaries is None else Path(dictionaries).expanduser()
    arch, given = str(settings.get("arch")), {"source": source_lang, "target": target_lang}
    if arch.startswith("transformer_lm"):
        contents = read_language_model(path, settings, in_file, beside)
    elif arch.startswith("bart"):
        contents = read_bart(path, settings, in_file, beside, given)
    else:
        contents = read_translator(path, settings, in_file, beside, given)
    count = itertools.count(1)

    def numbers_of_tensor(name: str) -> np.ndarray:
        if progress:
            progress(next(count), len(contents.layout))
        return contents.read(name)

    with whole_folder(out) as partial:
        for file in contents.copied:
            shutil.copyfile(file, partial / file.name)
        described = {"config.json": contents.fields, "generation_config.json": contents.generation}
        texts = {name: json.dumps(content, indent=1, sort_keys=True) + "\n" for name, content in described.items()}
        for name, text in (texts | contents.texts).items():
            (partial / name).write_text(text, encoding="utf-8")
        write_safetensors(partial / "model.safetensors", contents.layout, numbers_of_tensor)
    languages = (contents.fields.get(f"{side}_lang") for side in ("source", "target"))
    return FairseqConversion(str(out), contents.fields["model_type"], *languages, contents.parameters, contents.codes)


def read_translator(
    path: Path, settings: dict[str, Any], in_file: dict[str, Stored], beside: Path, given: dict[str, str | None]
) -> Contents:
    """A Transformer, as it is."""
    languages = {
        f"{side}_lang": language_of_side(path, side, settings.get(f"{side}_lang"), given[side]) for side in given
    }
    config = config_of_checkpoint(path, settings, in_file)
    sizes = {"src_vocab_size": config.src_vocab_size, "tgt_vocab_size": config.tgt_vocab_size}
    stored = match_fairseq_tensors(path, config, in_file)
    words = [beside / f"dict.{name}.txt" for name in languages.values()]
    for file, size in zip(words, sizes.values(), strict=True):
        check_dictionary(file, size)
    codes = next((name for name in CODES if (beside / name).is_file()), None)
    return Contents(
        settings | languages | {"model_type": "fairseq"} | sizes, GENERATION, layout_of_tensors(stored),
        make_tensor_reader(stored), parameters_in(stored), {}, [*words, *([beside / codes] if codes else [])], codes,
    )  # fmt: skip


def read_bart(
    path: Path, settings: dict[str, Any], in_file: dict[str, Stored], beside: Path, given: dict[str, str | None]
) -> Contents:
    """A BART: the names of its tensors are those of transformers, but for the table, which all share."""
    config = config_of_checkpoint(path, settings, in_file)
    for name, value in OF_EACH_BART.items():
        if getattr(config, name) != value:
            raise CheckpointError(
                f"{path}: {name}={getattr(config, name)} is not supported in a BART, which has {value}: use a "
                "checkpoint of fairseq's BART as it was published"
            )
    if config.max_source_positions != config.max_target_positions:
        raise CheckpointError(
            f"{path}: max_source_positions={config.max_source_positions} and max_target_positions="
            f"{config.max_target_positions} are not supported in a BART, which has one limit for both"
        )
    stored = {f"model.{name}": tensor for name, tensor in match_fairseq_tensors(path, config, in_file).items()}
    stored["model.shared.weight"] = stored.pop(f"model.{config.table_names[0]}")
    languages = {side: settings.get(f"{side}_lang") or given[side] for side in given}
    named = {
        language_of_side(path, side, settings.get(f"{side}_lang"), given[side]) for side in given if languages[side]
    }
    size = config.src_vocab_size
    files = [beside / f"dict.{name}.txt" for name in sorted(named)] or [beside / "dict.txt"]
    each = [check_dictionary(file, size, size - 1).words for file in files]
    if each[0] != each[-1]:
        raise CheckpointError(f"{files[0]} and {files[-1]} differ, and the checkpoint has one table: use its own files")
    words = each[0] if len(each[0]) == size else [*each[0], MASK]
    fields = {
        "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "is_encoder_decoder": True,
        "vocab_size": size, "max_position_embeddings": config.max_source_positions, "d_model": config.width,
        "encoder_layers": config.encoder_layers, "encoder_ffn_dim": config.encoder_ffn_embed_dim,
        "encoder_attention_heads": config.encoder_attention_heads, "decoder_layers": config.decoder_layers,
        "decoder_ffn_dim": config.decoder_ffn_embed_dim, "decoder_attention_heads": config.decoder_attention_heads,
        "activation_function": config.activation_function, "scale_embedding": not config.no_scale_embedding,
        "tie_word_embeddings": True, "bos_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
    }  # fmt: skip
    texts, in_bpe = tokenizer_files(beside, words, None)
    return Contents(
        fields, GENERATION | ({"forced_bos_token_id": BOS} if in_bpe else {}), layout_of_tensors(stored),
        make_tensor_reader(stored), parameters_in(stored), texts, [], BPE_FILES[1] if in_bpe else None,
    )  # fmt: skip


def read_language_model(path: Path, settings: dict[str, Any], in_file: dict[str, Stored], beside: Path) -> Contents:
    """A language model, as a GPT-2 of the same logits."""
    model = LanguageModel.from_checkpoint(path, settings, in_file)
    words = check_dictionary(beside / "dict.txt", model.config.vocab_size).words
    first = BOS if settings.get("add_bos_token") else EOS
    texts, in_bpe = tokenizer_files(beside, words, words[first])
    tokens = {"bos_token_id": first, "pad_token_id": PAD, "eos_token_id": EOS}
    generation = {name: value for name, value in GENERATION.items() if name != "decoder_start_token_id"} | tokens
    return Contents(
        model.fields | tokens, generation, model.layout(), model.read, parameters_in(model.stored), texts,
        [], BPE_FILES[1] if in_bpe else None,
    )  # fmt: skip


def match_fairseq_tensors(path: Path, config: FairseqConfig, in_file: dict[str, Stored]) -> dict[str, Stored]:
    return match_tensors(
        path, in_file, fairseq.tensor_shapes(config), prefix="", ignored=fairseq.ignored_tensors(config),
        layer=fairseq.LAYER, tied=fairseq.tied_tensors(config), optional=(), is_whole=FAMILIES["fairseq"].is_whole,
    )  # fmt: skip


def layout_of_tensors(stored: dict[str, Stored]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in stored.items()}


def make_tensor_reader(stored: dict[str, Stored]) -> Callable[[str], np.ndarray]:
    return lambda name: stored[name].read(np.dtype(np.float64 if stored[name].dtype == "F64" else np.float32))


def parameters_in(stored: dict[str, Stored]) -> int:
    """Numbers in a checkpoint's weights, tied ones once."""
    return sum(int(np.prod(tensor.shape)) for tensor in stored.values())


def read_fairseq(path: Path) -> tuple[dict[str, Any], dict[str, Stored]]:
    """(the settings that change what is computed, the tensors under the names of today) of a checkpoint.

    Raises CheckpointError on a damaged, lying or hostile file, and on one that fairseq did not write.
    """

    def tensors_of(value: Any) -> dict[str, Tensor]:
        if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
            raise UnreadableError("is no checkpoint of fairseq, which holds its tensors under 'model': use such a file")
        return named_tensors(value["model"])

    value, stored = read_torch_value(path, tensors_of, describes=True)
    known = training_settings(path, value)
    if (task := known.get("task")) in TASKS_WITH_CODES:
        raise CheckpointError(
            f"{path} was trained with the task {task}, which puts codes of languages into texts: it is not supported, "
            "so use a model of the task translation"
        )
    settings = {name: as_json_value(setting) for name, setting in known.items() if name in KEPT}
    settings = {name: setting for name, setting in settings.items() if setting is not None}
    # An encoder of version 1, or a decoder of 1 or 2, has no norm behind its last layer, whatever the flags say.
    for side, last in (("encoder", 1), ("decoder", 2)):
        ends_in_norm = f"{side}.layer_norm.weight" in stored or not settings.get(f"{side}_normalize_before", True)
        if not ends_in_norm and version_of_side(stored.get(f"{side}.version")) <= last:
            settings[f"no_{side}_final_norm"] = True
    return settings, dict(rename_to_current_names(path, stored))


def version_of_side(stored: Stored | None) -> float:
    """The version of an encoder or a decoder; as in fairseq, 1 where the file has none."""
    if stored is None or stored.dtype not in STORED_DTYPES or stored.shape not in ((), (1,)):
        return 1.0
    return float(stored.read(np.dtype(np.float32)).flat[0])


def training_settings(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """What training was called with: of the old form, `args`; of the new one, `cfg`, whose languages are the task's."""

    def attributes_of_holder(holder: Any) -> dict[str, Any]:
        holder = holder.state if isinstance(holder, Described) else holder
        return {k: v for k, v in holder.items() if isinstance(k, str)} if isinstance(holder, dict) else {}

    if value.get("args") is not None:
        settings = attributes_of_holder(value["args"])
    else:
        cfg = attributes_of_holder(value.get("cfg"))
        model, task = attributes_of_holder(cfg.get("model")), attributes_of_holder(cfg.get("task"))
        nested = {
            f"{side}_{k}": v
            for side in ("encoder", "decoder")
            for k, v in attributes_of_holder(model.get(side)).items()
        }  # fmt: skip
        named = {"arch": model["_name"]} if "_name" in model else {}
        of_task = {k: task[k] for k in ("source_lang", "target_lang") if k in task}
        of_task |= {"task": task["_name"]} if "_name" in task else {}
        settings = of_task | named | nested | model
    if not settings:
        raise CheckpointError(f"{path} holds neither args nor cfg.model, fairseq's settings: use a whole checkpoint")
    return settings


def as_json_value(value: Any) -> Any:
    """A value of JSON as it is; of a list so, or of an object, how it is described."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)[:100] if isinstance(value, Described) else f"a {type(value).__name__}"


def rename_to_current_names(path: Path, stored: dict[str, Stored]):
    """(name of today, tensor) of each: the oldest files number norms, and store q, k and v as one matrix."""
    for name, tensor in stored.items():
        if numbered := re.fullmatch(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.([0-2])\.(\w+)", name):
            layer, side, number, part = numbered.groups()
            if int(number) < len(NORMS[side]):
                name = f"{layer}.{NORMS[side][int(number)]}.{part}"
        if name == "decoder.embed_out":
            name = "decoder.output_projection.weight"
        if joined := re.fullmatch(r"(.*_attn)\.in_proj_(weight|bias)", name):
            if isinstance(tensor, Strided) or not tensor.shape or tensor.shape[0] % 3:
                raise CheckpointError(f"{path}: {name} of shape {tensor.shape} is not q, k and v: use another file")
            rows, others = tensor.shape[0] // 3, int(np.prod(tensor.shape[1:]))
            size = {"F64": 8, "F32": 4}.get(tensor.dtype, 2)
            for i, part in enumerate("qkv"):
                begin = tensor.offset + i * rows * others * size
                yield (
                    f"{joined[1]}.{part}_proj.{joined[2]}",
                    Stored(tensor.path, begin, tensor.dtype, (rows, *tensor.shape[1:])),
                )
            continue
        yield name, tensor


def config_of_checkpoint(path: Path, settings: dict[str, Any], stored: dict[str, Stored]) -> FairseqConfig:
    """The config of a checkpoint, whose tables say how many words there are."""
    tables = [stored.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder")]
    tables = [table or tables[0] for table in tables]
    if tables[0] is None or any(not table.shape for table in tables):
        raise CheckpointError(f"{path} has no encoder.embed_tokens.weight: it is no Transformer with an encoder")
    sizes = {"src_vocab_size": tables[0].shape[0], "tgt_vocab_size": tables[1].shape[0]}
    try:
        return FairseqConfig.from_json(settings | sizes)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {str(error).removeprefix('config.json: ')}") from None


def language_of_side(path: Path, side: str, known: Any, given: str | None) -> str:
    """SRC or TGT: what the checkpoint says, or else what is given; it is a part of a file's name."""
    if isinstance(known, str) and given not in (None, known):
        raise OptionError(f"{side}_lang={given!r} is not this model's, which is {known!r}: leave it out")
    name = known if isinstance(known, str) else given
    if name is None:
        raise OptionError(f"{path} does not say its {side}_lang: add --{side}-lang ({side}_lang=)")
    if not is_language(name):
        raise OptionError(f"{side}_lang={name!r:.60} is no name of a language, such as de: choose another")
    return name
