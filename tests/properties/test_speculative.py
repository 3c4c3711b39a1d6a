"""Drafts: greedy texts and looked-up samples are the same without them, and samples of a draft model keep their
distribution; known mistakes are found.
"""

import functools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_sampling import assert_drawn_from
from tolerance import FLOAT32, logit_bound
from toy import NothingCaptured, Ops, ToyEngine
from toy_folder import write_folder

import minidecode as md
from minidecode.cache.drafted import DraftedCache, DraftedRows
from minidecode.options.options import Options
from minidecode.runtime.drafted import DraftCheckingEngine
from minidecode.runtime.receipt import DraftCounts
from minidecode.search import drafts, speculative
from minidecode.search.drafts import DraftModel, PromptLookup, lookup_draft, softmax_in_float64
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

EOS = 0
seeds = st.integers(0, 10**6)
prompt_lists = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4)


# ---- a toy: its scores depend on what its cache really holds ---------------------------------------------------------


def naive_greedy(score, text: list[int], new: int, draft) -> list[int]:
    """The text with `new` more tokens, the likeliest each, without a cache.

    score(text): the next token's scores behind each of its tokens, (N, V). draft(text, most): a guess of what comes.
    """
    end = len(text) + new
    while len(text) < end:
        guess = draft(text, end - len(text) - 1)
        for scores_V, guessed in zip(score(text + guess)[len(text) - 1 :], [*guess, None], strict=True):
            text = [*text, int(scores_V.argmax())]
            if text[-1] != guessed:
                break
    return text


class DraftedToy(NothingCaptured):
    """Stands in for DraftedEngine. Scores depend on the tokens that were read, so a stale one changes them."""

    take_back = DraftCheckingEngine.take_back

    def __init__(self, seed: int, vocab: int, spread: float = 2.0, period: int = 0, other: int = 0):
        """Of seed `other` behind texts whose length is a multiple of `period`: there it guesses another model wrong."""
        self.models = ToyEngine(seed, vocab, spread), ToyEngine(other, vocab, spread)
        self.period, self.ops, self.calls, self.seconds = period, Ops(), 0, Counter()

    def scores(self, text):
        return self.models[bool(self.period) and len(text) % self.period == 0].scores([int(i) for i in text])

    def prefill(self, prompts):
        self.held = [prompt.tolist() for prompt in prompts]
        return np.stack([self.scores(text) for text in self.held])

    def expand(self, texts, steps):
        self.held = [list(text) for text in self.held for _ in range(texts)]
        self.seen_R = np.array([len(text) for text in self.held])

    def read_new_tokens(self, tokens_RM, which_X, length_X):
        self.calls += 1
        rows = []
        for r, length in zip(which_X, length_X, strict=True):
            seen = self.seen_R[r]
            assert seen < length, "nothing is new"
            self.held[r][seen:] = tokens_RM[r, seen:length].tolist()
            rows += [self.scores(self.held[r][: n + 1]) for n in range(seen, length)]
            self.seen_R[r] = length
        return np.stack(rows)


def run(engine, prompts, limits, drafter=None, on_token=None, **options):
    """A search with drafts, or without; `drafter` is an engine that drafts."""
    options = Options(**{"eos_token_id": EOS} | options)
    request = Request.make([np.array(p) for p in prompts], np.asarray(limits), options)
    if not options.tokens_ahead:
        return greedy_search(engine, request, options, on_token)
    drafts = PromptLookup(options) if drafter is None else DraftModel(drafter, options)
    return speculative.speculative_search(engine, request, options, drafts, on_token)


def texts(found):
    return [[text.tolist() for text in sentence] for sentence in found.tokens]


DIALECTS = {"dialect": st.sampled_from(["fairseq", "unilm", "ctranslate2"]), "no_repeat_ngram_size": st.integers(0, 3)}
OPTIONS = st.fixed_dictionaries({
    "no_repeat_ngram_size": st.integers(0, 3), "min_new_tokens": st.integers(0, 3),
    "repetition_penalty": st.sampled_from([1.0, 1.4]), "suppress_tokens": st.sampled_from([(), (3,)]),
    "forced_eos_token_id": st.sampled_from([(), (EOS,)]), "bad_words_ids": st.sampled_from([(), ((2, 1),)]),
    "dialect": st.just("hf"),
}) | st.fixed_dictionaries(DIALECTS)  # fmt: skip


