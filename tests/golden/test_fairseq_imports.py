"""fairseq's BART and language models against numbers that fairseq computed: logits, greedy search, texts."""

import functools
import json
import lzma
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from golden_suite import largest, largest_error
from tolerance import FLOAT32, FLOAT64, logit_bound

import minidecode as md
from minidecode.files import fairseq_folder, fairseq_lm
from minidecode.files.fairseq_folder import convert_fairseq, read_bart, read_fairseq
from minidecode.files.fairseq_lm import LanguageModel

FOLDER = Path(__file__).parent / "fairseq_imports"
NAMES = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())
OF_LM = [name for name in NAMES if name.startswith("lm")]
# As the golden numbers have it: the largest logit of all tokens but padding, 10 steps, also past an end of text.
GREEDY = {"eos_token_id": (), "suppress_tokens": [1], "max_new_tokens": 10, "num_beams": 1, "dialect": "hf",
          "forced_bos_token_id": ()}  # fmt: skip


def write_checkpoint(name: str, folder: Path) -> Path:
    """The checkpoint of a case with its dictionaries -> its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (FOLDER / name).iterdir():
        if file.name.startswith("dict") or file.name in ("encoder.json", "vocab.bpe"):
            shutil.copy(file, folder)
    path = folder / "checkpoint_best.pt"
    path.write_bytes(lzma.decompress((FOLDER / name / "checkpoint_best.pt.xz").read_bytes()))
    return path


class Case:
    """An imported model, and the numbers of fairseq."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder / "model"
        self.path = write_checkpoint(name, folder / "training")
        self.result = convert_fairseq(self.path, self.folder)
        case = json.loads((FOLDER / name / "case.json").read_text(encoding="utf-8"))
        self.sources, self.targets, self.greedy = case["sources"], case["targets"], case["greedy"]
        self.words, self.texts = case["words"], case["texts"]
        with np.load(FOLDER / name / "numbers.npz") as file:
            self.logits = [file[f"logits_{i}_TV"] for i in range(len(self.targets))]
        self.largest_logit = largest(self.logits)

    @functools.cached_property
    def model(self) -> md.Model:
        return md.load(self.folder)

    def error(self, model: md.Model) -> float:
        """The largest difference of a logit from fairseq's, all sentences in one call."""
        targets = {"decoder_input_ids": self.targets} if self.sources else {}
        found = model.logits(self.sources or self.targets, **targets)
        return largest_error(found, self.logits)

    def bound(self, unit: float) -> float:
        return logit_bound(self.model.config, self.largest_logit, unit)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Name -> case, each imported once."""
    return functools.cache(lambda name: Case(name, tmp_path_factory.mktemp("imports")))


@pytest.fixture(params=NAMES)
def case(request, cases) -> Case:
    return cases(request.param)


# ---- right models ----------------------------------------------------------------------------------------------------


def test_logits_in_float32(case):
    assert case.error(case.model) <= case.bound(FLOAT32)


@pytest.mark.parametrize("name", ["bart-denoising", "bart-translation", "bart-relu-scaled", "lm-learned-tied"])
def test_logits_in_float64(cases, name):
    """Where no number is computed by the import: scaled tables and sinusoids are rounded to float32."""
    case = cases(name)
    assert case.error(md.load(case.folder, dtype="float64")) <= 2 * case.bound(FLOAT64)


def test_greedy_search(case):
    found = case.model.generate(input_ids=case.sources or case.targets, **GREEDY).token_ids
    assert [ids.tolist() for ids in found] == case.greedy


def test_what_it_says(case):
    kind, fields = ("bart" if case.sources else "gpt2"), json.loads((case.folder / "config.json").read_text("utf-8"))
    assert case.result.model_type == fields["model_type"] == kind
    assert not set(fields) & {"data", "save_dir", "dropout"}, "of the settings, those that are computed with"
    in_bpe = (case.path.parent / "vocab.bpe").exists()
    assert f"a model of type {kind}, {case.result.parameters:,} parameters" in str(case.result)
    assert str(case.result).endswith("BPE codes: vocab.bpe" if in_bpe else "give texts in the pieces of the dictionary")


# ---- texts -----------------------------------------------------------------------------------------------------------


def test_texts_are_encoded_as_fairseq_encodes_them(case):
    """What frames them is in the files of the checkpoint: GPT-2's BPE or not, a BART or a language model."""
    tokenizer, in_bpe = case.model.tokenizer, (case.path.parent / "vocab.bpe").exists()
    before = [0] if case.sources and in_bpe else []
    before, behind = (before, [2]) if case.sources else ([0 if case.name == "lm-sinusoids-tied-relu" else 2], [])
    for text in case.texts:
        assert tokenizer.encode(text["text"]).tolist() == [*before, *text["ids"], *behind]
        if in_bpe:
            assert tokenizer.decode(tokenizer.encode(text["text"])) == text["text"]


