"""minidecode and transformers side by side, live: random BERTs, batches of mixed lengths, and WordPiece tokenizers.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from threadpoolctl import threadpool_limits

import minidecode as md
from minidecode.files.tokenizer import Tokenizer

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

pytest.register_assert_rewrite("hard_texts")

import make_bert as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import pad  # noqa: E402
from hard_texts import awkward_texts  # noqa: E402
from making import STORED  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS = 24
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "##s", "##e", "a", "b", "##b", "é", "un", "##a",
         "war", "peace", ",", ".", "!", "5", "##5", "海", "i", "##t", "'", "s", "##\u0301", "e"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread, no progress bars, no warnings."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


def write_random_model(folder: Path, seed: int) -> dict:
    """A random model, stored in a random way -> the fields of its config.json."""
    rng = random.Random(seed)
    H, labels = rng.randint(1, 5), rng.randint(1, 5)
    kind = rng.choice(["BertModel", "BertForSequenceClassification", "BertForTokenClassification"])
    fields = oracle.config_fields(kind, {
        "num_attention_heads": H, "hidden_size": H * rng.randint(-(-6 // H), 8), "vocab_size": rng.randint(30, 70),
        "num_hidden_layers": rng.randint(1, 4), "intermediate_size": rng.randint(5, 40),
        "hidden_act": rng.choice(["gelu", "gelu_new", "relu", "silu"]), "type_vocab_size": rng.randint(1, 3),
        "layer_norm_eps": rng.choice([1e-12, 1e-5, 1e-3]),
        "id2label": {str(i): f"label {i}" for i in range(labels)}, "label2id": {f"label {i}": i for i in range(labels)},
    })  # fmt: skip
    storage = {"dtype": rng.choice(list(STORED)), "shards": rng.choice([1, 1, 2]), "old": rng.random() < 0.3}
    oracle.write_folder(folder, fields, oracle.make_weights(fields, seed), **storage)
    return fields


@pytest.mark.parametrize("seed", range(MODELS))
def test_rows_and_labels(seed, tmp_path):
    """A padded batch of transformers, and our rows without padding, in float64 and in float32."""
    fields = write_random_model(tmp_path, seed)
    theirs = oracle.load_oracle(tmp_path, torch.float64)
    texts, types = oracle.draw_texts(random.Random(seed), fields)
    ids_BN, mask_BN = pad(texts, "right")
    if ids_BN.shape[1] > fields["max_position_embeddings"]:
        ids_BN, mask_BN = (a[:, : fields["max_position_embeddings"]] for a in (ids_BN, mask_BN))
    types_BN = pad(types, "right")[0][:, : ids_BN.shape[1]]
    given = {"attention_mask": torch.tensor(mask_BN), "token_type_ids": torch.tensor(types_BN)}
    with torch.no_grad():
        out_BND = getattr(theirs, "bert", theirs)(torch.tensor(ids_BN), **given).last_hidden_state.numpy()
        head = (
            None if theirs.__class__.__name__ == "BertModel" else theirs(torch.tensor(ids_BN), **given).logits.numpy()
        )
    right = [out_BND[b, mask_BN[b] == 1] for b in range(len(texts))]
    largest = max(np.abs(x).max() for x in right)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.encode_tokens(input_ids=ids_BN, attention_mask=mask_BN, token_type_ids=types_BN)
        error = max(np.abs(a - b).max() for a, b in zip(found, right, strict=True))
        assert error <= logit_bound(model.config, largest, unit)
    if head is not None and "Sequence" in fields["architectures"][0]:
        model = md.load(tmp_path, dtype="float64")
        found = model.classify(input_ids=ids_BN, attention_mask=mask_BN, token_type_ids=types_BN)
        e = np.exp(head)
        scores = 1 / (1 + np.exp(-head)) if head.shape[1] == 1 else e / e.sum(axis=1, keepdims=True)
        ours = np.array([[one.scores[f"label {i}"] for i in range(head.shape[1])] for one in found])
        assert np.abs(ours - scores).max() <= logit_bound(model.config, np.abs(head).max(), 2 * FLOAT64)


# ---- tokenizers ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizers(request, tmp_path_factory):
    """(ours of vocab.txt, ours of transformers' tokenizer.json, transformers') of one vocabulary."""
    old, new = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")
    (old / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    (old / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(request.param).lower()}}}')
    theirs = transformers.BertTokenizerFast(vocab=str(old / "vocab.txt"), do_lower_case=request.param)
    theirs.save_pretrained(new)
    return Tokenizer.from_folder(old), Tokenizer.from_folder(new), theirs


@settings(max_examples=300, deadline=None)
@given(awkward_texts("[SEP]", "[SE"))
@example("The seas, unaffable! Café 海 a[MASK]b  I'ts\t")
@example("")
def test_wordpiece(tokenizers, text):
    right = tokenizers[2](text)["input_ids"]
    assert tokenizers[0].encode(text).tolist() == right and tokenizers[1].encode(text).tolist() == right


@pytest.mark.parametrize("pair", [("the sea", "war and peace"), ("", "a"), ("a b", "b")])
def test_pairs_have_two_types(tokenizers, pair):
    right = tokenizers[2](*pair)
    for ours in tokenizers[:2]:
        found = ours.encode_for_reading(*pair)
        assert found.ids.tolist() == right["input_ids"] and found.types.tolist() == right["token_type_ids"]
