"""minidecode beside transformers, CTranslate2 and llama.cpp: the same random weights, inputs and number of tokens.

    pip install '.[peers]'
    python benchmarks/peers.py --out benchmarks/results/peers-cpu.json --readme benchmarks/README.md

Each system runs in a process of its own, loaded once, with the same number of threads; they are asked by turns, so that
a slow moment of the machine hits them all, and who is not asked sleeps. The number of new tokens is forced (no end of
text before it), so that nobody wins by stopping early; which tokens are chosen is another matter (tests hold ours to
transformers'), since random weights are full of near ties. Peers run at their best settings that are known here:
CTranslate2 once with MKL and once with its own products, transformers in inference mode with SDPA attention and its
default cache, each with threads that sleep while they wait and with threads that spin, as is OpenMP's default; ours
with plan=fast, and with the kernels of OpenBLAS that `minidecode doctor` recommends for the processor (--blas-kernels).
What is timed is generation from token ids to token ids; loading, converting and a warm-up are not.

llama.cpp joins where its package is installed, which compiles it (some minutes): pip install llama-cpp-python gguf. It
reads the same weights as GGUF, in F32, Q8_0 and Q4_0, with and without its flash attention. Q4_0 holds the numbers of
our int4, bit for bit. It has no beam search, so it runs the greedy works of GPT-2 and SmolLM2 alone.

    python benchmarks/peers.py --only t5 SmolLM2 opus-mt --out benchmarks/results/peers-models-cpu.json \\
        --readme benchmarks/README.md

times T5, Llama and Marian in the same way. Their table has the marks peers-models; that of an Intel has peers-intel.

    python benchmarks/peers.py --accelerated --out benchmarks/results/peers-accelerated-cpu.json \
        --readme benchmarks/README.md

times a model of transformers whose `generate` runs here, by md.accelerate, beside ours and beside transformers alone.

A second table holds ours against what the machine allows: how fast as many threads read, and multiply large matrices,
is measured in each turn too, and the cost models say what each call reads and computes at the least.

    python benchmarks/peers.py --plain-cache --out benchmarks/results/peers-plain-cache-cpu.json \\
        --readme benchmarks/README.md

times, in the same way, ours against what FastSeq starts from: NumPy's ops, a cache that is copied for every beam, the
naive n-gram ban; on the works with beams. No peer need be installed for that. Before anything is timed, texts of the
two are compared, which must be equal but for ties that rounding explains, by the rule of `minidecode ladder`.

Takes some ten minutes, --plain-cache about two. Prints the tables; writes them into --readme between the
marks peers, or plain-cache, and all figures to --out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing as mp
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

from minidecode.bench.compare import name_of_processor

SETTINGS = {
    "gpt2, greedy, 1 x 32, 64 new": {"model": "gpt2", "batch": 1, "length": 32, "new": 64, "beams": 1, "ngram": 0},
    "gpt2, greedy, 8 x 128, 32 new": {"model": "gpt2", "batch": 8, "length": 128, "new": 32, "beams": 1, "ngram": 0},
    "gpt2, beam 4, 4 x 256, 32 new, n-gram 3":
        {"model": "gpt2", "batch": 4, "length": 256, "new": 32, "beams": 4, "ngram": 3},
    "bart-base, beam 4, 4 x 512, 32 new, n-gram 3":
        {"model": "bart-base", "batch": 4, "length": 512, "new": 32, "beams": 4, "ngram": 3},
}  # fmt: skip
# Works that run if --only names them. Of T5, a model whose output matrix is the embedding: the logits of others are
# scaled by CTranslate2's converter under transformers 5. SmolLM2 is Llama's kind, with three queries per key.
MORE_SETTINGS = {
    "t5-base, beam 4, 4 x 256, 32 new":
        {"model": "t5-base", "batch": 4, "length": 256, "new": 32, "beams": 4, "ngram": 0, "largest_id": 32_000},
    "opus-mt, beam 4, 8 x 64, 64 new":
        {"model": "opus-mt-en-de", "batch": 8, "length": 64, "new": 64, "beams": 4, "ngram": 0, "largest_id": 58_000},
    "SmolLM2-135M, greedy, 1 x 32, 64 new":
        {"model": "SmolLM2-135M", "batch": 1, "length": 32, "new": 64, "beams": 1, "ngram": 0, "largest_id": 49_000},
    "SmolLM2-135M, beam 4, 1 x 32, 64 new":
        {"model": "SmolLM2-135M", "batch": 1, "length": 32, "new": 64, "beams": 4, "ngram": 0, "largest_id": 49_000},
}  # fmt: skip
TARGETS = {  # work -> times CTranslate2 in float32, times its int8 (ours: int8_dynamic), times transformers
    "gpt2, greedy, 1 x 32, 64 new": (1.2, 2.0, 2.0),
    "gpt2, greedy, 8 x 128, 32 new": (1.3, 1.3, 2.0),
    "gpt2, beam 4, 4 x 256, 32 new, n-gram 3": (2.0, 1.8, 4.0),
    "bart-base, beam 4, 4 x 512, 32 new, n-gram 3": (1.3, 1.1, 2.5),
    "t5-base, beam 4, 4 x 256, 32 new": (1.2, None, 2.0),
    "opus-mt, beam 4, 8 x 64, 64 new": (1.2, 1.1, 2.0),
    "SmolLM2-135M, beam 4, 1 x 32, 64 new": (None, None, 1.5),
}
TARGETS_ON_INTEL = (1.2, 1.3, 2.0)  # of each work in SETTINGS, beside peers that multiply by MKL
SYSTEMS = {  # name -> (function that loads it, what it is given, environment)
    "minidecode fp32": ("ours", {"dtype": "float32"}, {}),
    "minidecode int8": ("ours", {"dtype": "int8"}, {}),
    "minidecode int8_dynamic": ("ours", {"dtype": "int8_dynamic"}, {}),
    "minidecode int4": ("ours", {"dtype": "int4"}, {}),
}
# Threads of OpenMP, which ours has not, sleep between two products or, as is their default, spin for a while.
for _spins, _waiting in (("", {"OMP_WAIT_POLICY": "PASSIVE"}), (", spinning", {})):
    for _type, _compute in (("fp32", "float32"), ("int8", "int8")):
        for _products, _mkl in (("MKL", "1"), ("own", "0")):
            SYSTEMS[f"CTranslate2 {_type}, {_products}{_spins}"] = (
                "ctranslate2", {"compute_type": _compute}, {"CT2_USE_MKL": _mkl} | _waiting
            )  # fmt: skip
    SYSTEMS[f"transformers{_spins}"] = ("transformers", {}, _waiting)
SYSTEMS["accelerated"] = ("accelerated", {}, {"OMP_WAIT_POLICY": "PASSIVE"})
OF_GGUF = {  # how llama.cpp stores matrices -> ours of as many bits
    "F32": "minidecode fp32", "Q8_0": "minidecode int8_dynamic", "Q4_0": "minidecode int4",
}  # fmt: skip
for _type in OF_GGUF:
    for _how, _flash in (("", True), (", no flash attention", False)):
        SYSTEMS[f"llama.cpp {_type}{_how}"] = ("llama_cpp", {"stored": _type, "flash": _flash}, {})
ASLEEP = 0.3  # seconds after which threads that spin have gone to sleep, Intel's too (0.2)
PLAIN, OURS = "plain cache", "minidecode fp32"
STAGES = {"encoder": "encoder", "prefill": "prefill", "steps": "decode steps", "search": "search"}  # of a receipt
PLAIN_CACHE = {  # as SYSTEMS
    PLAIN: ("ours", {"dtype": "float32", "plan": "numpy,cache=replicated,ngram=naive"}, {}),
    OURS: SYSTEMS[OURS],
}
BESIDE = {  # what ours is held against: no system, but asked in the same way
    "ceilings": ("ceilings", {}, {}),
    "least": ("least", {"dtype": "float32"}, {}),
}
OUR_BLAS = ("ours", "accelerated", "ceilings", "least")  # have the kernels of --blas-kernels
OF_LLAMA_CPP = ("gpt2", "llama")  # kinds of models that it reads, which continue a text
PACKAGES = ("numpy", "numba", "transformers", "torch", "ctranslate2")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def make_checkpoint(name: str, folder: Path, shrink: bool, for_peers: bool) -> None:
    """A folder in the Hugging Face layout with the random weights of `load`, without a tokenizer."""
    from safetensors.numpy import save_file

    from minidecode.files.folder import read_settings
    from minidecode.files.published import published_config, random_tensors

    fields = published_config(name)
    if shrink:
        small = {
            "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 2},
            "bart": {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 128,
                     "decoder_ffn_dim": 128, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
            "marian": {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 128,
                       "decoder_ffn_dim": 128, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
            "t5": {"d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 1, "num_heads": 2},
            "llama": {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 3,
                      "num_key_value_heads": 1},
        }  # fmt: skip
        fields = fields | small[fields["model_type"]]
    family, config, _ = read_settings(None, fields)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    tensors = random_tensors(family.network.tensor_shapes(config), np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if for_peers:
        complete_for_peers(fields, config.vocab_size, folder)
        if fields["model_type"] in OF_LLAMA_CPP and not missing_of_llama():
            for stored in OF_GGUF:
                write_gguf(fields["model_type"], config, tensors, folder / f"{stored}.gguf", stored)


def missing_of_llama() -> list[str]:
    """The packages that llama.cpp needs here and that are not installed."""
    needed = (("llama_cpp", "llama-cpp-python"), ("gguf", "gguf"))
    return [package for module, package in needed if importlib.util.find_spec(module) is None]


def can_run(system: str, setting: dict) -> bool:
    """llama.cpp has no beam search, and no encoder-decoder model here; our int4 runs beside it alone."""
    model_type = published_type(setting["model"])
    is_pair = system.startswith("llama.cpp") or system == OF_GGUF["Q4_0"]
    return not is_pair or (model_type in OF_LLAMA_CPP and setting["beams"] == 1)


def published_type(name: str) -> str:
    """model_type of a published model."""
    from minidecode.files.published import published_config

    return published_config(name)["model_type"]


def write_gguf(model_type: str, config, tensors: dict, path: Path, stored: str) -> None:
    """A model as llama.cpp reads it, without a tokenizer: its matrices stored so, row by row of their outputs."""
    import gguf

    kind = gguf.GGMLQuantizationType[stored]
    writer = gguf.GGUFWriter(path, model_type)
    writer.add_tokenizer_model("none")
    for name, data in (describe_gpt2 if model_type == "gpt2" else describe_llama)(writer, config, tensors):
        is_product = data.ndim == 2 and not name.startswith("position_embd")
        if is_product and stored != "F32":
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe_gpt2(writer, config, tensors: dict) -> Iterator[tuple[str, np.ndarray]]:
    """Writes GPT-2's sizes; yields its tensors under GGUF's names."""
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_vocab_size(config.vocab_size)
    parts = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}  # fmt: skip
    names = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    names |= {f"h.{i}.{a}": f"blk.{i}.{b}" for i in range(config.n_layer) for a, b in parts.items()}
    for name, tensor in tensors.items():
        of, _, what = name.rpartition(".")
        is_stored_by_input = tensor.ndim == 2 and of not in ("wte", "wpe")
        yield f"{names[of]}.{what}", np.ascontiguousarray(tensor.T if is_stored_by_input else tensor, np.float32)


def describe_llama(writer, config, tensors: dict) -> Iterator[tuple[str, np.ndarray]]:
    """Writes Llama's sizes; yields its tensors under GGUF's names. llama.cpp rotates neighbouring numbers of a head."""
    heads, groups, layers = config.num_attention_heads, config.num_key_value_heads, config.num_hidden_layers
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab_size)
    parts = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}  # fmt: skip
    names = {"embed_tokens": "token_embd", "norm": "output_norm"}
    names |= {f"layers.{i}.{a}": f"blk.{i}.{b}" for i in range(layers) for a, b in parts.items()}
    for name, tensor in tensors.items():
        of, _, what = name.rpartition(".")
        data = np.ascontiguousarray(tensor, np.float32)
        if of.endswith(("q_proj", "k_proj")):  # its halves, which the Hugging Face layout rotates, become neighbours
            halves = data.reshape(heads if of.endswith("q_proj") else groups, 2, -1, data.shape[1])
            data = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(data.shape)
        yield f"{names[of]}.{what}", data


def make_in_process(context, maker: Callable, arguments: tuple, environment: dict, name: str) -> None:
    """Runs what makes a checkpoint in a process of its own. Ends the script if it fails."""
    process = start_process(context, maker, arguments, environment)
    process.join()
    if process.exitcode:
        raise SystemExit(f"no checkpoint could be made for {name}: see above")


def complete_config(fields: dict, folder: Path) -> None:
    """All that transformers has in a config.json."""
    import transformers

    kind, head = {
        "gpt2": (transformers.GPT2Config, "LMHeadModel"), "bart": (transformers.BartConfig, "ForConditionalGeneration"),
        "t5": (transformers.T5Config, "ForConditionalGeneration"), "llama": (transformers.LlamaConfig, "ForCausalLM"),
        "marian": (transformers.MarianConfig, "MTModel"),
    }[fields["model_type"]]  # fmt: skip
    written = kind(**{k: v for k, v in fields.items() if k != "model_type"}).to_dict()
    written |= {"architectures": [kind.__name__.replace("Config", head)]}
    if fields["model_type"] == "marian":
        written |= {"static_position_embeddings": True}
    if fields["model_type"] == "bart":  # as CTranslate2's converter asks for them
        written |= {"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False,
                    "static_position_embeddings": False, "extra_pos_embeddings": 2,
                    "add_bias_logits": False}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")


def complete_for_peers(fields: dict, vocabulary: int, folder: Path) -> None:
    """All that transformers has in a config.json, a tokenizer, and CTranslate2's form of the model.

    CTranslate2 wants a tokenizer with as many tokens as the model has: one is made whose tokens are numbers.
    """
    import tokenizers
    import transformers
    from ctranslate2.converters import TransformersConverter

    complete_config(fields, folder)
    names = [f"t{i}" for i in range(vocabulary)]
    if fields["model_type"] == "marian":
        names[-1] = "<pad>"  # by this name the converter knows the row that Marian itself has not
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, "t0"))
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "t0")
    if fields["model_type"] == "t5":
        special = {"pad_token": "t0", "eos_token": "t1", "unk_token": "t2"}
    elif fields["model_type"] == "marian":
        special = {"eos_token": "t0", "unk_token": "t1", "pad_token": "<pad>"}
    elif fields["model_type"] == "bart":
        special = {"bos_token": "t0", "pad_token": "t1", "eos_token": "t2", "unk_token": "t3"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    TransformersConverter(str(folder)).convert(str(folder / "ct2"), quantization="float32")


def has_no_encoder(folder: Path) -> bool:
    """Whether the model continues a text."""
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] in OF_LLAMA_CPP


def prompts_of(setting: dict) -> list[list[int]]:
    """Different prompts of the same length, without special tokens."""
    rng = np.random.default_rng(0)
    return rng.integers(100, setting.get("largest_id", 50_000), (setting["batch"], setting["length"])).tolist()


def options_of(setting: dict) -> dict:
    """Of ours, beside the n-grams that are banned."""
    return {"num_beams": setting["beams"], "max_new_tokens": setting["new"], "min_new_tokens": setting["new"]}


def ours(folder: Path, threads: int, dtype: str, plan: str = "fast") -> Callable[[dict], Callable[[], list]]:
    import minidecode as md

    model = md.load(folder, plan=plan, dtype=dtype)

    def prepare(setting: dict) -> Callable[[], list]:
        ids = prompts_of(setting)

        def run() -> list:
            out = model.generate(input_ids=ids, no_repeat_ngram_size=setting["ngram"], **options_of(setting))
            return [t.tolist() for t in out.token_ids]

        return run

    return prepare


def accelerated(folder: Path, threads: int) -> Callable[[dict], Callable[[], list]]:
    """A live model of transformers that generates through ours."""
    import minidecode as md

    return transformers(folder, threads, lambda model: md.accelerate(model, plan="fast"))


def transformers(
    folder: Path, threads: int, changed: Callable[[Any], Any] = lambda model: model
) -> Callable[[dict], Callable[[], list]]:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.set_num_threads(threads)
    fields, is_decoder = json.loads((folder / "config.json").read_text(encoding="utf-8")), has_no_encoder(folder)
    # Of Marian's vocabulary, the padding must not be generated; ours and CTranslate2's matrices do without it.
    banned = [[fields["pad_token_id"]]] if fields["model_type"] == "marian" else None
    model = changed((AutoModelForCausalLM if is_decoder else AutoModelForSeq2SeqLM).from_pretrained(folder).eval())

    def prepare(setting: dict) -> Callable[[], list]:
        ids = torch.tensor(prompts_of(setting))

        def run() -> list:
            with torch.inference_mode():
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), num_beams=setting["beams"], do_sample=False,
                    max_new_tokens=setting["new"], min_new_tokens=setting["new"], pad_token_id=1,
                    no_repeat_ngram_size=setting["ngram"], early_stopping=False, bad_words_ids=banned,
                )  # fmt: skip
            return out[:, setting["length"] if is_decoder else 1 :].tolist()

        return run

    return prepare


def ctranslate2(folder: Path, threads: int, compute_type: str) -> Callable[[dict], Callable[[], list]]:
    import ctranslate2

    is_decoder = has_no_encoder(folder)
    kind = ctranslate2.Generator if is_decoder else ctranslate2.Translator
    model = kind(str(folder / "ct2"), "cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads)

    def prepare(setting: dict) -> Callable[[], list]:
        tokens = [[f"t{i}" for i in prompt] for prompt in prompts_of(setting)]
        common = {"beam_size": setting["beams"], "no_repeat_ngram_size": setting["ngram"], "max_batch_size": 0}

        def run() -> list:
            if is_decoder:
                results = model.generate_batch(tokens, max_length=setting["new"], min_length=setting["new"],
                                             include_prompt_in_result=False, **common)  # fmt: skip
                return [r.sequences_ids[0] for r in results]
            results = model.translate_batch(tokens, max_decoding_length=setting["new"],
                                          min_decoding_length=setting["new"], **common)  # fmt: skip
            return [[int(t[1:]) for t in r.hypotheses[0]] for r in results]

        return run

    return prepare


def llama_cpp(folder: Path, threads: int, stored: str, flash: bool) -> Callable[[dict], Callable[[], list]]:
    """All prompts are one batch; then a batch of one token of each at every step. The likeliest token is taken."""
    import llama_cpp as c

    c.llama_backend_init()
    model = c.llama_model_load_from_file(str(folder / f"{stored}.gguf").encode(), c.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot load {stored}.gguf: see above")
    vocabulary = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))

    def prepare(setting: dict) -> Callable[[], list]:
        prompts, batch, length = prompts_of(setting), setting["batch"], setting["length"]
        given = c.llama_context_default_params()
        given.n_threads = given.n_threads_batch = threads
        given.n_seq_max, given.n_batch, given.n_ubatch = batch, batch * length, batch * length
        given.n_ctx = batch * (-(-(length + setting["new"]) // 256) * 256)  # each sequence has its part
        given.flash_attn_type = int(flash)
        context = c.llama_init_from_model(model, given)
        tokens = c.llama_batch_init(batch * length, 0, 1)

        def likeliest(rows: list[tuple[int, int, int, bool]]) -> list[int]:
            """rows: (token, position, sequence, whether its next token is asked for) -> those tokens."""
            tokens.n_tokens = len(rows)
            for i, (token, position, sequence, is_last) in enumerate(rows):
                tokens.token[i], tokens.pos[i], tokens.logits[i] = token, position, is_last
                tokens.n_seq_id[i], tokens.seq_id[i][0] = 1, sequence
            if c.llama_decode(context, tokens):
                raise SystemExit("llama.cpp cannot compute this batch: see above")
            logits = (c.llama_get_logits_ith(context, i) for i, row in enumerate(rows) if row[3])
            return [int(np.ctypeslib.as_array(each, (vocabulary,)).argmax()) for each in logits]

        def run() -> list:
            c.llama_memory_clear(c.llama_get_memory(context), True)
            last = likeliest([(t, p, s, p == length - 1) for s, ids in enumerate(prompts) for p, t in enumerate(ids)])
            made = [last]
            for step in range(setting["new"] - 1):
                last = likeliest([(t, length + step, s, True) for s, t in enumerate(last)])
                made.append(last)
            return [list(ids) for ids in zip(*made, strict=True)]

        return run

    return prepare


def send_disagreements(pipe, folder: Path, settings: list[dict]) -> None:
    """A process that sends, for each setting, how many texts of `fast` are not those of the plain cache, and what the
    receipts of both say: the bytes of caches, and the seconds of each stage, in the fastest of three more runs.

    Only ties may part them: sends a sentence instead where no tie explains it.
    """
    import minidecode as md
    from minidecode.bench.rungs import Setting, Work, differing_texts, is_tie, run_ids

    model = md.load(folder)
    for s in settings:
        texts = Work(model, [np.array(prompt) for prompt in prompts_of(s)], None, options_of(s))
        sides = {}
        for label, (_, given, _) in PLAIN_CACHE.items():
            base, *choices = given.get("plan", "fast").split(",")
            plan = {"base": base} | dict(choice.split("=") for choice in choices)
            sides[label] = Setting(plan, "float32", s["batch"], s["ngram"])
        runs = {label: run_ids(texts, side) for label, side in sides.items()}
        parted = differing_texts(runs[PLAIN], runs[OURS])
        if wrong := [n for n in parted if not is_tie(texts, n, sides[PLAIN], sides[OURS])]:
            pipe.send(f"text {wrong[0] + 1} of {s['batch']} is another under plan=fast, and no tie explains it")
            return
        held = {label: max(r.cache_peak_bytes for r in run.receipts) for label, run in runs.items()}
        seconds = {}
        for label, (_, given, _) in PLAIN_CACHE.items():
            fast = md.load(folder, dtype=given["dtype"], plan=given.get("plan", "fast"))  # its weights packed, as timed
            how = {"input_ids": prompts_of(s), "no_repeat_ngram_size": s["ngram"]} | options_of(s)
            again = [fast.generate(**how).receipt.seconds for _ in range(3)]
            fastest = min(again, key=lambda stages: sum(stages.values()))
            seconds[label] = {name: round(fastest.get(name, 0.0), 4) for name in STAGES}
        pipe.send({"tied_texts": len(parted), "memory_bytes": held, "seconds": seconds})


def start_process(context, target: Callable, arguments: tuple, environment: dict):
    """A process that has these variables from its very beginning: NumPy's BLAS reads them as it is loaded.

    Whatever stands in the process's function comes too late, for a spawned process imports this file first.
    """
    process = context.Process(target=target, args=arguments, daemon=True)
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        process.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return process


def work(pipe, load: str, folder: Path, threads: int, given: dict) -> None:
    """A system's process: loads once, says what NumPy multiplies by, then answers each setting: tokens and seconds."""
    prepare, runs = globals()[load](folder, threads, **given), {}
    from threadpoolctl import threadpool_info

    pipe.send(next((i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas"), "no OpenBLAS"))
    while (setting := pipe.recv()) is not None:
        key = json.dumps(setting)
        runs.setdefault(key, None)
        runs[key] = runs[key] or prepare(setting)
        started = time.perf_counter()
        tokens = runs[key]()
        pipe.send((tokens, time.perf_counter() - started))


def least_work(folder: Path, threads: int, dtype: str) -> Callable[[dict], Callable[[], list]]:
    """Of ours: (bytes, operations) of each call of an op, at the least, by its cost model."""
    import minidecode as md

    model = md.load(folder, plan="fast", dtype=dtype)

    def prepare(setting: dict) -> Callable[[], list]:
        def run() -> list:
            how = {"no_repeat_ngram_size": setting["ngram"], "costs": True} | options_of(setting)
            counts = model.generate(input_ids=prompts_of(setting), **how).receipt.ops.values()
            return [(cost.bytes, cost.operations) for count in counts for cost in count.costs]

        return run

    return prepare


def ceilings(folder: Path, threads: int) -> Callable[[dict], Callable[[], list]]:
    """Of the machine: [bytes per second that so many threads read, operations per second of a large product]."""
    from concurrent.futures import ThreadPoolExecutor

    from numba import njit

    @njit(nogil=True, fastmath=True)
    def total(numbers):
        total = np.float32(0)
        for i in range(len(numbers)):  # by index: only so LLVM makes vectors of it
            total += numbers[i]
        return total

    numbers, matrix = np.ones(64 * 2**20, np.float32), np.ones((1024, 1024), np.float32)
    parts, pool = np.array_split(numbers, threads), ThreadPoolExecutor(threads)
    calls = (lambda: list(pool.map(total, parts)), lambda: matrix @ matrix)
    amounts = (numbers.nbytes, 2 * len(matrix) ** 3)

    def seconds(call: Callable) -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    def run() -> list:
        return [amount / min(seconds(call) for _ in range(5)) for call, amount in zip(calls, amounts, strict=True)]

    return lambda setting: run


def receive_answer(pipe, who: str):
    """What a process sends. Ends the script in one line if it has ended instead."""
    try:
        return pipe.recv()
    except EOFError:
        raise SystemExit(f"{who}: its process ended without an answer: see above") from None


def verdicts(context, folder: Path, settings: list[dict], environment: dict) -> list[dict]:
    """Verdicts of `send_disagreements`, by setting. Ends the script if texts part without a tie: nothing is timed."""
    pipe, theirs = context.Pipe()
    process, verdicts = start_process(context, send_disagreements, (theirs, folder, settings), environment), []
    theirs.close()
    for _ in settings:
        verdicts.append(receive_answer(pipe, "comparing texts"))
        if isinstance(verdicts[-1], str):
            raise SystemExit(f"{verdicts[-1]}: nothing is timed")
    process.join()
    return verdicts


def ask_system(pipe, who: str, setting: dict) -> tuple[list, float]:
    """What a system's process answers, and the seconds that it took for it; then what spins may fall asleep."""
    pipe.send(setting)
    reply = receive_answer(pipe, who)
    time.sleep(ASLEEP)
    return reply


def time_setting(setting: dict, pipes: dict, runs: int, others: dict | None = None) -> dict[str, dict]:
    """System -> tokens/s and seconds, by turns, after one run that does not count; the machine's limits in `beside`."""
    seconds, tokens, reached = {name: [] for name in pipes}, {}, []
    rng = np.random.default_rng(0)
    for turn in range(runs + 1):
        for name in rng.permutation(list(pipes)).tolist():
            tokens[name], took = ask_system(pipes[name], name, setting)
            if any(len(t) < setting["new"] - 1 for t in tokens[name]):
                raise SystemExit(f"{name} made {min(map(len, tokens[name]))} tokens, and not {setting['new']}")
            if turn > 0:
                seconds[name].append(took)
        if others and turn > 0:
            reached.append(ask_system(others["ceilings"], "ceilings", setting)[0])
    new = setting["batch"] * setting["new"]
    timed = {
        name: {"tokens_per_second": round(new / statistics.median(s), 1), "seconds": [round(x, 4) for x in s],
               "same_tokens_as_transformers": None if "transformers" not in tokens else
               sum(a == b for a, b in zip(tokens[name], tokens["transformers"], strict=True))}
        for name, s in seconds.items()
    }  # fmt: skip
    if others:
        calls = ask_system(others["least"], "least", setting)[0]
        reads, computes = (statistics.median(turn[k] for turn in reached) for k in (0, 1))
        timed[OURS]["limits"] = {
            "bytes": sum(size for size, _ in calls), "operations": sum(number for _, number in calls),
            "read_per_second": round(reads), "operations_per_second": round(computes),
            "seconds": round(sum(max(size / reads, number / computes) for size, number in calls), 4),
        }  # fmt: skip
    if PLAIN in seconds:
        ratios = [plain / mine for plain, mine in zip(seconds[PLAIN], seconds[OURS], strict=True)]
        timed[OURS]["over_plain_cache"] = [round(float(x), 3) for x in np.quantile(ratios, (0.5, 0.25, 0.75))]
    return timed


def versions() -> dict[str, str | None]:
    installed: dict[str, str | None] = {}
    for package in ("minidecode", "numpy", "numba", "transformers", "torch", "ctranslate2", "llama_cpp_python"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = None
    return installed


def table(record: dict) -> str:
    """Tokens per second, and ours over the best of each peer."""
    lines = ["| work | minidecode fp32 | int8 | int8_dynamic | CTranslate2 fp32 | int8 | transformers |"
             " ours / CTranslate2: fp32, int8_dynamic | ours / transformers |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in record["work"].items():
        ours = [rows.get(f"minidecode {kind}") for kind in ("fp32", "int8", "int8_dynamic")]
        theirs = [best_row(rows, peer) for peer in ("CTranslate2 fp32", "CTranslate2 int8", "transformers")]
        shown = [f"{row['tokens_per_second']:,.1f}" if row else "" for row in (*ours, *theirs)]
        first, second, third = (ratio(*pair) if all(pair) else "" for pair in pairs_of_rows(rows))
        lines.append(f"| {name} | {' | '.join(shown)} | {first}, {second} | {third} |")
    for more in (llama_lines(record), target_lines(record)):
        lines += ["", *more] if more else []
    turns = min(len(row["seconds"]) for rows in record["work"].values() for row in rows.values())
    summary = (
        f"Medians of {turns} turns. A ratio is the median of the turns' ratios; in brackets, their lower and upper"
        " quartile."
    )
    return "\n".join([*lines, "", summary, *where(record), *(["", limits] if (limits := limits_table(record)) else [])])


def llama_lines(record: dict) -> list[str]:
    """A table of its own, of the works and types that it was asked; nothing where it was not."""
    works = {name: rows for name, rows in record["work"].items() if best_row(rows, "llama.cpp")}
    types = [t for t in OF_GGUF if t != "Q4_0" or any(best_row(rows, "llama.cpp Q4_0") for rows in works.values())]
    pairs = [f"{OF_GGUF[t].removeprefix('minidecode ')}{f' / {t}' * (t != 'F32')}" for t in types]
    ours_alone = [OF_GGUF["Q4_0"]] if "Q4_0" in types else []  # of the others the first table has the speed
    lines = [f"| work | llama.cpp {' | '.join([*types, *ours_alone])} | minidecode / llama.cpp: {', '.join(pairs)} |",
             "|---" * (2 + len(types) + len(ours_alone)) + "|"]  # fmt: skip
    for name, rows in works.items():
        theirs, ours = [best_row(rows, f"llama.cpp {t}") for t in types], [rows.get(OF_GGUF[t]) for t in types]
        shown = [f"{row['tokens_per_second']:,.1f}" if row else "" for row in (*theirs, *map(rows.get, ours_alone))]
        ratios = [ratio(a, b) if a and b else "" for a, b in zip(ours, theirs, strict=True)]
        lines.append(f"| {name} | {' | '.join(shown)} | {', '.join(ratios)} |")
    return lines if works else []


def accelerated_table(record: dict) -> str:
    """A model of transformers that generates through ours, beside ours and beside transformers alone."""
    lines = ["| work | md.accelerate | minidecode fp32 | transformers | md.accelerate / minidecode fp32 |"
             " md.accelerate / transformers |", "|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in record["work"].items():
        three = rows["accelerated"], rows[OURS], best_row(rows, "transformers")
        shown = [f"{row['tokens_per_second']:,.1f}" for row in three if row]
        ratios = [ratio(three[0], row) for row in three[1:] if row]
        lines.append(f"| {name} | {' | '.join([*shown, *ratios])} |")
    return "\n".join([*lines, "", *where(record)])


def best_row(rows: dict, start: str) -> dict | None:
    """The fastest of the systems whose names begin so."""
    mine = [row for system, row in rows.items() if system.startswith(start)]
    return max(mine, key=lambda row: row["tokens_per_second"], default=None)


def pairs_of_rows(rows: dict) -> list[tuple[dict | None, dict | None]]:
    """(ours, a peer): float32 beside CTranslate2, int8_dynamic beside its int8, float32 beside transformers."""
    fp32, int8 = rows.get(OURS), rows.get("minidecode int8_dynamic")
    return [(fp32, best_row(rows, "CTranslate2 fp32")), (int8, best_row(rows, "CTranslate2 int8")),
            (fp32, best_row(rows, "transformers"))]  # fmt: skip


def target_lines(record: dict) -> list[str]:
    """What was to be reached, beside what was; nothing where no work has a target."""
    lines = ["| work | float32 / CTranslate2: target, reached | int8_dynamic / its int8 | float32 / transformers |",
             "|---|---|---|---|"]  # fmt: skip
    for name, rows in record["work"].items():
        if name in TARGETS and all(ours and theirs for ours, theirs in pairs_of_rows(rows)):
            cells, targets = [], TARGETS_ON_INTEL if is_intel(record) and name in SETTINGS else TARGETS[name]
            for wanted, (ours, theirs) in zip(targets, pairs_of_rows(rows), strict=True):
                reached = middle_ratio(ours, theirs)
                missed = f"{wanted:g}x, **{reached:.2f}x, missed**" if wanted else ""
                cells.append(f"{wanted:g}x, {reached:.2f}x" if wanted and reached >= wanted else missed)
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines if lines[2:] else []


def is_intel(record: dict) -> bool:
    """Whether it was recorded on an Intel, whose tables have marks of their own."""
    return record["machine"]["processor"].startswith("Intel")


def middle_ratio(ours: dict, theirs: dict) -> float:
    """The median of the turns' ratios."""
    return statistics.median(b / a for a, b in zip(ours["seconds"], theirs["seconds"], strict=True))


def ratio(ours: dict, theirs: dict) -> str:
    """How much faster ours is, turn by turn: the median of the ratios, and the lower and upper quartile."""
    ratios = np.array(theirs["seconds"]) / ours["seconds"]
    lower, middle, upper = np.quantile(ratios, (0.25, 0.5, 0.75))
    return f"{middle:.2f}x ({lower:.2f}-{upper:.2f})"


def limits_table(record: dict) -> str:
    """Ours in float32 beside what the machine allows; nothing where that was not measured."""
    lines = ["| work | reads, at least | computes, at least | the machine reads | multiplies | time at these limits |"
             " minidecode fp32 | of what is allowed |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in record["work"].items():
        if limits := rows.get(OURS, {}).get("limits"):
            took = statistics.median(rows[OURS]["seconds"])
            lines.append(
                f"| {name} | {limits['bytes'] / 1e9:.1f} GB | {limits['operations'] / 1e9:.0f} G"
                f" | {limits['read_per_second'] / 1e9:.0f} GB/s | {limits['operations_per_second'] / 1e9:.0f} G/s"
                f" | {limits['seconds']:.2f} s | {took:.2f} s | {limits['seconds'] / took:.0%} |"
            )
    return "\n".join(lines) if lines[2:] else ""


def plain_table(record: dict) -> str:
    """Tokens per second of the plain cache and of ours, the median of the turns' ratios, bytes of the caches."""
    lines = ["| work | plain cache | plan=fast | over the plain cache | keys and values | texts parted by ties |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in record["work"].items():
        speeds = []
        for label in PLAIN_CACHE:
            seconds = rows[label]["seconds"]
            speeds.append(f"{rows[label]['tokens_per_second']:,.1f} ({min(seconds):.2f}-{max(seconds):.2f} s)")
        median, lower, upper = rows[OURS]["over_plain_cache"]
        agreed = record["agreed"][name]
        held = " to ".join(f"{agreed['memory_bytes'][label] / 1e6:,.1f} MB" for label in PLAIN_CACHE)
        lines.append(
            f"| {name} | {' | '.join(speeds)} | {median:.2f}x ({lower:.2f}-{upper:.2f}) | {held} |"
            f" {agreed['tied_texts']} |"
        )
    lines += ["", f"| seconds of a run | {' | '.join(STAGES.values())} |", "|---|" + "---|" * len(STAGES)]
    for name in record["work"]:
        for label, seconds in record["agreed"][name]["seconds"].items():
            cells = " | ".join(f"{seconds[stage]:.2f}" for stage in STAGES)
            lines.append(f"| {name}: {'plan=fast' if label == OURS else label} | {cells} |")
    return "\n".join([*lines, "", *where(record)])


def where(record: dict) -> list[str]:
    """The lines below a table."""
    m, v = record["machine"], record["versions"]
    packages = ", ".join(f"{k} {v[k]}" for k in (*PACKAGES, "llama_cpp_python") if v.get(k))
    machine = f"{m['threads']} threads on {m['cores']} cores ({m['processor']}); kernels of our OpenBLAS:"
    summary = f"Tokens per second, {machine} {m['blas_kernels']}; {packages}."
    return [summary, record["note"]] if record["note"] else [summary]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    other = p.add_mutually_exclusive_group()
    other.add_argument("--plain-cache", action="store_true", help="ours against a plain cache, in place of the peers")
    other.add_argument("--accelerated", action="store_true", help="a live model of transformers, with and without ours")
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--threads", type=positive, default=os.cpu_count(), help="of every system")
    p.add_argument("--only", nargs="+", default=list(SETTINGS), metavar="WORK", help="works whose name begins so")
    p.add_argument("--systems", nargs="+", default=list(SYSTEMS), metavar="NAME", help="systems whose name begins so")
    p.add_argument(
        "--blas-kernels", default="", metavar="NAME", help="OPENBLAS_CORETYPE of ours; see minidecode doctor"
    )
    p.add_argument("--shrink", action="store_true", help="toy shapes: to see that it runs")
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme",
        type=with_marks("peers", "peers-intel", "peers-models", "peers-accelerated", "plain-cache"),
        help="file whose table between the marks peers (or -intel, -models, -accelerated; plain-cache) is replaced",
    )
    a = p.parse_args()
    works = {n: s for n, s in (SETTINGS | MORE_SETTINGS).items() if any(n.startswith(o) for o in a.only)}
    systems = {n: s for n, s in SYSTEMS.items() if any(n.startswith(o) for o in a.systems)}
    if (missing := missing_of_llama()) and any(n.startswith("llama.cpp") for n in systems):
        print(f"llama.cpp is left out, because packages are missing: pip install {' '.join(missing)}")
        systems = {n: s for n, s in systems.items() if not n.startswith("llama.cpp")}
    if a.accelerated:
        systems = {n: s for n, s in SYSTEMS.items() if n.startswith((OURS, "accelerated", "transformers"))}
    if a.plain_cache:
        works, systems = {n: s for n, s in works.items() if s["beams"] > 1}, PLAIN_CACHE
    if not works or not systems:
        raise SystemExit(
            f"nothing to do: works are {'; '.join(SETTINGS | MORE_SETTINGS)}; systems are {'; '.join(SYSTEMS)}"
        )
    context, rows_of_work, agreed, kernels = mp.get_context("spawn"), {}, {}, ""
    common = dict.fromkeys(THREADS, str(a.threads))
    of_ours = common | ({"OPENBLAS_CORETYPE": a.blas_kernels} if a.blas_kernels else {})
    with tempfile.TemporaryDirectory() as scratch:
        for name in dict.fromkeys(s["model"] for s in works.values()):
            folder, mine = Path(scratch) / name, {n: s for n, s in works.items() if s["model"] == name}
            make_in_process(context, make_checkpoint, (name, folder, a.shrink, not a.plain_cache), common, name)
            if a.plain_cache:
                agreed |= dict(zip(mine, verdicts(context, folder, list(mine.values()), of_ours), strict=True))
            pipes, workers = {}, []
            against = BESIDE if OURS in systems and not a.plain_cache else {}
            for system, (load, given, more) in (systems | against).items():
                if not any(can_run(system, setting) for setting in mine.values()):
                    continue
                pipes[system], theirs = context.Pipe()
                environment = (of_ours if load in OUR_BLAS else common) | more
                workers.append(start_process(context, work, (theirs, load, folder, a.threads, given), environment))
                theirs.close()
            multiplies = {system: receive_answer(pipe, system) for system, pipe in pipes.items()}
            others = {name: pipes.pop(name) for name in BESIDE if name in pipes}
            kernels = next((k for s, k in multiplies.items() if systems[s][0] == "ours"), "none was asked")
            for label, setting in mine.items():
                able = {system: pipe for system, pipe in pipes.items() if can_run(system, setting)}
                rows_of_work[label] = time_setting(setting, able, a.runs, others)
                print(label, {n: r["tokens_per_second"] for n, r in rows_of_work[label].items()}, flush=True)
            for pipe in (*pipes.values(), *others.values()):
                pipe.send(None)
            for worker in workers:
                worker.join()
    machine = {"processor": name_of_processor(), "cores": os.cpu_count(), "threads": a.threads, "blas_kernels": kernels}
    result = {
        "machine": machine,
        "versions": versions(),
        "note": f"{'Toy shapes. ' * a.shrink}{a.note}".strip(),
        "work": rows_of_work,
    }
    if a.plain_cache:
        result |= {"plan": PLAIN_CACHE[PLAIN][1]["plan"], "agreed": agreed}
        for package in ("transformers", "torch", "ctranslate2", "llama_cpp_python"):
            del result["versions"][package]
    mark, text = ("plain-cache", plain_table(result)) if a.plain_cache else ("peers", table(result))
    if not a.plain_cache and not SETTINGS.keys() & works.keys():
        mark = "peers-models"
    elif mark == "peers" and is_intel(result):
        mark = "peers-intel"
    if a.accelerated:
        for package in ("ctranslate2", "llama_cpp_python"):
            del result["versions"][package]
        mark, text = "peers-accelerated", accelerated_table(result)
    print(text)
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, mark, text)


if __name__ == "__main__":
    main()
