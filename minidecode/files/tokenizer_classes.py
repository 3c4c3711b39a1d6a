"""What a class of tokenizers in transformers does beside its files: `tokenizer_class` of the settings names it.

A class reads some of the settings, has special tokens by default, and says how a vocabulary with merges is split. As in
transformers 5, what it says of BERT's normalizer, Llama's spaces and the frame of a text goes before tokenizer.json.
Other parts of tokenizer.json stay: a GPT2Tokenizer whose file splits digits one by one was trained so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, shown, words_of
from ..models import FAMILIES
from .gguf_tokenizer import QWEN2
from .special_tokens import SpecialTokens
from .stored import MOST_OF_TEXT, read_json

if TYPE_CHECKING:
    import tokenizers

# Special tokens by role, where the settings do not name others.
GPT2_TOKENS = {f"{role}_token": "<|endoftext|>" for role in ("bos", "eos", "unk")}
QWEN2_TOKENS = {f"{role}_token": "<|endoftext|>" for role in ("eos", "unk", "pad")}
LLAMA_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
CODE_LLAMA_TOKENS = LLAMA_TOKENS | {
    "prefix_token": "\u2581<PRE>", "middle_token": "\u2581<MID>", "suffix_token": "\u2581<SUF>",
    "eot_token": "\u2581<EOT>",
}  # fmt: skip
T5_TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
BART_TOKENS = LLAMA_TOKENS | {"sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"}
BERT_TOKENS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
}  # fmt: skip
PROPHETNET_TOKENS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "x_sep_token": "[X_SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]",
}  # fmt: skip

GPT2, BART, BERT, LLAMA, CODE_LLAMA = "GPT2", "Bart", "Bert", "Llama", "CodeLlama"
QWEN2_CLASS, PROPHETNET, OTHER = "Qwen2", "ProphetNet", ""
CLASSES = {
    **dict.fromkeys(("GPT2", "CodeGen"), GPT2),
    **dict.fromkeys(("Bart", "Roberta", "LED", "Longformer"), BART),
    **dict.fromkeys(("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "LayoutLM", "SqueezeBert"), BERT),
    **dict.fromkeys(("DPRContextEncoder", "DPRQuestionEncoder", "DPRReader"), BERT),
    "Llama": LLAMA, "CodeLlama": CODE_LLAMA, "Qwen2": QWEN2_CLASS, "T5": "T5", "MBart": "MBart", "MBart50": "MBart",
    "ProphetNet": PROPHETNET,
}  # fmt: skip
TOKENS = {
    GPT2: GPT2_TOKENS, BART: BART_TOKENS, BERT: BERT_TOKENS, LLAMA: LLAMA_TOKENS, CODE_LLAMA: CODE_LLAMA_TOKENS,
    QWEN2_CLASS: QWEN2_TOKENS, "T5": T5_TOKENS, "MBart": BART_TOKENS, PROPHETNET: PROPHETNET_TOKENS,
}  # fmt: skip


def find_tokenizer_class(folder: Path, settings: Mapping[str, Any]) -> str:
    """The kind of class that a folder's files name, or its family has: a name of TOKENS, or OTHER."""
    fields = _model_fields(folder)
    family = FAMILIES.get(str(fields.get("model_type")))
    named = settings.get("tokenizer_class") or fields.get("tokenizer_class")
    if family is not None and (family.is_class_fixed or not isinstance(named, str)):
        return family.tokenizer_class
    if not isinstance(named, str):
        return OTHER
    kind = CLASSES.get(named.removesuffix("Fast").removesuffix("Tokenizer"), OTHER)
    # Llama 3 and others name Llama's class, and have bytes for tokens: there transformers goes by the file alone.
    return OTHER if kind in (LLAMA, CODE_LLAMA) and _has_bytes(folder / "tokenizer.json") else kind


def _model_fields(folder: Path) -> dict[str, Any]:
    return read_json(folder / "config.json") if (folder / "config.json").exists() else {}


def _has_bytes(path: Path) -> bool:
    """Whether a tokenizer.json is a byte-level one."""
    return path.is_file() and path.stat().st_size <= MOST_OF_TEXT and b'"ByteLevel"' in path.read_bytes()


