"""fairseq's Transformer against numbers that fairseq computed for its flags: logits, greedy search, every cache."""

import dataclasses
import functools
import json

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from fairseq_cases import CHECKPOINTS, FOLDER, GREEDY, NAMES, Case, case_of, write_checkpoint, write_model  # noqa: E402
from golden_suite import (  # noqa: E402
    PLANS,
    last_position_sees_no_first_key,
    pad,
    scale_off_by_a_thousandth,
)
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.files.fairseq_folder import convert_fairseq  # noqa: E402
from minidecode.models import fairseq  # noqa: E402
from minidecode.models.fairseq import FairseqConfig  # noqa: E402


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Name -> case, each written once."""
    return functools.cache(lambda name: Case(name, tmp_path_factory.mktemp("fairseq")))


@pytest.fixture(params=NAMES)
def case(request, cases) -> Case:
    return cases(request.param)


def bound(case: Case, unit: float) -> float:
    return logit_bound(case.load().config, case.largest_logit, unit)


# ---- right models ----------------------------------------------------------------------------------------------------


def test_logits_in_float64(case):
    """With fairseq's own sinusoids; twice the bound, because the expected numbers are rounded in float64 as well."""
    assert case.error(case.load_with_their_sinusoids()) <= 2 * bound(case, FLOAT64)


def test_logits_in_float32(case):
    assert case.error(case.load()) <= bound(case, FLOAT32)


@pytest.mark.parametrize("layout", ["left", "right", "strewn"])
def test_padding_does_not_touch_logits(case, layout):
    """fairseq pads sources on the left and targets on the right; a position counts the tokens before it."""
    model = case.load_with_their_sinusoids()
    assert case.error(model, functools.partial(pad, layout=layout)) <= 2 * bound(case, FLOAT64)


def test_the_bound_says_something(cases):
    """At most 32 times the error that float32 really makes, for most models."""
    tight = {name: bound(cases(name), FLOAT32) <= 32 * cases(name).error(cases(name).load()) for name in NAMES}
    assert sum(tight.values()) > len(tight) / 2, tight


@pytest.mark.parametrize("name", ["01-post-sin-separate", "13-post-sin-separate-gelu-odd"])
def test_sinusoids_are_fairseqs(cases, name):
    """Up to float32: fairseq's frequencies carry a few roundings there, and a position multiplies them."""
    case = cases(name)
    table_ND = case.load(dtype="float64").weights.decoder.wpe_ND[: len(case.sinusoid_ND)]
    position_N1 = np.arange(2, 2 + len(table_ND))[:, None]
    assert (np.abs(table_ND - case.sinusoid_ND) <= 4 * FLOAT32 * position_N1).all()


@pytest.mark.parametrize("plan", PLANS)
def test_greedy_search(case, plan):
    model = case.load(plan=plan)
    found = model.generate(input_ids=case.sources, **GREEDY).token_ids
    assert [ids.tolist() for ids in found] == case.greedy
    alone = [model.generate(input_ids=[source], **GREEDY).token_ids[0].tolist() for source in case.sources]
    assert alone == case.greedy


def test_the_cases_cover_the_flags():
    """Each flag that a forward pass reads is on in some case and off in another, in either stack."""
    configs = [FairseqConfig.from_json({"src_vocab_size": 9, "tgt_vocab_size": 9} | case_of(n)["flags"]) for n in NAMES]
    for flag in FairseqConfig.FLAGS:
        if flag != "no_encoder_final_norm":  # of files older than any that fairseq could make here
            assert len({getattr(c, flag) for c in configs}) == 2, flag


def test_different_widths_are_refused(tmp_path):
    fields = {"model_type": "fairseq", "src_vocab_size": 27, "tgt_vocab_size": 35} | case_of("15-extra-widths-differ")[
        "flags"
    ]
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(
        md.CheckpointError, match="decoder_embed_dim=24 with encoder_embed_dim=16 is not supported: all"
    ):
        md.load(tmp_path)


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def position_off_by_one(monkeypatch):
    """Positions from 1, or a learned table from its row 1."""
    right_sinusoids, right_bind = fairseq.make_sinusoid_table, fairseq.bind

    def shifted(c, tensors):
        tables = {n: np.roll(a, 1, axis=0) for n, a in tensors.items() if "embed_positions" in n}
        return right_bind(c, tensors | tables)

    monkeypatch.setattr(fairseq, "make_sinusoid_table", lambda first, *rest: right_sinusoids(first - 1, *rest))
    monkeypatch.setattr(fairseq, "bind", shifted)


