"""The dialects `hf4` and `ctranslate2` against texts of those systems, and score processors against transformers 5.

tests/golden/hf4: beam search and diverse beam search under the rules of transformers 4.49 (make_hf4.py).
tests/golden/ctranslate2: greedy and beam search of CTranslate2 (make_ctranslate2.py). tests/golden/processors: greedy
and beam search with score processors, and the filters before sampling (make_processors.py). The models are those of
tests/golden/gpt2 and bart. Tokens must be equal, scores within their bound.
"""

import dataclasses
import functools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, check_scores, generate  # noqa: E402
from make_sampled_beams import N, cut  # noqa: E402
from scipy.special import chdtrc  # noqa: E402
from toy import Ops  # noqa: E402

from minidecode.options.dialects import DIALECTS  # noqa: E402
from minidecode.options.options import Options  # noqa: E402
from minidecode.search.processors import apply_processors  # noqa: E402
from minidecode.search.rows import Rows  # noqa: E402

HERE = Path(__file__).parent
opened = functools.cache(lambda name: Golden(HERE / name))


def cases(folder: str) -> list:
    path = HERE / folder / "cases.json"
    lines = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [pytest.param(case, id=f"{folder}-{i}-{case['model'].replace('/', '-')}") for i, case in enumerate(lines)]


def asked(case: dict, **more) -> dict:
    """The case with its options as `generate` takes them."""
    options = dict(case["options"], **more)
    if "prefix_allowed" in options:
        allowed = options.pop("prefix_allowed")
        options["prefix_allowed_tokens_fn"] = lambda _, ids: allowed[("even", "odd")[len(ids) % 2]]
    return case | {"options": options}


def compare(case: dict) -> None:
    golden = opened(case["model"])
    model = golden.load()
    tokens, scores = generate(model, case)
    if case["options"].get("dialect") == "hf4":
        tokens, expected = ends_alike(case, tokens), ends_alike(case, case["tokens"])
        assert tokens == expected, case["options"]
    else:
        assert tokens == case["tokens"], case["options"]
    check_scores(golden, case, scores, case["scores"], {})


def ends_alike(case: dict, tokens: list[list[int]]) -> list[list[int]]:
    """4.49 puts the first EOS id at the end of a text, whichever of several ended it; we the one that did."""
    eos = case["options"]["eos_token_id"] or []
    return [[*text[:-1], eos[0]] if text and text[-1] in eos else text for text in tokens]


@pytest.mark.parametrize("case", cases("hf4"))
def test_as_transformers_4_49(case):
    compare(asked(case, dialect="hf4"))


@pytest.mark.parametrize("case", cases("ctranslate2"))
def test_as_ctranslate2(case):
    options, B = case["options"] | {"dialect": "ctranslate2"}, len(case["prompts"])
    if prefix := options.pop("prefix", None):
        options["prefix_tokens"] = [prefix] * B
    compare(case | {"options": options})


def test_the_cases_of_ctranslate2_cover_its_rules():
    """And the rules of hf give other texts, or scores, for most of them."""
    lines = [p.values[0] for p in cases("ctranslate2")]
    seen = Counter((name, str(value)) for case in lines for name, value in case["options"].items())
    assert len(lines) >= 20 and sum("prefix" in case["options"] for case in lines) >= 2
    for name, value in [("num_beams", 1), ("length_penalty", 0), ("length_penalty", 1), ("length_penalty", -1),
                        ("patience", 2.0), ("no_repeat_ngram_size", 2), ("repetition_penalty", 1.3)]:  # fmt: skip
        assert seen[name, str(value)] >= 2, (name, value, seen)
    plain = [case for case in lines if "prefix" not in case["options"]]
    differing = 0
    for case in plain:
        options = {name: value for name, value in case["options"].items() if name != "patience"}
        tokens, _ = generate(opened(case["model"]).load(), case | {"options": options})
        differing += tokens != case["tokens"]
    assert differing >= len(plain) / 3


