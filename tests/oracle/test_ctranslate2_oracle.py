"""The dialect `ctranslate2` and CTranslate2 itself, live: random GPT-2 and BART models, converted by its own converter.

Needs torch, transformers and ctranslate2; where they are missing, tests/golden/ctranslate2 holds texts that it gave.
"""

import random

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

NEEDED = "needs CTranslate2 and transformers: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
pytest.importorskip("ctranslate2", reason=NEEDED)

import make_bart  # noqa: E402 (it imports torch, which may be missing above)
import make_ctranslate2 as oracle  # noqa: E402
import make_gpt2  # noqa: E402
from guide_pages import literal, two_columns  # noqa: E402
from making import draw_prompts  # noqa: E402
from tolerance import FLOAT32, logit_bound, score_bound  # noqa: E402

import minidecode as md  # noqa: E402

pytestmark = pytest.mark.oracle

PARTS, MODELS, CASES_EACH = 4, 25, 3  # of each family: 100 models
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


def write_gpt2(folder, rng: random.Random, seed: int) -> int:
    """A random GPT-2 -> the size of its vocabulary."""
    H = rng.randint(1, 4)
    fields = make_gpt2.config_fields({
        "n_head": H, "n_embd": H * rng.randint(-(-6 // H), 8), "n_layer": rng.randint(1, 3),
        "vocab_size": rng.randint(30, 60), "n_inner": rng.choice([None, 7, 40]),
        "activation_function": rng.choice(ACTIVATIONS), "tie_word_embeddings": rng.random() < 0.6,
    })  # fmt: skip
    make_gpt2.write_folder(folder, fields, make_gpt2.make_weights(fields, seed))
    return fields["vocab_size"]


def write_bart(folder, rng: random.Random, seed: int) -> int:
    """A random BART -> the size of its vocabulary. Both stacks have as many heads, as CTranslate2 wants it."""
    D = rng.choice([6, 8, 10, 12, 16, 20])
    H = rng.choice([H for H in range(1, 5) if D % H == 0])
    fields = make_bart.config_fields(make_bart.sizes(
        D, rng.randint(30, 60), (rng.randint(1, 2), rng.randint(1, 2)), (H, H), (rng.randint(5, 30),) * 2,
        max_position_embeddings=24, activation_function=rng.choice(ACTIVATIONS), scale_embedding=rng.random() < 0.5,
        tie_word_embeddings=True, decoder_start_token_id=rng.choice([2, 2, 0, 9]),
    ))  # fmt: skip
    make_bart.write_folder(folder, fields, make_bart.make_weights(fields, seed))
    return fields["vocab_size"]


def asked(options: dict, prompts: list) -> dict:
    """A case's options as `generate` takes them."""
    options = {"dialect": "ctranslate2", "generation_config": False} | options
    if prefix := options.pop("prefix", None):
        options["prefix_tokens"] = [prefix] * len(prompts)
    return options


def texts_of(out) -> list[list[int]]:
    return [ids.tolist() for ids in out.token_ids]


def bound_of(exact, options: dict, prompts: list) -> float:
    """What rounding may do to a log-probability in float32: twice what it does to a logit, which a penalty scales."""
    kept = exact.generate(input_ids=prompts, keep="logits", **options).kept
    largest = max(np.abs(logits_RV).max() for logits_RV in kept.logits)
    penalty = options.get("repetition_penalty", 1.0)
    return max(penalty, 1 / penalty) * logit_bound(exact.config, largest, FLOAT32)


def closest_choice(exact, prompt: list[int], options: dict) -> float:
    """The least gap between neighbours among what a step looks at, and one more, in float64."""
    gaps = []

    def note(scores_X):
        best_C = np.sort(scores_X)[::-1]
        gaps.extend(-np.diff(best_C[np.isfinite(best_C)]))

    out = exact.generate(input_ids=[prompt], trace=True, keep="scores", **options)
    for step, scores_RV in zip(out.trace.steps, out.kept.scores, strict=False):
        if options["num_beams"] == 1:
            note(np.sort(scores_RV[0])[-2:])
        else:
            note(np.array([c.score for c in step.candidates if c.score > -1e9]))
    return min(gaps, default=np.inf)


def is_tie(exact, prompt: list[int], options: dict, ours: list, theirs: list) -> bool:
    """Whether rounding alone may have parted them: texts in another order, or a choice within both sides' bounds."""
    bound = bound_of(exact, options, [prompt])
    longest = max(len(text) for text in ours + theirs)
    return closest_choice(exact, prompt, options) <= 2 * score_bound(bound, longest, 0.0, 0.0, FLOAT32)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("family", "write"), [("gpt2", write_gpt2), ("bart", write_bart)])
def test_texts_and_scores_are_those_of_ctranslate2(family, write, part, tmp_path):
    """100 models of each family, 3 random calls each: the same tokens up to ties, which are below 2 % of sentences."""
    ties = sentences = 0
    for seed in range(part * MODELS, (part + 1) * MODELS):
        rng, folder = random.Random(f"{family} {seed}"), tmp_path / str(seed)
        V = write(folder, rng, seed)
        runner, model, exact = oracle.converted(folder), md.load(folder), md.load(folder, dtype="float64")
        for _ in range(CASES_EACH):
            prompts = draw_prompts(rng, V)
            options = oracle.draw_options(rng, V, lambda p=prompts, r=runner: oracle.said_by(r, p), family == "bart")
            theirs, their_scores = oracle.generate(runner, prompts, options)
            out = model.generate(input_ids=prompts, **asked(options, prompts))
            ours, each = texts_of(out), options["num_return_sequences"]
            sentences += len(prompts)
            for b, prompt in enumerate(prompts):
                places, alone = slice(b * each, (b + 1) * each), asked(options, [prompt])
                if ours[places] != theirs[places]:
                    assert is_tie(exact, prompt, alone, ours[places], theirs[places]), (seed, prompt, options)
                    ties += 1
                    continue
                bound = bound_of(exact, alone, [prompt])
                for text, a, b_ in zip(ours[places], out.scores[places], their_scores[places], strict=True):
                    allowed = 2 * score_bound(bound, len(text), options["length_penalty"], b_, FLOAT32)
                    assert abs(a - b_) <= allowed, (seed, prompt, options)
    print(f"{family}: of {sentences} sentences {ties} differ by ties")
    assert ties < 0.02 * sentences


OF_TRANSLATORS, OF_GENERATORS = (
    ("max_decoding_length", "min_decoding_length", "target_prefix"),
    ("max_length", "min_length"),
)


@pytest.mark.parametrize(("write", "others"), [(write_gpt2, OF_TRANSLATORS), (write_bart, OF_GENERATORS)])
def test_the_guide_s_two_columns_mean_the_same(write, others, tmp_path):
    """Each row of docs/guide/ctranslate2.md, given alone, gives the same texts on both sides."""
    write(tmp_path, random.Random(1), 1)
    runner, model, ids = oracle.converted(tmp_path), md.load(tmp_path), [3, 4, 5]
    rows = [(literal(theirs), literal(ours)) for (theirs, _), (ours, _) in two_columns("ctranslate2.md")]
    rows = [(theirs, ours) for theirs, ours in rows if not set(theirs) & set(others)]
    assert len(rows) >= 10
    for theirs, ours in rows:
        asked = {"beam_size": 3, "end_token": ["1"], "return_end_token": True} | theirs
        if write is write_gpt2:
            asked = {"include_prompt_in_result": False, "max_length": 10} | asked
            found = runner.generate_batch(oracle.written([ids]), **asked)[0].sequences_ids
        else:
            asked = {"max_decoding_length": 10, "min_decoding_length": 0} | asked
            texts = runner.translate_batch(oracle.written([ids]), **asked)[0].hypotheses
            found = [[int(token) for token in text] for text in texts]
        mine = {"dialect": "ctranslate2", "generation_config": False, "num_beams": 3, "eos_token_id": [1]}
        out = model.generate(input_ids=[ids], **mine | {"max_new_tokens": 10} | ours)
        assert texts_of(out) == found, theirs


def test_the_tie_rule_excuses_no_wrong_text(tmp_path):
    write_gpt2(tmp_path, random.Random(1), 1)
    exact = md.load(tmp_path, dtype="float64")
    options = asked({"num_beams": 3, "max_new_tokens": 6, "eos_token_id": [1]}, [[3, 4, 5]])
    right = texts_of(exact.generate(input_ids=[[3, 4, 5]], **options))
    assert not is_tie(exact, [3, 4, 5], options, right, [right[0][:-1]])