def marians_frequencies(monkeypatch):
    monkeypatch.setattr(FairseqConfig, "frequencies", lambda c: 10000.0 ** (-2 * np.arange(c.width // 2) / c.width))


def interleaved_sinusoids(monkeypatch):
    right = fairseq.make_sinusoid_table

    def wrong(first, count, frequency_X, D):
        table_ND = right(first, count, frequency_X, D)
        n = len(frequency_X)
        return np.concatenate([table_ND[:, : 2 * n].reshape(count, 2, n).swapaxes(1, 2).reshape(count, -1),
                               table_ND[:, 2 * n :]], axis=1)  # fmt: skip

    monkeypatch.setattr(fairseq, "make_sinusoid_table", wrong)


def replaced(**changes):
    """A planted mistake: the weights with other flags."""

    def plant(monkeypatch):
        right = fairseq.bind

        def wrong(c, tensors):
            w = right(c, tensors)
            for side, change in changes.items():
                w = change(w) if side == "weights" else dataclasses.replace(w, **{side: change(getattr(w, side))})
            return w

        monkeypatch.setattr(fairseq, "bind", wrong)

    return plant


def other_norms(stack):
    return dataclasses.replace(stack, is_pre_norm=not stack.is_pre_norm)


def no_last_norm(stack):
    return dataclasses.replace(stack, ends_in_norm=False)


def other_epsilon(stack):
    norms = {f: lambda n: dataclasses.replace(n, eps=1e-6) for f in ("ln_self", "ln_feed", "ln_cross")}
    blocks = tuple(
        dataclasses.replace(b, **{f: change(getattr(b, f)) for f, change in norms.items() if hasattr(b, f)})
        for b in stack.blocks
    )
    return dataclasses.replace(stack, blocks=blocks)


SINUSOIDS, EVERY = ["02-post-sin-shareall", "04-pre-sin-shareall"], [NAMES[0], NAMES[4], NAMES[6], NAMES[12]]
MISTAKES = {
    "position off by one": (position_off_by_one, [*SINUSOIDS, "05-pre-learned-separate"]),
    "Marian's frequencies": (marians_frequencies, SINUSOIDS),
    "sines and cosines in turns": (interleaved_sinusoids, SINUSOIDS),
    "the encoder's norms swapped": (replaced(encoder=other_norms), EVERY),
    "the decoder's norms swapped": (replaced(decoder=other_norms), EVERY),
    "no last norm": (replaced(decoder=no_last_norm), ["04-pre-sin-shareall", "07-pre-learned-sharedec-lnemb-gelu"]),
    "no embedding norm": (
        replaced(encoder=lambda s: dataclasses.replace(s, ln_embedding=None)),
        ["07-pre-learned-sharedec-lnemb-gelu", "14-post-sin-separate-lnemb-noscale-finalnormflag"],
    ),
    "tokens not scaled": (replaced(weights=lambda w: dataclasses.replace(w, embedding_scale=1.0)), EVERY),
    "the other gelu": (
        replaced(weights=lambda w: dataclasses.replace(w, activation="gelu_new")),
        ["07-pre-learned-sharedec-lnemb-gelu", "13-post-sin-separate-gelu-odd"],
    ),
    "attention's scale": (scale_off_by_a_thousandth, EVERY),
    "a key that is not seen": (last_position_sees_no_first_key, EVERY),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_breaks_the_bound(cases, mistake, monkeypatch):
    plant, names = MISTAKES[mistake]
    plant(monkeypatch)
    for name in names:
        assert cases(name).error(cases(name).load()) > bound(cases(name), FLOAT32), name


def test_another_epsilon_breaks_the_bound(cases, monkeypatch):
    """In float64, where it can be told from rounding."""
    replaced(decoder=other_epsilon)(monkeypatch)
    case = cases("03-post-sin-sharedec")
    assert case.error(case.load_with_their_sinusoids()) > 2 * bound(case, FLOAT64)


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=CHECKPOINTS)
def converted(request, tmp_path_factory):
    """(what is known of a checkpoint, the model of its folder)."""
    folder = tmp_path_factory.mktemp("checkpoint")
    path = write_checkpoint(request.param, folder)
    convert_fairseq(path, folder / "model")
    known = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
    return known, md.load(folder / "model")


def test_dictionaries_are_read_as_fairseq_reads_them(converted):
    known, model = converted
    assert model.tokenizer.source.words == known["source_symbols"]
    assert model.tokenizer.target.words == known["target_symbols"]
    if known["source_index"] is not None:
        assert model.tokenizer.source.index == known["source_index"]


def test_lines_are_encoded_as_fairseq_encodes_them(converted):
    known, model = converted
    for line in known["encode_line"]:
        assert model.tokenizer.encode(line["line"]).tolist() == line["ids"]


def test_texts_are_those_of_fairseq(converted):
    known, model = converted
    for text in known["greedy_strings"]:
        assert model.tokenizer.decode(text["ids"]) == text["string_without_bpe"]
        assert model.tokenizer.decode([*text["ids"], 2, 1]) == text["string_without_bpe"], "EOS and padding are no text"


def test_a_converted_folder_searches_as_fairseq_does(converted):
    """Its defaults are those of fairseq-generate."""
    options = converted[1].options()
    assert (options.dialect, options.num_beams, options.max_len_b, options.decoder_start_token_id) == (
        "fairseq",
        5,
        200,
        2,
    )
    assert options.eos_token_id == (2,) and options.pad_token_id == 1


def test_texts_go_in_and_come_out(converted):
    known, model = converted
    line = known["encode_line"][0]
    out = model.generate(line["line"], max_new_tokens=4)
    same = model.generate(input_ids=[line["ids"]], max_new_tokens=4)
    assert out.token_ids[0].tolist() == same.token_ids[0].tolist()
    assert out.texts == [model.tokenizer.decode(out.token_ids[0])]


def test_only_numbers_and_words_are_written(tmp_path):
    """Of the settings, those that change what is computed: no path of the machine that trained the model."""
    folder = write_model("04-pre-sin-shareall", tmp_path)
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert "data" not in fields and "save_dir" not in fields and fields["model_type"] == "fairseq"
    assert {p.name for p in folder.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "dict.src.txt", "dict.tgt.txt",
    }  # fmt: skip


def test_the_golden_files_are_small():
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) < 1e6