@pytest.mark.parametrize("wrong", [
    {"softmax": "first"}, {"bans_see_prompts": True}, {"stop": "full"}, {"ends_behind_prefix": "all"},
], ids=str)  # fmt: skip
def test_each_rule_of_ctranslate2_is_seen(wrong, monkeypatch):
    """Without one of them, a case comes out otherwise."""
    mutant = dataclasses.replace(DIALECTS["ctranslate2"], **wrong)
    monkeypatch.setitem(DIALECTS, "ctranslate2", mutant)
    with pytest.raises(AssertionError):
        for param in cases("ctranslate2"):
            test_as_ctranslate2(param.values[0])


@pytest.mark.parametrize("case", cases("processors"))
def test_score_processors_as_transformers_5(case):
    compare(asked(case))


def filter_cases() -> list:
    rows = json.loads((HERE / "processors" / "filters.json").read_text(encoding="utf-8"))
    return [pytest.param(row, id=str(i)) for i, row in enumerate(rows)]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("row", filter_cases())
def test_the_filters_before_sampling_as_transformers_5(row, num_beams):
    """The same tokens are kept, with the same probabilities, in sampling and in sampling with beams."""
    scores_V = np.array([-np.inf if s is None else s for s in row["scores"]])
    options = Options(
        do_sample=True, num_beams=num_beams, eos_token_id=row["eos_token_id"], **{"top_k": 0} | row["options"]
    )
    alone = [np.zeros(1, np.int64)] * 4
    scores_1V = apply_processors(
        Ops(), scores_V[None].copy(), Rows(np.zeros((1, 1), np.int64), *alone, [np.zeros(1)]), options
    )
    probability_V = np.exp(scores_1V[0] - scores_1V.max())
    probability_V /= probability_V.sum()
    expected_V = np.array(row["probabilities" if num_beams == 1 else "probabilities_in_beams"])
    assert (probability_V > 0).tolist() == (expected_V > 0).tolist()
    np.testing.assert_allclose(probability_V, expected_V, rtol=1e-12)


def test_the_two_versions_of_transformers_differ_and_so_do_ours():
    differing = [p.values[0] for p in cases("hf4") if p.values[0].get("differs_from_5")]
    assert len(differing) >= 25
    for case in differing:
        found, _ = generate(opened(case["model"]).load(), asked(case, dialect="hf"))
        assert ends_alike(case, found) != ends_alike(case, case["tokens"])


# ---- sampling with beams ---------------------------------------------------------------------------------------------


def sampled_cases() -> list:
    """(a case of transformers 5.24, the same one of 5.23)."""
    now, before = (
        json.loads((HERE / "sampled_beams" / f"{version}.json").read_text(encoding="utf-8"))
        for version in ("5.24.0", "5.23.0")
    )
    pairs = enumerate(zip(now, before, strict=True))
    return [pytest.param(*pair, id=f"{i}-{pair[0]['model'].replace('/', '-')}") for i, pair in pairs]


def likelihood_of_one_source(ours: dict, theirs: dict) -> float:
    """By a chi-square test of two samples of one size: that they are drawn from one distribution."""
    cells = [(ours.get(text, 0), theirs.get(text, 0)) for text in {*ours, *theirs}]
    common = [cell for cell in cells if sum(cell) >= 20]
    if rare := [cell for cell in cells if sum(cell) < 20]:
        common.append(tuple(map(sum, zip(*rare, strict=True))))
    return float(chdtrc(len(common) - 1, sum((a - b) ** 2 / (a + b) for a, b in common)))


def drawn_here(case: dict) -> Counter:
    options = {"dialect": "hf", "top_k": 0} | case["options"]
    found = opened(case["model"]).load().generate(input_ids=[case["prompt"]] * N, do_sample=True, seed=1, **options)
    return Counter(cut(text.tolist(), options["eos_token_id"]) for text in found.token_ids)


@pytest.mark.parametrize(("now", "before"), sampled_cases())
def test_sampling_with_beams_as_transformers_since_5_24(now, before):
    """In 2,000 draws of each; 5.23 drew otherwise."""
    ours = drawn_here(now)
    assert likelihood_of_one_source(ours, now["counts"]) > 1e-4
    assert likelihood_of_one_source(ours, before["counts"]) < 1e-20