def test_ids_are_those_of_the_dictionary(case):
    tokenizer = case.model.tokenizer
    pieces = {}
    if (path := case.path.parent / "encoder.json").exists():
        pieces = {str(i): piece for piece, i in json.loads(path.read_text("utf-8")).items()}
    assert [tokenizer.token_to_id(pieces.get(word, word)) for word in case.words] == list(range(len(case.words)))


def test_a_piece_that_the_dictionary_lacks_is_refused(cases):
    """fairseq reads it as <unk>: here the text is known not to be for this model."""
    case, text = cases("lm-gpt"), "\u00a1"
    pieces = json.loads((case.path.parent / "encoder.json").read_text("utf-8"))
    assert str(pieces["\u00a1"]) not in case.words, "the piece of its last byte"
    with pytest.raises(md.InputError, match=r"is not in the vocabulary of 267 tokens"):
        case.model.generate(text, max_new_tokens=2)


def test_texts_go_in_and_come_out(case):
    model, text = case.model, case.texts[0]["text"]
    out = model.generate(text, max_new_tokens=4)
    same = model.generate(input_ids=[model.tokenizer.encode(text).tolist()], max_new_tokens=4)
    assert out.token_ids[0].tolist() == same.token_ids[0].tolist() and out.texts


def test_searches_are_those_of_fairseq(cases):
    for name in ("bart-translation", "lm-gpt"):
        options = cases(name).model.options()
        assert (options.dialect, options.num_beams, options.max_len_b) == ("fairseq", 5, 200)
        assert options.eos_token_id == (2,) and options.pad_token_id == 1, "padding is never generated"


def test_targets_of_bart_generate_begin_with_its_first_token(cases):
    """With GPT-2's BPE, as `bart.generate` of fairseq forces it; else as fairseq-generate does not."""
    for name, first in (("bart-denoising", (0,)), ("bart-translation", ())):
        options = cases(name).model.options()
        assert (options.dialect, options.num_beams, options.forced_bos_token_id) == ("fairseq", 5, first)


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def plain_positions(monkeypatch):
    monkeypatch.setattr(fairseq_lm, "FIRST", 1)
    monkeypatch.setattr(fairseq_lm, "source_shapes", shapes_of_rows(fairseq_lm.source_shapes))


def shapes_of_rows(right):
    """The file's own shapes still, whatever row is taken for the first one."""

    def shapes(*args):
        found = right(*args)
        if (rows := found.get(fairseq_lm.POSITIONS)) is not None:
            found[fairseq_lm.POSITIONS] = (rows[0], rows[1])
        return found

    return shapes


def no_scale(monkeypatch):
    right = LanguageModel.read
    monkeypatch.setattr(
        LanguageModel, "read",
        lambda self, name: right(self, name) / (self.scale if name.endswith("wte.weight") else 1.0),
    )  # fmt: skip


def scaled_head(monkeypatch):
    right = LanguageModel.read
    monkeypatch.setattr(
        LanguageModel, "read",
        lambda self, name: right(self, name) * (self.scale if name == "lm_head.weight" else 1.0),
    )  # fmt: skip


