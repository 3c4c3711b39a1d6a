"""ProphetNet in plans: caches, kernels, arenas, stored weights, fewer heads, texts. Golden files hold its numbers."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from taken_bytes import peak_of

import minidecode as md
from minidecode.methods.plans import engine_of
from minidecode.models import prophetnet
from minidecode.models.prophetnet import RELATIVE

GOLDEN = Path(__file__).parents[1] / "golden" / "prophetnet"
SOURCES = [[5, 9, 14, 3, 7, 2], [11, 2], [4, 6, 8, 10, 12, 13, 15, 16, 17, 2]]
OPTIONS = {"num_beams": 3, "max_new_tokens": 12, "eos_token_id": [2]}


def generate(folder, plan="numpy", options=OPTIONS, sources=SOURCES, **how):
    model = md.load(folder, plan=plan, **how)
    out = model.generate(input_ids=sources, **options)
    return [ids.tolist() for ids in out.token_ids], out.receipt


@pytest.fixture(scope="module", params=["old-file", "one-head", "few-buckets"])
def folder(request):
    return GOLDEN / request.param


@pytest.mark.parametrize("plan", [
    "fast", "fast,cache=indirect", "fast,cache=preallocated", "fast,cache=el", "naive", "cache=split,arena=planned",
    "fast,arena=planned", "cache=replicated,arena=planned", "cache=indirect,arena=separate", "fast,drop_finished=off",
    "hars=cpu", "cache=split,epilogue=reference",
])  # fmt: skip
def test_plans_give_the_same_tokens(folder, plan):
    assert generate(folder, plan)[0] == generate(folder)[0]


@pytest.mark.parametrize("search", [{}, {"do_sample": True, "num_return_sequences": 2, "seed": 3}])
def test_searches_of_one_beam(folder, search):
    options = {"max_new_tokens": 9, "eos_token_id": [2], **search}
    assert generate(folder, "fast", options)[0] == generate(folder, "cache=none", options)[0]


@pytest.mark.parametrize("cache", ["split", "indirect"])
def test_kernels_and_captured_steps_give_the_same_tokens(cache):
    short = {"options": {"num_beams": 2, "max_new_tokens": 4, "eos_token_id": None}, "sources": SOURCES[:2]}
    tokens, receipt = generate(GOLDEN / "old-file", f"emulator,cache={cache},graphs=on", device="emulator", **short)
    assert tokens == generate(GOLDEN / "old-file", **short)[0]
    attending = {op: c.implementation for op, c in receipt.ops.items() if op.startswith("attend")}
    assert attending and all("cuda" in where for where in attending.values()), attending
    assert receipt.graphs.launches > 0


def test_one_product_for_both_rows_and_less_in_the_last_layer():
    """A step of the split cache: attention is called for either row, the source's and the products for both at once."""
    folder, options = GOLDEN / "two-ahead", OPTIONS | {"eos_token_id": None}
    _, receipt = generate(folder, "cache=split", options)
    steps, layers = receipt.steps - 1, 2
    assert receipt.rows == 2 * steps * 9
    calls = {op: c.calls for op, c in receipt.ops.items()}
    assert calls["attend_split"] == steps * (2 * layers - 1) and calls["append_kv"] == steps * 2 * layers
    assert calls["attend_shared"] == steps * layers


def test_the_source_is_kept_once_for_all_layers_by_el():
    _, receipt = generate(GOLDEN / "two-ahead", "cache=el")
    assert receipt.ops["attend_el"].calls and receipt.ops["attend_split"].calls and "attend_shared" not in receipt.ops


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic"])
def test_stored_weights(dtype):
    """Equal in NumPy and compiled; and near what float32 says."""
    folder = GOLDEN / "two-ahead"
    assert generate(folder, "fast", dtype=dtype)[0] == generate(folder, "numpy", dtype=dtype)[0]
    given = {"input_ids": SOURCES, "decoder_input_ids": [[2, 3, 4]] * 3}
    exact, stored = (md.load(folder, dtype=d).logits(**given) for d in ("float32", dtype))
    off = max(np.abs(a - b).max() for a, b in zip(exact, stored, strict=True))
    assert 0 < off < 0.1 * max(np.abs(a).max() for a in exact)


def test_fewer_heads_keep_the_bias_of_each_query_head(tmp_path):
    from minidecode.files.head_pooling import convert

    convert(GOLDEN / "three-ahead", tmp_path / "grouped", num_key_value_heads=1)
    model = md.load(tmp_path / "grouped")
    assert [block.heads.G for block in (*model.weights.encoder.blocks, *model.weights.blocks)] == [1] * 4
    assert model.weights.blocks[0].heads.H == 3
    tokens = generate(tmp_path / "grouped", "cache=none")[0]
    assert all(generate(tmp_path / "grouped", plan)[0] == tokens for plan in ("fast,cache=indirect", "cache=el"))