@settings(max_examples=60, phases=[Phase.explicit, Phase.generate], derandomize=True)
@given(seeds, prompt_lists, st.integers(4, 9), st.integers(1, 4), OPTIONS, st.booleans())
def test_greedy_texts_are_the_same(seed, prompts, limit, ahead, options, by_model):
    """Whatever the options; texts of a batch accept differently, and end at different steps."""
    limits = [limit + b for b in range(len(prompts))]
    told = [], []
    plain = run(ToyEngine(seed, 9), prompts, limits, on_token=lambda *token: told[0].append(token), **options)
    how = {"num_assistant_tokens": ahead} if by_model else {"prompt_lookup_num_tokens": ahead}
    drafter = DraftedToy(seed, 9, period=3, other=seed + 1) if by_model else None
    drafted = run(DraftedToy(seed, 9), prompts, limits, drafter, lambda *token: told[1].append(token), **options, **how)
    assert texts(drafted) == texts(plain)
    np.testing.assert_allclose(drafted.scores_BX, plain.scores_BX, rtol=1e-6)
    assert sorted(told[0], key=lambda t: t[0]) == sorted(told[1], key=lambda t: t[0])
    for counts, (text,) in zip(
        drafted.drafts, texts(drafted), strict=True
    ):  # one is the prefill's, one each step's own
        assert counts.accepted <= counts.drafted <= ahead * counts.steps
        assert len(text) in (counts.accepted + counts.steps, counts.accepted + counts.steps + 1)


@settings(max_examples=25, phases=[Phase.explicit, Phase.generate], derandomize=True)
@given(seeds, prompt_lists, st.integers(1, 6), st.sampled_from([{}, {"top_k": 3}, {"temperature": 0.5, "top_p": 0.8}]))
def test_samples_of_a_lookup_are_the_same(seed, prompts, ahead, options):
    """A guess is right where the model draws the same: the draw depends on the text and the token's number alone."""
    how = {"do_sample": True, "top_k": 0, "seed": seed, "num_return_sequences": 2} | options
    limits = [8] * len(prompts)
    assert texts(run(DraftedToy(seed, 5, 1.0), prompts, limits, prompt_lookup_num_tokens=ahead, **how)) == texts(
        run(ToyEngine(seed, 5, 1.0), prompts, limits, **how)
    )


def naive_lookup(text, most, longest=2):
    """Looks at every place, from the end."""
    for n in range(longest, 0, -1):
        for begin in range(len(text) - n - 1, -1, -1):
            if text[begin : begin + n] == text[-n:]:
                copy = list(text)
                for _ in range(most):
                    copy.append(copy[begin + n + len(copy) - len(text)])
                return copy[len(text) :]
    return []


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(1, 6), st.integers(1, 4))
def test_a_lookup_copies_what_followed(text, most, longest):
    assert lookup_draft(np.array(text), most, longest).tolist() == naive_lookup(text, most, longest)


@pytest.mark.parametrize("by_model", [False, True])
def test_as_few_steps_as_the_naive_loop(by_model):
    """As many forward passes: no token is dropped, and no guess is made of a stale cache."""
    check_steps(by_model)


def check_steps(by_model, drafter_kind=DraftedToy):
    saved = 0
    for seed in range(12):
        toy, drafter = DraftedToy(seed, 4), drafter_kind(seed, 4, period=4, other=seed + 50)
        passes = []

        def score(text, toy=toy, passes=passes):
            passes.append(len(text))
            return np.stack([toy.scores(text[: n + 1]) for n in range(len(text))])

        def guess(text, most, drafter=drafter):
            """Everything computed anew."""
            end = len(text) + min(most, 3)
            while by_model and len(text) < end:
                text = [*text, int(drafter.scores(text).argmax())]
            return text[end - min(most, 3) :] if by_model else naive_lookup(text, min(most, 3))

        prompt, new = [1, 2, 1], 14
        begun = [*prompt, int(toy.scores(prompt).argmax())]  # by the prefill
        how = {"num_assistant_tokens": 3} if by_model else {"prompt_lookup_num_tokens": 3}
        found = run(toy, [prompt], [new], drafter if by_model else None, eos_token_id=None, **how)
        assert texts(found)[0][0] == naive_greedy(score, begun, new - 1, guess)[len(prompt) :]
        assert toy.calls == len(passes) == found.drafts[0].steps == found.steps - 1
        saved += new - 1 - toy.calls
    assert saved > 20


# ---- distributions ---------------------------------------------------------------------------------------------------