def find_bpe_class(folder: Path, settings: Mapping[str, Any]) -> str:
    """The class that splits what vocab.json and merges.txt of a folder are for. Raises CheckpointError without one.

    A family says how its texts are split. A Llama does not: many name GPT2Tokenizer, and split digits one by one.
    """
    family, kind = (
        FAMILIES.get(str(_model_fields(folder).get("model_type", "gpt2"))),
        find_tokenizer_class(folder, settings),
    )
    if not (folder / "config.json").exists() and "tokenizer_class" not in settings:
        kind = GPT2  # a tokenizer by itself
    allowed = (GPT2, BART, QWEN2_CLASS) if family is not None and family.tokenizer_class else (QWEN2_CLASS,)
    if kind not in allowed:
        raise CheckpointError(
            f"{folder}: vocab.json and merges.txt do not say how a text of this model is split before merges apply: "
            "add its tokenizer.json"
        )
    return kind


def check_words(path: Path, settings: Mapping[str, Any]) -> None:
    """Raises CheckpointError where a list of words is not all that the named class of tokenizers needs."""
    named = settings.get("tokenizer_class") or _model_fields(path.parent).get("tokenizer_class")
    if isinstance(named, str) and find_tokenizer_class(path.parent, settings) not in (BERT, PROPHETNET):
        raise CheckpointError(
            f"{path.parent}: {path.name} is not all that a {shown(named, 60)[1:-1]} splits texts by: add its "
            "tokenizer.json, or use another model"
        )


def default_tokens(kind: str) -> dict[str, str]:
    """{role: token} of a class, where the settings do not name others."""
    return TOKENS.get(kind, {})


def apply_settings(
    backend: tokenizers.Tokenizer, kind: str, settings: Mapping[str, Any], special: SpecialTokens
) -> None:
    """Changes what tokenizer.json says to what the settings say, where a tokenizer of this class reads them."""
    from tokenizers import AddedToken, models

    backend.encode_special_tokens = settings.get("split_special_tokens") is True
    if kind == QWEN2_CLASS:  # whose special tokens take no space around them
        backend.add_special_tokens([AddedToken(token["content"], special=True) for token in special.all_tokens])
    if kind == BERT and isinstance(backend.model, models.WordPiece):
        backend.model.unk_token = special.texts_by_role.get("unk_token", backend.model.unk_token)
        backend.normalizer = bert_normalizer(settings)
        add_bert_template(backend, special)
    elif kind in (GPT2, BART) and isinstance(backend.model, models.BPE):
        _set_prefix_space(backend, settings)
        if kind == BART:
            add_bart_template(backend, settings, special)
    elif kind in (LLAMA, CODE_LLAMA) and isinstance(backend.model, models.BPE):
        _set_llama_spaces(backend, kind, settings)


def cleans_spaces(backend: tokenizers.Tokenizer, settings: Mapping[str, Any]) -> bool:
    """Whether clean_up_tokenization_spaces is asked for, and the model is no BPE, whose spaces are the text's own."""
    from tokenizers import models

    return settings.get("clean_up_tokenization_spaces") is True and not isinstance(backend.model, models.BPE)


def remove_joining_spaces(text: str) -> str:
    """A text without the spaces that words and punctuation were joined by: "do n't ." becomes "don't."."""
    for joined in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(joined, joined.strip())
    return text


def bert_normalizer(settings: Mapping[str, Any]) -> tokenizers.normalizers.Normalizer:
    """BERT's, by do_lower_case, strip_accents and tokenize_chinese_chars."""
    from tokenizers import normalizers

    strip = settings.get("strip_accents")
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=None if strip is None else bool(strip), lowercase=bool(settings.get("do_lower_case", True)),
    )  # fmt: skip


def add_bert_template(backend: tokenizers.Tokenizer, special: SpecialTokens) -> None:
    """[CLS] text [SEP]; without a cls_token a text has an end alone. Left as it is where the vocabulary lacks them."""
    from tokenizers import processors

    tokens = _in_vocabulary(backend, special)
    if (last := tokens.get("sep_token")) is None:
        return
    if (first := tokens.get("cls_token")) is not None:
        backend.post_processor = processors.BertProcessing(last, first)
    elif "cls_token" not in special.named:
        backend.post_processor = _make_template(["$A", last[0]], ["$A", last[0], "$B", last[0]], [last])


def add_bart_template(backend: tokenizers.Tokenizer, settings: Mapping[str, Any], special: SpecialTokens) -> None:
    """<s> text </s>, as cls_token and sep_token say. Left as it is where the vocabulary lacks them."""
    from tokenizers import processors

    tokens = _in_vocabulary(backend, special)
    if "sep_token" in tokens and "cls_token" in tokens:
        backend.post_processor = processors.RobertaProcessing(
            tokens["sep_token"], tokens["cls_token"], trim_offsets=bool(settings.get("trim_offsets", True)),
            add_prefix_space=bool(settings.get("add_prefix_space", False)),
        )  # fmt: skip