def test_a_window_rolls_with_its_bias(tmp_path):
    """attention_window is ours: the decoder sees its last positions, in slots that are written over."""
    shutil.copytree(GOLDEN / "old-file", tmp_path / "p")
    path = tmp_path / "p" / "config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(fields | {"attention_window": 3}), encoding="utf-8")
    tokens = generate(tmp_path / "p", "cache=none")[0]
    assert all(generate(tmp_path / "p", plan)[0] == tokens for plan in ("cache=rolling", "fast,cache=split"))
    assert tokens != generate(GOLDEN / "old-file")[0]


@pytest.mark.parametrize("cache", ["none", "replicated", "split", "rolling"])
@pytest.mark.parametrize("name", ["two-ahead", "three-ahead"])
def test_a_float64_forward_written_out(cache, name, tmp_path):
    """Logits of each step from an independent code of the equations: loops over tokens, layers and heads."""
    shutil.copytree(GOLDEN / name, tmp_path / "p")
    if cache == "rolling":
        path = tmp_path / "p" / "config.json"
        fields = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(fields | {"attention_window": 4}), encoding="utf-8")
    model = md.load(tmp_path / "p", dtype="float64")
    sources, targets = [[5, 9, 14, 3], [11]], [[2, 8, 9, 10, 4, 6, 7, 5], [2, 3, 4, 5, 6, 7, 8, 9]]
    expected = [written_out(model, s, t) for s, t in zip(sources, targets, strict=True)]
    engine = engine_of(model, md.Plan.parse(f"cache={cache}"))
    engine.encode([np.array(s) for s in sources])
    found = [engine.prefill([np.array(t[:1]) for t in targets])]
    engine.expand(1, 8)
    tokens_RM = np.array(targets)
    for n in range(2, 9):
        found.append(engine.step(tokens_RM, np.full(2, n), None))
    for b, logits_NV in enumerate(expected):
        np.testing.assert_allclose(np.stack([logits_RV[b] for logits_RV in found]), logits_NV, rtol=0, atol=1e-11)


def written_out(model, source, target) -> np.ndarray:
    """(N, V): the main stream and the first predict stream, a token at a time."""
    erf = np.vectorize(math.erf)
    c, t, window = model.config, model.tensors, model.config.attention_window or 10**6
    first = 1  # the row before is the padding's

    def affine(x, name):
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * t[f"{name}.weight"] + t[f"{name}.bias"]

    def attend(q_D, k_MD, v_MD, H, bias_MH=0.0):
        q_HK, k_MHK, v_MHK = (x.reshape(*x.shape[:-1], H, -1) for x in (q_D, k_MD, v_MD))
        s_MH = np.einsum("hk,mhk->mh", q_HK, k_MHK) * q_HK.shape[1] ** -0.5 + bias_MH
        p_MH = np.exp(s_MH - s_MH.max(0))
        return np.einsum("mh,mhk->hk", p_MH / p_MH.sum(0), v_MHK).reshape(-1)

    def bucket(d):
        e = c.num_buckets // 2
        far = e + int(np.log(max(d, 1) / e) / np.log(c.relative_max_distance / e) * (c.num_buckets - e))
        return d if d < e else min(far, c.num_buckets - 1)

    def feed(x, layer):
        f = affine(x, f"{layer}.feed_forward.intermediate")
        f = affine(f / 2 * (1 + erf(f / np.sqrt(2))), f"{layer}.feed_forward.output")
        return norm(x + f, f"{layer}.feed_forward_layer_norm")

    table = t["word_embeddings.weight"]
    e_ND = norm(table[source] + t["encoder.position_embeddings.weight"][first : first + len(source)],
                "encoder.embeddings_layer_norm")  # fmt: skip
    for i in range(c.num_encoder_layers):
        layer = f"encoder.layers.{i}"
        q, k, v = (affine(e_ND, f"{layer}.self_attn.{p}_proj") for p in ("query", "key", "value"))
        a_ND = np.stack([attend(row, k, v, c.num_encoder_attention_heads) for row in q])
        e_ND = norm(e_ND + affine(a_ND, f"{layer}.self_attn.out_proj"), f"{layer}.self_attn_layer_norm")
        e_ND = feed(e_ND, layer)

    H, positions, logits = c.num_decoder_attention_heads, t["decoder.position_embeddings.weight"], []
    keys, values = ([[] for _ in range(c.num_decoder_layers)] for _ in range(2))
    for n, token in enumerate(target):
        main = norm(table[token] + positions[first + n], "decoder.embeddings_layer_norm")
        ahead = norm(t["decoder.ngram_embeddings.weight"][-1] + positions[first + n + 1],
                     "decoder.embeddings_layer_norm")  # fmt: skip
        for i in range(c.num_decoder_layers):
            layer = f"decoder.layers.{i}"
            rows = []
            for row, own in ((main, n), (ahead, n + 1)):
                q, k, v = (affine(row, f"{layer}.self_attn.{p}_proj") for p in ("query", "key", "value"))
                if row is main:
                    keys[i].append(k)
                    values[i].append(v)
                ks, vs = (keys[i], values[i]) if row is main else ([*keys[i], k], [*values[i], v])
                seen = range(max(0, own + 1 - window), own + 1)
                r_PH = affine(row, f"{layer}.{RELATIVE}").reshape(c.num_buckets, H)
                bias_MH = np.stack([r_PH[bucket(own - m)] for m in seen])
                a = attend(q, np.stack([ks[m] for m in seen]), np.stack([vs[m] for m in seen]), H, bias_MH)
                row = norm(row + affine(a, f"{layer}.self_attn.out_proj"), f"{layer}.self_attn_layer_norm")
                cross = [affine(x, f"{layer}.cross_attn.{p}_proj")
                         for x, p in ((row, "query"), (e_ND, "key"), (e_ND, "value"))]  # fmt: skip
                a = affine(attend(*cross, H), f"{layer}.cross_attn.out_proj")
                rows.append(feed(norm(row + a, f"{layer}.cross_attn_layer_norm"), layer))
            main, ahead = rows
        logits.append(ahead @ table.T)
    return np.stack(logits)