N, LIMIT, V = 1800, 3, 4


class Remembering(DraftedToy):
    """Scores of a text are computed once."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for model in self.models:
            model.scores = functools.cache(functools.partial(ToyEngine.scores, model))

    def scores(self, text):
        return self.models[0].scores(tuple(map(int, text)))


def p_of(toy, text, top_k, temperature):
    scores = toy.scores(text).astype(np.float64) / temperature
    scores[np.argsort(scores)[: V - top_k]] = -np.inf
    weights = np.exp(scores)
    return weights / weights.sum()


def exact(toy, prompt, **how):
    """The probability of each text of at most LIMIT tokens that ends with EOS or there."""
    found, open_texts = {}, {(): 1.0}
    for length in range(1, LIMIT + 1):
        longer = {
            (*text, token): p * q
            for text, p in open_texts.items()
            for token, q in enumerate(p_of(toy, [*prompt, *text], **how)) if q
        }  # fmt: skip
        ended = {text for text in longer if text[-1] == EOS or length == LIMIT}
        found |= {text: longer[text] for text in ended}
        open_texts = {text: p for text, p in longer.items() if text not in ended}
    return found


SAMPLINGS = [{"top_k": V, "temperature": 1.0}, {"top_k": 3, "temperature": 0.6}]


def check_samples(how, ahead=2, drafter_kind=Remembering):
    """Drawn with a draft that is another model, and so often wrong, of one prompt again and again."""
    toy, prompt = Remembering(3, V, 1.2), [1, 2]
    options = Options(eos_token_id=EOS, do_sample=True, seed=11, num_assistant_tokens=ahead, **how)
    request = Request.make([np.array(prompt)] * N, np.full(N, LIMIT), options, copies=range(N))
    drafter = DraftModel(drafter_kind(8, V, 1.2), options)
    found = speculative.speculative_search(toy, request, options, drafter)
    assert_drawn_from(exact(toy, prompt, **how), [tuple(text.tolist()) for (text,) in found.tokens])
    total = DraftCounts.sum(found.drafts)
    assert 0.2 < total.accepted / total.drafted < 0.9


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("how", SAMPLINGS, ids=str)
def test_samples_of_a_draft_model_have_the_model_s_distribution(how, ahead):
    check_samples(how, ahead)


# ---- models ----------------------------------------------------------------------------------------------------------

PROMPTS = [[5, 6, 7, 5, 6], [9, 3], list(range(40, 60))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made, wide = tmp_path_factory.mktemp("models"), {"n_positions": 48, "n_embd": 16}
    return {
        "gpt2": write_folder(made / "gpt2", **wide),
        "window": write_folder(made / "window", **wide, attention_window=5),
        "multi-query": write_folder(made / "mqa", **wide, num_key_value_heads=1),
        "small": write_folder(made / "small", n_positions=48, n_layer=1),
    }  # fmt: skip


def both_ways(model, how, **options):
    """(without drafts, with them): outputs."""
    options = {"input_ids": PROMPTS, "max_new_tokens": 20} | options
    return model.generate(**options), model.generate(**options, **how)


def check_models(folders, names=("gpt2",), plans=("numpy",)):
    """In float64, where no two tokens are as likely, to the last bit."""
    for name in names:
        for plan in plans:
            model = md.load(folders[name], dtype="float64", plan=plan)
            draft = md.load(folders[name], dtype="float32")  # nearly always right
            for how in ({"prompt_lookup_num_tokens": 4}, {"draft": draft, "num_assistant_tokens": 3}):
                for options in ({}, {"do_sample": True, "num_return_sequences": 2, "temperature": 0.5}):
                    if options and "draft" in how:  # then samples are others
                        continue
                    plain, drafted = both_ways(model, how, **options)
                    assert [x.tolist() for x in drafted.token_ids] == [x.tolist() for x in plain.token_ids]
                    np.testing.assert_allclose(drafted.scores, plain.scores, rtol=1e-9)
                    assert "draft" not in how or drafted.receipt.steps < plain.receipt.steps / 2


@pytest.mark.parametrize("name", ["gpt2", "window", "multi-query"])
def test_models_of_all_kinds_of_attention(folders, name):
    check_models(folders, [name], ["numpy", "fast"])


def test_a_rotary_model_with_a_window():
    from golden_files import GOLDEN

    model = md.load(GOLDEN / "llama" / "mistral", dtype="float64", plan="numpy")
    for how in ({"prompt_lookup_num_tokens": 4}, {"draft": model}):
        plain, drafted = both_ways(model, how, input_ids=[[5, 6, 7, 5, 6], [9, 3]])
        assert [x.tolist() for x in drafted.token_ids] == [x.tolist() for x in plain.token_ids]
    assert drafted.receipt.drafts.accepted == drafted.receipt.drafts.drafted


def test_bundled_models_in_float32_up_to_ties():
    """Where a token differs, the model in float64 is as sure of one as of the other, up to what rounding may do."""
    model, draft = md.load("tiny-gpt2", plan="numpy"), md.load("tiny-gpt2-mqa", plan="numpy")
    exact_model = md.load("tiny-gpt2", dtype="float64", plan="numpy")
    prompts = ["Fellow citizens, the war", "We, the people of the United", "the"]
    plain = model.generate(prompts, max_new_tokens=24, no_repeat_ngram_size=0)
    for how in ({"prompt_lookup_num_tokens": 6}, {"draft": draft}):
        drafted = model.generate(prompts, max_new_tokens=24, no_repeat_ngram_size=0, **how)
        assert drafted.receipt.drafts.accepted > 10
        for prompt, mine, theirs in zip(prompts, drafted.token_ids, plain.token_ids, strict=True):
            if mine.tolist() != theirs.tolist():
                at = int(np.flatnonzero(mine[: len(theirs)] != theirs[: len(mine)])[0])
                logits = exact_model.logits([[*model.tokenizer.encode(prompt), *mine[:at]]])[0][-1]
                bound = logit_bound(model.config, abs(logits).max(), FLOAT32)
                assert abs(logits[mine[at]] - logits[theirs[at]]) <= 2 * bound


def test_stops_streams_and_log_probabilities_are_the_same(folders):
    model = md.load(folders["gpt2"], dtype="float64", plan="numpy")
    plain = model.generate(input_ids=PROMPTS, max_new_tokens=20)
    stop = model.tokenizer.decode(plain.token_ids[0][9:11])
    for how in ({"prompt_lookup_num_tokens": 4}, {"draft": model}):
        told: list[tuple[int, int]] = []
        without, drafted = both_ways(model, how, stop_strings=[stop], logprobs=1)
        assert drafted.texts == without.texts and drafted.finish_reasons == without.finish_reasons
        assert drafted.finish_reasons[0] == "stop" and len(drafted.token_ids[0]) < 20
        for mine, theirs in zip(drafted.token_logprobs, without.token_logprobs, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
        model.generate(
            input_ids=PROMPTS, max_new_tokens=20, streamer=lambda *token, told=told: told.append(token), **how
        )
        for r, ids in enumerate(plain.token_ids):
            assert [token for row, token in told if row == r] == ids.tolist()
    pieces = "".join(model.stream("the the", max_new_tokens=9, prompt_lookup_num_tokens=3))
    assert pieces == model.generate("the the", max_new_tokens=9).text


def test_receipt_footprint_and_lines(folders):
    model, draft = (md.load(folders[name], plan="numpy") for name in ("gpt2", "small"))
    how = {"input_ids": PROMPTS, "max_new_tokens": 20, "eos_token_id": None}
    for more in ({"prompt_lookup_num_tokens": 4}, {"draft": draft, "do_sample": True, "num_return_sequences": 2}):
        out, needed = model.generate(**how, **more), model.footprint(**how, **more)
        assert len(out.drafts) == len(out) and out.receipt.drafts.drafted == sum(d.drafted for d in out.drafts)
        assert out.receipt.cache_peak_bytes <= needed.cache and "drafted tokens accepted" in str(out.receipt)
        assert out.receipt.plan == "cache=paged" and out.receipt.ops["attend_paged"].calls
        assert out.receipt.as_dict()["drafts"]["accepted"] == out.receipt.drafts.accepted
    assert needed.total > model.footprint(**how, do_sample=True, num_return_sequences=2).total
    with pytest.raises(md.MemoryBudgetError):
        model.generate(**how, draft=draft, memory_budget=model.footprint(**how, draft=draft).total - 1)
    lines = md.generate_lines(model, ["the", "e the"], max_new_tokens=6, draft=draft)
    assert [line.drafts[0].steps > 0 for line in lines] == [True, True]
    assert model.generate("the", max_new_tokens=3).drafts is None


@pytest.mark.parametrize(("options", "says"), [
    ({"num_beams": 2}, "beams change places at every step: use num_beams=1"),
    ({"num_assistant_tokens": 3}, "prompt_lookup_num_tokens and a draft model both draft"),
    ({"guidance_scale": 2.0}, "guidance_scale is asked once for each token"), ({"max_time": 9.0}, "max_time is asked"),
    ({"logits_processor": lambda scores, rows: scores}, "logits_processor is asked"),
    ({"stopping_criteria": lambda ids, scores: False}, "stopping_criteria is asked"),
    ({"trace": True}, "trace and keep note one token a step"), ({"keep": ("scores",)}, "trace and keep note one token"),
    ({"plan": "cache=split"}, "cache=split has no effect with drafts"),
    ({"plan": "cache=paged,arena=planned"}, "arena=planned has no effect with drafts"),
    ({"assistant_model": "x"}, "give the model to generate as draft"), ({"draft": "tiny-gpt2"}, "a loaded model"),
])  # fmt: skip
def test_what_is_refused(folders, options, says):
    with pytest.raises(md.OptionError, match=says):
        md.load(folders["gpt2"]).generate("the", max_new_tokens=3, **{"prompt_lookup_num_tokens": 2} | options)


@pytest.mark.parametrize("do_sample", [False, True])
def test_scores_that_turn_to_nan_are_an_error(folders, do_sample, monkeypatch):
    """In a step that reads drafts, of the model and not of what drafts."""
    model, draft, read = md.load(folders["gpt2"]), md.load(folders["gpt2"]), DraftCheckingEngine.read_new_tokens

    def spoilt(self, *given):
        return read(self, *given) * (1 if self.weights is draft.weights else np.nan)

    monkeypatch.setattr(DraftCheckingEngine, "read_new_tokens", spoilt)
    with pytest.raises(md.NumericalError, match="the model's scores are NaN at step 2"):
        model.generate("the", max_new_tokens=6, draft=draft, do_sample=do_sample)


def test_which_models_are_refused(folders, tmp_path):
    model, short = md.load(folders["gpt2"]), md.load(write_folder(tmp_path / "short"))
    with pytest.raises(md.OptionError, match="the draft has another vocabulary than the model"):
        model.generate("the", draft=md.load("tiny-gpt2"))
    for asked in (model.generate, model.footprint):
        with pytest.raises(md.InputError, match="the draft reads 16: ask for fewer new tokens"):
            asked("the", draft=short, max_new_tokens=30)
    with pytest.raises(md.OptionError, match=r"this model \(bart\) answers a source"):
        md.load("tiny-bart").generate("the", num_beams=1, prompt_lookup_num_tokens=3)
    with pytest.raises(md.OptionError, match="num_assistant_tokens changes nothing without a draft model"):
        model.generate("the", num_assistant_tokens=3)
    with pytest.raises(md.OptionError, match="max_matching_ngram_size needs prompt_lookup_num_tokens"):
        model.generate("the", max_matching_ngram_size=3)
    with pytest.raises(md.OptionError, match="a running batch computes one token of each text a step"):
        md.Scheduler(model).submit("the", prompt_lookup_num_tokens=3)
    model.defaults["num_assistant_tokens"] = 20  # as some files say it
    assert model.generate("the", max_new_tokens=3).drafts is None


# ---- known mistakes --------------------------------------------------------------------------------------------------


def token_behind_the_draft_dropped(patch):
    def shorter(texts, request, r, rows, chosen, mine):
        return take(texts, request, r, rows, chosen, mine[:-1] if len(mine) > 2 else mine)

    take = speculative._append_chosen
    patch.setattr(speculative, "_append_chosen", shorter)


def cache_not_cut_back(patch):
    patch.setattr(DraftCheckingEngine, "take_back", lambda self, length_R: None)


def newest_token_taken_for_read(patch):
    """The caches are ahead by one."""
    take_back = DraftCheckingEngine.take_back
    patch.setattr(DraftCheckingEngine, "take_back", lambda self, length_R: take_back(self, length_R + 1))


def position_off_by_one(patch):
    def further(self, ids_R, pos_R):
        return forward(self, ids_R, pos_R + 1)

    forward = DraftCheckingEngine._logits_of_tokens
    patch.setattr(DraftCheckingEngine, "_logits_of_tokens", further)


def next_guess_seen(patch):
    def longer(self, text_X, at_X):
        step(self, text_X, at_X)
        self.end_X = self.end_X + 1

    step = DraftedRows.begin_step
    patch.setattr(DraftedRows, "begin_step", longer)


def pages_of_the_first_text(patch):
    def first(self, text_X, at_X):
        step(self, np.zeros_like(text_X), at_X)

    step = DraftedRows.begin_step
    patch.setattr(DraftedRows, "begin_step", first)


def window_ignored(patch):
    def without(self, ops, q_RHK):
        heads, self.heads = self.heads, replace(self.heads, window=None)
        a_RX = attend(self, ops, q_RHK)
        self.heads = heads
        return a_RX

    attend = DraftedCache.attend_step
    patch.setattr(DraftedCache, "attend_step", without)


def verdicts(wrong):
    return lambda patch: patch.setattr(speculative, "accept_or_redraw", wrong)


def drawn(weights_V, v):
    sums = np.cumsum(weights_V)
    return int(np.searchsorted(sums, v * sums[-1], side="right"))


def draws_of_drafts_used_again(patch):
    patch.setattr(speculative, "OF_VERDICT", drafts.OF_DRAFT)


def one_draw_for_all_tokens(patch):
    def keyed(texts, *args):
        ahead = texts_after_drafts(texts, *args)
        ahead.draws.step_R[...] = 0
        return ahead

    texts_after_drafts = drafts.texts_after_drafts
    for module in (drafts, speculative):
        patch.setattr(module, "texts_after_drafts", keyed)


def eos_left_out_of_drafts(patch):
    def without(self, *args):
        made = of_model(self, *args)
        for draft in made:
            kept = len(draft.ids) - (len(draft.ids) > 0 and draft.ids[-1] == EOS)
            draft.ids, draft.probability_V = draft.ids[:kept], draft.probability_V[:kept]
        return made

    of_model = DraftModel.drafts
    patch.setattr(DraftModel, "drafts", without)


def probabilities_before_temperature(patch):
    patch.setattr(drafts, "softmax_in_float64", lambda scores_V: softmax_in_float64(scores_V * 0.6))


IN_STEPS = [token_behind_the_draft_dropped]
IN_MODELS = [cache_not_cut_back, newest_token_taken_for_read, position_off_by_one, next_guess_seen,
             pages_of_the_first_text, window_ignored]  # fmt: skip
IN_SAMPLES = {
    "all of p in place of the residual": verdicts(
        lambda p, q, x, u, v: x if u * q[x] < p[x] else drawn(p, v)),
    "residual |p - q|": verdicts(lambda p, q, x, u, v: x if u * q[x] < p[x] else drawn(abs(p - q), v)),
    "residual not normalised": verdicts(
        lambda p, q, x, u, v: x if u * q[x] < p[x] else min(int((np.cumsum(np.maximum(p - q, 0)) <= v).sum()), V - 1)),
    "residual of q - p": verdicts(lambda p, q, x, u, v: x if u * q[x] < p[x] else drawn(np.maximum(q - p, 0), v)),
    "always accepted": verdicts(lambda p, q, x, u, v: x),
    "accepted by p alone": verdicts(
        lambda p, q, x, u, v: x if u < p[x] else drawn(np.maximum(p - q, 0), v)),
    "ratio upside down": verdicts(
        lambda p, q, x, u, v: x if u * p[x] < q[x] else drawn(np.maximum(p - q, 0), v)),
    **{f.__name__: f for f in (draws_of_drafts_used_again, one_draw_for_all_tokens, eos_left_out_of_drafts,
                               probabilities_before_temperature)},
}  # fmt: skip


@pytest.mark.parametrize("mistake", IN_STEPS, ids=lambda f: f.__name__)
def test_mistakes_that_cost_steps_die(monkeypatch, mistake):
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        check_steps(True)


def test_a_draft_whose_cache_is_ahead_dies():
    class Ahead(DraftedToy):
        def take_back(self, length_R):
            super().take_back(length_R + 1)

    with pytest.raises(AssertionError):
        check_steps(True, Ahead)


@pytest.mark.parametrize("mistake", IN_MODELS, ids=lambda f: f.__name__)
def test_mistakes_of_caches_die(folders, monkeypatch, mistake):
    mistake(monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        check_models(folders, ["window"])


@pytest.mark.parametrize("mistake", IN_SAMPLES)
def test_mistakes_of_draws_die(monkeypatch, mistake):
    IN_SAMPLES[mistake](monkeypatch)
    with pytest.raises((AssertionError, ZeroDivisionError)):
        for how in SAMPLINGS:
            check_samples(how)