def _in_vocabulary(backend: tokenizers.Tokenizer, special: SpecialTokens) -> dict[str, tuple[str, int]]:
    """{role: (token, id)} of those that the vocabulary has."""
    ids = {name: (text, backend.token_to_id(text)) for name, text in special.texts_by_role.items()}
    return {name: (text, i) for name, (text, i) in ids.items() if i is not None}


def parts_of_pipeline(part: Any) -> list[dict[str, Any]]:
    """What a normalizer, a pre-tokenizer or a decoder is made of, each with its type; nothing of None."""
    return [] if part is None else _flatten_pipeline(json.loads(part.__getstate__()))


def _flatten_pipeline(state: dict[str, Any]) -> list[dict[str, Any]]:
    if state.get("type") != "Sequence":
        return [state]
    each = next(value for value in state.values() if isinstance(value, list))
    return [one for part in each for one in _flatten_pipeline(part)]


def _set_prefix_space(backend: tokenizers.Tokenizer, settings: Mapping[str, Any]) -> None:
    """add_prefix_space, which is off by default, or as tokenizer.json has it where other splits stand before it."""
    from tokenizers import pre_tokenizers

    split = backend.pre_tokenizer
    if isinstance(split, pre_tokenizers.ByteLevel):
        split.add_prefix_space = bool(settings.get("add_prefix_space", False))
    elif isinstance(split, pre_tokenizers.Sequence) and settings.get("add_prefix_space") is not None:
        for i, part in enumerate(json.loads(split.__getstate__())["pretokenizers"]):
            if part["type"] == "ByteLevel":
                split[i].add_prefix_space = bool(settings["add_prefix_space"])


def _set_llama_spaces(backend: tokenizers.Tokenizer, kind: str, settings: Mapping[str, Any]) -> None:
    """A space in front of a text, if add_prefix_space is not false; with `legacy` behind each special token too.

    A CodeLlama has no `legacy`, and takes a space off what it decodes in any case.
    """
    from tokenizers import decoders, pre_tokenizers

    has_space = settings.get("add_prefix_space") in (None, True)
    is_legacy = kind == LLAMA and settings.get("legacy") is True
    scheme = ("always" if is_legacy else "first") if has_space else "never"
    backend.normalizer = None
    backend.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme=scheme, split=False)
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(
        [*parts, decoders.Strip(" ", 1, 0)] if has_space or kind == CODE_LLAMA else parts
    )


# ---- vocab.json and merges.txt ---------------------------------------------------------------------------------------


def make_bpe_tokenizer(bpe: tokenizers.models.BPE, kind: str, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """A byte-level BPE that splits texts as a class of `find_bpe_class` does."""
    import tokenizers
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    backend, prefix = tokenizers.Tokenizer(bpe), bool(settings.get("add_prefix_space", False))
    backend.decoder = decoders.ByteLevel()
    if kind == QWEN2_CLASS:
        backend.normalizer = normalizers.NFC()
        words = pre_tokenizers.Split(Regex(QWEN2), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(prefix, use_regex=False)])
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return backend


def add_bpe_template(backend: tokenizers.Tokenizer, settings: Mapping[str, Any], special: SpecialTokens) -> None:
    """add_bos_token and add_eos_token, which a tokenizer.json says in its own words."""
    tokens = _in_vocabulary(backend, special)
    first, last = ([tokens[t]] if settings.get(f"add_{t}") and t in tokens else [] for t in ("bos_token", "eos_token"))
    if not first and not last:
        return
    single = [*(text for text, _ in first), "$A", *(text for text, _ in last)]
    pair = [*single, *(f"{text}:1" for text, _ in first), "$B:1", *(f"{text}:1" for text, _ in last)]
    backend.post_processor = _make_template(single, pair, [*first, *last])


def _make_template(
    single: list[str], pair: list[str], tokens: list[tuple[str, int]]
) -> tokenizers.processors.TemplateProcessing:
    """What stands around a text and around two. Raises CheckpointError on a token that the library reads otherwise."""
    from tokenizers import processors

    try:
        return processors.TemplateProcessing(single, pair, list(dict.fromkeys(tokens)))
    except ValueError as error:  # one with a colon, or that begins with a dollar sign
        named = " and ".join(shown(text, 40) for text, _ in tokens)
        raise CheckpointError(
            f"a text cannot be framed by {named} ({words_of(error)}): add the model's tokenizer.json"
        ) from None