def keys_before_queries(monkeypatch):
    q, k, v = fairseq_lm.OF_LAYER["attn.c_attn"]
    monkeypatch.setitem(fairseq_lm.OF_LAYER, "attn.c_attn", (k, q, v))


def not_turned(monkeypatch):
    """Only where a matrix is square does its shape not tell."""
    right = LanguageModel.read
    monkeypatch.setattr(
        LanguageModel, "read",
        lambda self, name: right(self, name).T if name.endswith("attn.c_proj.weight") else right(self, name),
    )  # fmt: skip


MISTAKES = {
    "positions from row 1": (plain_positions, ["lm-gpt", "lm-sinusoids-tied-relu", "lm-learned-tied"]),
    "tokens not scaled": (no_scale, ["lm-gpt", "lm-sinusoids-tied-relu"]),
    "the head scaled": (scaled_head, ["lm-gpt", "lm-sinusoids-tied-relu"]),
    "keys before queries": (keys_before_queries, OF_LM),
    "a matrix not turned": (not_turned, OF_LM),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_breaks_the_bound(cases, mistake, monkeypatch, tmp_path):
    plant, names = MISTAKES[mistake]
    plant(monkeypatch)
    for name in names:
        out = tmp_path / name
        convert_fairseq(cases(name).path, out)
        assert cases(name).error(md.load(out)) > cases(name).bound(FLOAT32), name


def test_the_tables_of_bart_matter(cases, monkeypatch, tmp_path):
    """A scale of embeddings that is read the wrong way round, and the other gelu."""
    for change in ({"no_scale_embedding": False}, {"activation_fn": "gelu_accurate"}):
        settings, in_file = read_fairseq(cases("bart-denoising").path)
        monkeypatch.setattr(fairseq_folder, "read_fairseq", lambda path, s=settings | change, f=in_file: (s, f))
        convert_fairseq(cases("bart-denoising").path, out := tmp_path / next(iter(change)))
        assert cases("bart-denoising").error(md.load(out)) > cases("bart-denoising").bound(FLOAT32)


# ---- what cannot be held exactly -------------------------------------------------------------------------------------

REFUSED_LM = [
    ({"adaptive_softmax_cutoff": "2000,6000"}, "adaptive_softmax_cutoff='2000,6000' is not supported: a head in"),
    ({"adaptive_input": True}, "adaptive_input=True is not supported"),
    ({"character_embeddings": True}, "character_embeddings=True is not supported"),
    ({"layernorm_embedding": True}, "layernorm_embedding=True is not supported: a norm after the embeddings"),
    ({"no_decoder_final_norm": True}, "no_decoder_final_norm=True is not supported: GPT-2 has a norm after"),
    ({"no_tie_adaptive_proj": False}, "no_decoder_final_norm=True is not supported"),
    ({"decoder_final_norm": False}, "no_decoder_final_norm=True is not supported"),
    ({"decoder_normalize_before": False}, "decoder_normalize_before=False is not supported: GPT-2 has its"),
    ({"decoder_layers_to_keep": "0,1"}, "decoder_layers_to_keep='0,1' is not supported"),
    ({"decoder_input_dim": 16}, "decoder_input_dim=16 with decoder_embed_dim=20 is not supported: all widths"),
    ({"scale_heads": True}, "scale_heads=True is not supported"),
    ({"base_layers": 1}, "base_layers=1 is not supported"),
    ({"activation_fn": "mystery"}, "activation_function 'mystery' is not one of"),
    ({"decoder_layers": 3}, r"decoder\.layers\.2\.\S+ is missing"),
    ({"decoder_layers": 10**6}, "1,000,000 layers are more than any model has"),
    ({"decoder_attention_heads": 3}, "n_embd 20 is not a multiple of n_head 3"),
    ({"decoder_learned_pos": "yes"}, "decoder_learned_pos must be true or false, not 'yes'"),
    ({"decoder_learned_pos": False, "max_target_positions": 10**9}, r"n_positions 1,000,000,000 needs a table of"),
    ({"decoder_layers": None}, "does not say its decoder_layers: use a checkpoint that fairseq-train wrote"),
]  # fmt: skip


def changed(settings, change):
    return {name: value for name, value in (settings | change).items() if value is not None}


@pytest.mark.parametrize(("change", "message"), REFUSED_LM)
def test_a_language_model_that_gpt2_cannot_hold(cases, change, message):
    path = cases("lm-learned-tied").path
    settings, in_file = read_fairseq(path)
    with pytest.raises(md.CheckpointError, match=message) as caught:
        LanguageModel.from_checkpoint(path, changed(settings, change), in_file)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))