def test_scores_of_whole_targets_are_those_of_the_steps():
    model = md.load(GOLDEN / "two-ahead", dtype="float64", plan="cache=split")
    out = model.generate(input_ids=SOURCES, logprobs=1, num_beams=1, length_penalty=0.0, max_new_tokens=8)
    scores = model.score(input_ids=SOURCES, target_ids=[ids.tolist() for ids in out.token_ids])
    for b in range(len(SOURCES)):
        np.testing.assert_allclose(out.log_probs[b].token_R, scores.token_log_probs[b], rtol=0, atol=1e-12)
        assert abs(out.scores[b] - scores.log_probs[b]) < 1e-9, "what greedy search added up, step by step"


def test_the_estimate_of_memory_holds():
    model = md.load(GOLDEN / "two-ahead")
    for cache in ("split", "replicated", "none", "el"):
        options = OPTIONS | {"eos_token_id": None, "plan": f"cache={cache}", "logprobs": 1}
        model.generate(input_ids=SOURCES, **options | {"max_new_tokens": 2})
        needed = model.footprint(input_ids=SOURCES, **options)
        out, peak = peak_of(lambda options=options: model.generate(input_ids=SOURCES, **options), needed.total)
        assert out.receipt.cache_peak_bytes <= needed.cache and peak <= needed.total


def test_published_shapes_plan_a_step():
    """Without their weights: published sizes bind, and say what a step takes."""
    from minidecode.loading import load_shapes

    model = load_shapes("prophetnet-large-uncased-cnndm", vocab_size=128)
    assert model.family == "prophetnet" and model.config.context == 510 and model.config.source_context == 511
    assert model.plan_step(batch_size=2, input_length=16, num_beams=2, max_new_tokens=8).bytes > 0


def test_xlm_prophetnet_has_the_same_layout(tmp_path):
    shutil.copytree(GOLDEN / "two-ahead", tmp_path / "x")
    path = tmp_path / "x" / "config.json"
    text = path.read_text(encoding="utf-8").replace('"model_type": "prophetnet"', '"model_type": "xlm-prophetnet"')
    path.write_text(text, encoding="utf-8")
    (tmp_path / "x" / "prophetnet.tokenizer").write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15\x00\xff\xfe")
    assert md.load(tmp_path / "x").network is prophetnet
    assert generate(tmp_path / "x")[0] == generate(GOLDEN / "two-ahead")[0]
    with pytest.raises(md.InputError, match="no tokenizer"):
        md.load(tmp_path / "x").generate("a text")


# ---- texts -----------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[SEP]", "[MASK]", "[X_SEP]", "the", "cat", "sat", "##s", "on", "mat", ".", "!", "caf"]


@pytest.fixture
def with_words(tmp_path):
    shutil.copytree(GOLDEN / "two-ahead", tmp_path / "p")
    (tmp_path / "p" / "prophetnet.tokenizer").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return tmp_path / "p"


def test_texts_end_in_sep_and_begin_with_nothing(with_words):
    model = md.load(with_words)
    ids = model.tokenizer.encode("The cats sat [X_SEP] on").tolist()
    assert ids == [5, 6, 8, 7, 4, 9, 2]
    assert model.generate("The cats sat [X_SEP] on", max_new_tokens=5).token_ids[0].tolist() == generate(
        with_words, options={"max_new_tokens": 5}, sources=[ids])[0][0]  # fmt: skip


def test_a_vocabulary_without_its_end_is_an_error(with_words):
    (with_words / "prophetnet.tokenizer").write_text("[PAD]\n[UNK]\nthe\n", encoding="utf-8")
    with pytest.raises(
        md.CheckpointError, match=r"prophetnet\.tokenizer lacks \[SEP\], which every text of this model"
    ):
        md.load(with_words)


def test_a_converted_folder_keeps_its_words(with_words, tmp_path):
    md.convert(with_words, tmp_path / "pooled", num_key_value_heads=1)
    assert md.load(tmp_path / "pooled").tokenizer.encode("the").tolist() == [5, 2]