REFUSED_BART = [
    ({"encoder_normalize_before": True}, "encoder_normalize_before=True is not supported in a BART, which has False"),
    ({"decoder_learned_pos": False}, "decoder_learned_pos=False is not supported in a BART"),
    ({"share_all_embeddings": False}, "share_all_embeddings=False is not supported in a BART"),
    ({"layernorm_embedding": False}, "layernorm_embedding=False is not supported in a BART"),
    ({"max_source_positions": 22}, "max_source_positions=22 and max_target_positions=24 are not supported in a BART"),
    ({"encoder_layers_to_keep": "0"}, "encoder_layers_to_keep='0' is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED_BART)
def test_a_bart_that_bart_cannot_hold(cases, change, message):
    path = cases("bart-translation").path
    settings, in_file = read_fairseq(path)
    with pytest.raises(md.CheckpointError, match=message) as caught:
        read_bart(path, settings | change, in_file, path.parent, {"source": None, "target": None})
    assert "\n" not in str(caught.value)


def test_a_classifier_is_refused(cases):
    """Its head takes part in what it answers, and generates nothing."""
    path = cases("bart-translation").path
    settings, in_file = read_fairseq(path)
    in_file["classification_heads.mnli.out_proj.bias"] = next(iter(in_file.values()))
    with pytest.raises(md.CheckpointError, match=r"classification_heads\.mnli\.out_proj\.bias is no part of this kind"):
        read_bart(path, settings, in_file, path.parent, {"source": None, "target": None})


def test_dictionaries_of_an_import(cases, tmp_path):
    path = write_checkpoint("bart-translation", tmp_path / "training")
    words = path.with_name("dict.en.txt")
    words.write_text(words.read_text("utf-8").replace("and ", "nad "), encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"dict\.de\.txt and .*dict\.en\.txt differ"):
        convert_fairseq(path, tmp_path / "model")
    path = write_checkpoint("lm-gpt", tmp_path / "lm")
    words = path.with_name("dict.txt")
    words.write_text(words.read_text("utf-8") + "more 1\n", encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"dict\.txt has 268 words, .* checkpoint's table has 267: use the"):
        convert_fairseq(path, tmp_path / "model")
    words.unlink()
    with pytest.raises(md.CheckpointError, match=r"dict\.txt is missing .dictionaries there: none"):
        convert_fairseq(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_golden_files_are_small():
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) < 1e6


def test_a_changed_bit_is_refused_by_its_checksum(tmp_path):
    """In a setting of the pickle and in a number of a tensor: both files would load, as other models."""
    path = write_checkpoint("bart-translation", tmp_path)
    contents = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(part for name, part in parts.items() if name.endswith("data.pkl"))
    numbers = max((part for name, part in parts.items() if "/data/" in name), key=len)
    for at in (contents.index(pickled) + pickled.index(b"gelu"), contents.index(numbers) + 5):
        path.write_bytes(contents[:at] + bytes([contents[at] ^ 1]) + contents[at + 1 :])
        with pytest.raises(md.CheckpointError, match="has another checksum"):
            convert_fairseq(path, tmp_path / "model")
