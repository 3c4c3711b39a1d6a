"""Every score processor against a slow statement of its rule, planted edge cases, and the order in which they run."""

import dataclasses
import math
import warnings
from dataclasses import dataclass, field

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import Ops, ToyEngine, log_probability

import minidecode as md
from minidecode.options import dialects
from minidecode.options.options import Options
from minidecode.search import processors
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.processors import apply_processors
from minidecode.search.result import Request

V, OFF = 5, -math.inf
JUNK = 3  # lies behind every text in the array, and must not be read


@dataclass
class Text:
    """One row: a text that begins with a prompt, and what else a processor may know of it."""

    tokens: list[int]
    prompt: int = 1
    limit: int = 9  # most new tokens
    sentence: int = 0
    source: list[int] = field(default_factory=lambda: [1])
    prefix: list[int] | None = None

    @property
    def new(self) -> int:
        return len(self.tokens) - self.prompt

    @property
    def is_last(self) -> bool:
        return self.new == self.limit - 1


def rows_of(texts: list[Text], options: Options):
    """The texts as the rows of a search; texts of one sentence share its source and its prefix."""
    of_sentence = {t.sentence: t for t in texts}
    sentences = [of_sentence.get(b, texts[0]) for b in range(max(of_sentence) + 1)]
    prefixes = [t.prefix or [] for t in sentences] if any(t.prefix is not None for t in sentences) else None
    prompts = [np.array(t.tokens[: t.prompt]) for t in sentences]
    sources = [np.array(t.source) for t in sentences]
    request = Request.make(prompts, [t.limit for t in sentences], options, sources, prefixes)
    tokens_RM = np.full((len(texts), 15), JUNK)
    for r, t in enumerate(texts):
        tokens_RM[r, : len(t.tokens)] = t.tokens
    rows = request.rows(tokens_RM, np.array([len(t.tokens) for t in texts]), np.array([t.sentence for t in texts]))
    return dataclasses.replace(
        rows, prompt_R=np.array([t.prompt for t in texts]), limit_R=np.array([t.limit for t in texts])
    )


def apply(name: str, texts: list[Text], scores: list[list[float]], **options) -> np.ndarray:
    """One processor on copies of the scores; ids of tokens may be given as lists."""
    o = Options(**options)
    return getattr(processors, name)(Ops(), np.array(scores, np.float32), rows_of(texts, o), o)


# ---- the rules, slowly -----------------------------------------------------------------------------------------------
# Each takes (text, score of a token, the token, options, all scores of the row) and says the token's new score.


def ends_with(tokens, word):
    return len(tokens) >= len(word) and tokens[len(tokens) - len(word) :] == list(word)


def holds(tokens, word):
    return any(tokens[i : i + len(word)] == list(word) for i in range(len(tokens) - len(word) + 1))


def penalized(s, penalty):
    return s * penalty if s < 0 else s / penalty


def sequence_bias(t, s, v, o, scores):
    return s + sum(bias for ids, bias in o.sequence_bias if ends_with([*t.tokens, v], ids))


def exponential_decay_length_penalty(t, s, v, o, scores):
    if o.exponential_decay_length_penalty is None or v not in o.eos_token_id or math.isinf(s):
        return s
    start, factor = o.exponential_decay_length_penalty
    return s + abs(s) * (factor ** (t.new - start) - 1) if t.new > start else s


def remove_invalid_values(t, s, v, o, scores):
    return float(np.finfo(np.float32).min) if o.remove_invalid_values and s == OFF else s


def repetition_penalty(t, s, v, o, scores):
    return penalized(s, o.repetition_penalty) if v in t.tokens else s


def encoder_repetition_penalty(t, s, v, o, scores):
    return penalized(s, 1 / o.encoder_repetition_penalty) if v in t.source else s


def no_repeat_ngram_size(t, s, v, o, scores):
    """N-grams with an exempt token may repeat."""
    n = o.no_repeat_ngram_size
    exempt = {*o.no_repeat_ngram_exempt_ids, *(o.eos_token_id if o.dialect == "unilm" and n == 1 else ())}
    ngram = [*t.tokens[len(t.tokens) - n + 1 :], v] if n > 1 else [v]
    return OFF if n and v in oracles.banned(t.tokens, n) and not exempt & set(ngram) else s


def encoder_no_repeat_ngram_size(t, s, v, o, scores):
    n, longer = o.encoder_no_repeat_ngram_size, [*t.tokens, v]
    return OFF if n and len(longer) >= n and holds(t.source, longer[len(longer) - n :]) else s


def bad_words_ids(t, s, v, o, scores):
    passes = () if o.dialect == "ctranslate2" else o.eos_token_id
    words = [word for word in o.bad_words_ids if len(word) > 1 or word[0] not in passes]
    return OFF if any(ends_with([*t.tokens, v], word) for word in words) else s


def min_new_tokens(t, s, v, o, scores):
    is_short = len(t.tokens) < o.min_length if o.min_new_tokens is None else t.new < o.min_new_tokens
    if o.dialect == "fairseq" and t.prefix is not None and t.new < len(t.prefix):
        return s
    return OFF if is_short and v in o.eos_token_id else s


def prefix_tokens(t, s, v, o, scores):
    wanted = t.prefix[t.new] if t.prefix is not None and t.new < len(t.prefix) and not t.is_last else -1
    if o.dialect == "ctranslate2" and wanted == v:
        return 0.0  # whatever else has been ruled out
    return s if wanted in (-1, v) else OFF


def forced_bos_token_id(t, s, v, o, scores):
    if not o.forced_bos_token_id or len(t.tokens) != 1:
        return s
    return 0.0 if v in o.forced_bos_token_id else OFF


def forced_eos_token_id(t, s, v, o, scores):
    if not o.forced_eos_token_id or not t.is_last:
        return s
    return 0.0 if v in o.forced_eos_token_id else OFF


def suppress_tokens(t, s, v, o, scores):
    return OFF if v in o.suppress_tokens else s


def begin_suppress_tokens(t, s, v, o, scores):
    first = 1 if o.forced_bos_token_id and t.prompt == 1 else 0
    return OFF if t.new == first and v in o.begin_suppress_tokens else s


def never_pad(t, s, v, o, scores):
    return OFF if v == o.pad_token_id and v not in o.eos_token_id else s


def unk_penalty(t, s, v, o, scores):
    return s - o.unk_penalty if v == o.unk_token_id else s


def end_at_limit(t, s, v, o, scores):
    return OFF if t.is_last and o.eos_token_id and v not in o.eos_token_id else s


def begin_with_bos(t, s, v, o, scores):
    is_place = o.forced_bos_token_id and len(t.tokens) == 1 and not t.is_last
    return OFF if is_place and v not in o.forced_bos_token_id else s


def temperature(t, s, v, o, scores):
    return s / o.temperature if o.do_sample else s


def renormalize_logits(t, s, v, o, scores):
    return s - math.log(math.fsum(math.exp(x) for x in scores)) if o.renormalize_logits else s


ids = st.integers(0, V - 1)
some_ids = st.lists(ids, max_size=2, unique=True)
RULES = {  # name -> (the rule, options under which it is tried)
    repetition_penalty: {"repetition_penalty": st.sampled_from([0.5, 1.0, 2.0])},
    encoder_repetition_penalty: {"encoder_repetition_penalty": st.sampled_from([0.5, 1.0, 2.0])},
    no_repeat_ngram_size: {"no_repeat_ngram_size": st.integers(0, 4)},
    encoder_no_repeat_ngram_size: {"encoder_no_repeat_ngram_size": st.integers(0, 4)},
    bad_words_ids: {"bad_words_ids": st.lists(st.lists(ids, min_size=1, max_size=4), max_size=4),
                    "eos_token_id": some_ids},
    min_new_tokens: {"min_new_tokens": st.none() | st.integers(0, 4), "min_length": st.integers(0, 6),
                     "eos_token_id": some_ids},
    prefix_tokens: {},
    forced_bos_token_id: {"forced_bos_token_id": some_ids},
    forced_eos_token_id: {"forced_eos_token_id": some_ids},
    suppress_tokens: {"suppress_tokens": some_ids},
    begin_suppress_tokens: {"begin_suppress_tokens": some_ids, "forced_bos_token_id": some_ids},
    temperature: {"temperature": st.sampled_from([0.5, 1.0, 4.0]), "do_sample": st.booleans()},
    renormalize_logits: {"renormalize_logits": st.booleans()},
    sequence_bias: {"sequence_bias": st.dictionaries(
        st.lists(ids, min_size=1, max_size=3).map(tuple), st.sampled_from([-2.0, 0.5, 3.0]), max_size=4)},
    exponential_decay_length_penalty: {
        "exponential_decay_length_penalty": st.none() | st.tuples(st.integers(0, 3), st.sampled_from([0.5, 1.5, 3.0])),
        "eos_token_id": some_ids},
    remove_invalid_values: {"remove_invalid_values": st.booleans()},
}  # fmt: skip
FAIRSEQ_RULES = {
    never_pad: {"pad_token_id": st.none() | ids, "eos_token_id": st.lists(ids, max_size=1)},
    unk_penalty: {"unk_token_id": ids, "unk_penalty": st.sampled_from([-1.5, 0.0, 2.0])},
    end_at_limit: {"eos_token_id": st.lists(ids, max_size=1)},
    begin_with_bos: {"forced_bos_token_id": some_ids},
    prefix_tokens: {},
    min_new_tokens: {"min_new_tokens": st.integers(0, 4), "eos_token_id": st.lists(ids, max_size=1)},
    no_repeat_ngram_size: {"no_repeat_ngram_size": st.integers(0, 4)},
}  # fmt: skip
OF_NEW_TOKENS = (repetition_penalty, no_repeat_ngram_size, bad_words_ids)  # in CTranslate2
CASES = [
    *[("hf", rule, o) for rule, o in RULES.items()], *[("fairseq", rule, o) for rule, o in FAIRSEQ_RULES.items()],
    *[("ctranslate2", rule, RULES[rule]) for rule in (*OF_NEW_TOKENS, prefix_tokens)],
]  # fmt: skip


@st.composite
def batches(draw):
    """One to four rows of up to three sentences: short texts over few tokens, so that they repeat themselves."""
    sentences = [
        {"prompt": draw(st.integers(1, 3)), "source": draw(st.lists(ids, min_size=1, max_size=6)),
         "prefix": draw(st.lists(st.integers(-1, V - 1), max_size=4))}
        for _ in range(draw(st.integers(1, 3)))
    ]  # fmt: skip
    has_prefixes = draw(st.booleans())
    texts = []
    for _ in range(draw(st.integers(1, 4))):
        b = draw(st.integers(0, len(sentences) - 1))
        own = sentences[b] | ({} if has_prefixes else {"prefix": None})
        tokens = draw(st.lists(st.integers(0, 3), min_size=own["prompt"], max_size=8))
        new = len(tokens) - own["prompt"]
        texts.append(Text(tokens, sentence=b, limit=new + draw(st.integers(1, 3)), **own))
    scores = draw(st.lists(
        st.lists(st.sampled_from([-3.0, -0.5, 0.0, 1.5, OFF]), min_size=V, max_size=V).filter(lambda s: max(s) > OFF),
        min_size=len(texts), max_size=len(texts),
    ))  # fmt: skip
    return texts, scores


@pytest.mark.parametrize(("dialect", "rule", "tried"), CASES, ids=lambda x: getattr(x, "__name__", x))
@settings(max_examples=40)
@given(batch=batches(), data=st.data())
def test_a_processor_does_what_its_rule_says(dialect, rule, tried, batch, data):
    texts, scores = batch
    options = {"dialect": dialect} | {name: data.draw(values) for name, values in tried.items()}
    o, found = Options(**options), apply(rule.__name__, texts, scores, **options)
    if dialect == "ctranslate2" and rule in OF_NEW_TOKENS:
        texts = [dataclasses.replace(t, tokens=t.tokens[t.prompt :], prompt=0) for t in texts]
    expected = [[rule(t, s, v, o, row) for v, s in enumerate(row)] for t, row in zip(texts, scores, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def allowed(sentence, ids):
    """A user's function that looks at everything it is told."""
    return sorted({(sentence + int(ids[-1])) % V, len(ids) % V})


@settings(max_examples=60)
@given(batches())
def test_what_a_users_function_allows(batch):
    """The others are ruled out; and if nothing is left in any row of a sentence, what it allows is certain there."""
    texts, scores = batch
    expected = []
    for t, row in zip(texts, scores, strict=True):
        mine = [(u, r) for u, r in zip(texts, scores, strict=True) if u.sentence == t.sentence]
        is_stuck = all(r[v] == OFF for u, r in mine for v in allowed(u.sentence, u.tokens))
        left = [0.0] * V if is_stuck else row
        expected.append([left[v] if v in allowed(t.sentence, t.tokens) else OFF for v in range(V)])
    assert apply("prefix_allowed_tokens_fn", texts, scores, prefix_allowed_tokens_fn=allowed).tolist() == expected


def test_every_processor_of_every_dialect_is_tried():
    elsewhere = {"logits_processor", "prefix_allowed_tokens_fn", "guidance_scale", "regex", "json_schema"}
    elsewhere |= {"top_h", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
    for d in processors.ORDER:
        rules = FAIRSEQ_RULES if d == "fairseq" else RULES
        names = {rule.__name__ for rule in rules} | elsewhere
        assert set(processors.ORDER[d]) <= names


# ---- planted cases ---------------------------------------------------------------------------------------------------


def banned_by(name, text, **options):
    """The tokens that a processor rules out of a row of zeros; all others must keep their 0."""
    found = apply(name, [text], [[0.0] * V], **options)[0]
    assert set(found.tolist()) <= {0.0, OFF}
    return set(np.flatnonzero(np.isneginf(found)).tolist())


@pytest.mark.parametrize(("words", "tokens", "banned"), [
    ([[2]], [1], {2}),
    ([[1, 2]], [1], {2}),
    ([[1, 2]], [2], set()),
    ([[1, 1, 2]], [1], set()),  # the word's beginning is longer than the text
    ([[0, 1, 2], [1, 3], [1, 2]], [0, 1], {2, 3}),  # words that overlap
    ([[1, 1]], [0, 1], {1}),  # a token that repeats itself
    ([[1, 1, 1]], [0, 1], set()),
    ([[4, 4], [4]], [4, 4], {4}),
    ([[0, 1, 0, 1]], [0, 1, 0], {1}),
], ids=str)  # fmt: skip
def test_bad_words(words, tokens, banned):
    assert banned_by("bad_words_ids", Text(tokens), bad_words_ids=words) == banned


def test_a_bad_word_that_is_eos_alone_is_let_pass():
    """As in transformers, where it would else be impossible to end; as the end of a word it counts."""
    words = [[0], [1, 0], [3, 3, 4], [2]]
    assert banned_by("bad_words_ids", Text([2]), bad_words_ids=words, eos_token_id=[0, 3]) == {2}
    assert banned_by("bad_words_ids", Text([2, 1]), bad_words_ids=words, eos_token_id=[0, 3]) == {2, 0}


@pytest.mark.parametrize(("n", "tokens", "banned"), [
    (1, [1, 2, 1], {1, 2}), (2, [1], set()), (2, [1, 1], {1}), (2, [1, 2, 1, 4, 1], {2, 4}), (3, [1, 2], set()),
    (3, [1, 1, 1], {1}), (3, [1, 2, 4, 1, 2], {4}), (5, [1, 2, 3, 4], set()),
], ids=str)  # fmt: skip
def test_no_repeat_ngrams_of_a_text(n, tokens, banned):
    """3, the junk behind the text, is never banned: trap of others (fairseq #5206), who count padding as text."""
    assert banned_by("no_repeat_ngram_size", Text(tokens), no_repeat_ngram_size=n) == banned


@settings(max_examples=80)
@given(batch=batches(), n=st.integers(1, 4), exempt=st.lists(ids, max_size=3), eos=ids,
       dialect=st.sampled_from(["hf", "fairseq", "unilm"]))  # fmt: skip
def test_ngrams_with_an_exempt_token_may_repeat(batch, n, exempt, eos, dialect):
    """As in s2s-ft, whose ban of single tokens does not count the EOS that targets begin with, either."""
    texts, scores = batch
    options = {"dialect": dialect, "no_repeat_ngram_size": n, "no_repeat_ngram_exempt_ids": exempt, "eos_token_id": eos}
    o, found = Options(**options), apply("no_repeat_ngram_size", texts, scores, **options)
    expected = [[no_repeat_ngram_size(t, s, v, o, row) for v, s in enumerate(row)]
                for t, row in zip(texts, scores, strict=True)]  # fmt: skip
    assert found.tolist() == expected


@pytest.mark.parametrize(("n", "source", "tokens", "banned"), [
    (1, [2, 4], [1], {2, 4}), (2, [1, 2, 1, 4], [1], {2, 4}), (2, [2, 1], [1], set()), (3, [1, 2, 3], [2], set()),
    (3, [1, 2, 3], [1, 2], {3}), (3, [1, 2], [1, 2], set()), (2, [1, 1], [3, 1], {1}),
], ids=str)  # fmt: skip
def test_no_ngrams_of_the_source(n, source, tokens, banned):
    text = Text(tokens, source=source)
    assert banned_by("encoder_no_repeat_ngram_size", text, encoder_no_repeat_ngram_size=n) == banned


def test_a_token_that_repeats_is_penalized_once():
    """Not once for each time; and a score of minus infinity or 0 stays what it is."""
    text = Text([1, 1, 2, 2, 4, 3])
    found = apply("repetition_penalty", [text], [[5.0, 4.0, -4.0, 0.0, OFF]], repetition_penalty=2.0)
    assert found[0].tolist() == [5.0, 2.0, -8.0, 0.0, OFF]


def test_all_of_several_eos_wait_for_the_least_length():
    options = dict(eos_token_id=[0, 3], min_new_tokens=2)
    assert banned_by("min_new_tokens", Text([1, 1]), **options) == {0, 3}
    assert banned_by("min_new_tokens", Text([1, 1, 1]), **options) == set()
    by_length = dict(eos_token_id=[0, 3], min_length=3)
    assert banned_by("min_new_tokens", Text([1, 1], prompt=2), **by_length) == {0, 3}, "the prompt counts"
    assert banned_by("min_new_tokens", Text([1, 1, 1], prompt=2), **by_length) == set()
    assert banned_by("min_new_tokens", Text([1], limit=9), eos_token_id=None, min_new_tokens=5) == set()


def test_prefixes_of_different_lengths_with_free_places():
    """Sentence 0 begins with 2, any token, 4; sentence 1 with 3; sentence 2 as it likes."""
    prefixes = [[2, -1, 4], [3], []]
    for step, left in enumerate([[{2}, {3}, {*range(V)}], [{*range(V)}] * 3, [{4}, {*range(V)}, {*range(V)}]]):
        texts = [Text([1] * (1 + step), sentence=b, prefix=p) for b, p in enumerate(prefixes)]
        found = apply("prefix_tokens", texts, [[float(v) for v in range(V)]] * 3)
        assert [set(np.flatnonzero(row > OFF).tolist()) for row in found] == left
        assert (found[found > OFF] == np.nonzero(found > OFF)[1]).all(), "what stays keeps its score"


def test_fairseqs_least_length_waits_for_the_prefix():
    """EOS may come inside a prefix, the free places of it included, and is banned again behind it."""
    options = dict(dialect="fairseq", eos_token_id=0, min_new_tokens=4)
    texts = [Text([1], prefix=[2, -1]), Text([1, 2], prefix=[2, -1]), Text([1, 2, 2], prefix=[2, -1]),
             Text([1, 2, 2, 2, 2], prefix=[2, -1])]  # fmt: skip
    found = apply("min_new_tokens", texts, [[0.0] * V] * 4, **options)
    assert np.isneginf(found[:, 0]).tolist() == [False, False, True, False] and (found[:, 1:] == 0).all()


def test_the_end_goes_before_what_a_text_must_begin_with():
    """A limit of one token: fairseq forces EOS, not BOS nor the prefix; in transformers forced EOS comes last."""
    only = Text([1], limit=1, prefix=[2])
    scores = [[-1.0, -2.0, -3.0, -4.0, -5.0]]
    for dialect, options, expected in [
        ("fairseq", {"eos_token_id": 4, "forced_bos_token_id": 3}, [OFF, OFF, OFF, OFF, -5.0]),
        ("hf", {"forced_eos_token_id": 4, "forced_bos_token_id": 3}, [OFF, OFF, OFF, OFF, 0.0]),
    ]:
        o = Options(dialect=dialect, min_new_tokens=0, **options)
        found = apply_processors(Ops(), np.array(scores, np.float32), rows_of([only], o), o)
        assert found[0].tolist() == expected


def test_what_may_not_come_first_may_come_later():
    begin = dict(begin_suppress_tokens=[2, 3])
    assert banned_by("begin_suppress_tokens", Text([1]), **begin) == {2, 3}
    assert banned_by("begin_suppress_tokens", Text([1, 1]), **begin) == set()
    assert banned_by("begin_suppress_tokens", Text([1]), forced_bos_token_id=4, **begin) == set()
    assert banned_by("begin_suppress_tokens", Text([1, 4]), forced_bos_token_id=4, **begin) == {2, 3}
    assert banned_by("begin_suppress_tokens", Text([1, 4], prompt=2), forced_bos_token_id=4, **begin) == {2, 3}


# ---- the order -------------------------------------------------------------------------------------------------------

SCORES = [-1.0, -2.0, -3.0, -4.0, -5.0]
T = Text


def allow_one(scores_RV, rows):
    scores_RV[:, 1] = -2.0
    return scores_RV


def lift_four(scores_RV, rows):
    scores_RV[:, 4] += 9.0
    return scores_RV


def lift_all(scores_RV, rows):
    return scores_RV + 9.0


ORDER = [  # dialect, what runs first, what runs later, text, options, which tokens are left and with which scores
    ("hf", "no_repeat_ngram_size", "forced_eos_token_id", T([1, 0], limit=2),
     {"no_repeat_ngram_size": 1, "forced_eos_token_id": 0}, {0: 0.0}),
    ("hf", "bad_words_ids", "forced_bos_token_id", T([1]),
     {"bad_words_ids": [[2]], "forced_bos_token_id": 2}, {2: 0.0}),
    ("hf", "min_new_tokens", "forced_eos_token_id", T([1], limit=1),
     {"eos_token_id": 0, "min_length": 5, "forced_eos_token_id": 0}, {0: 0.0}),
    ("hf", "prefix_allowed_tokens_fn", "forced_bos_token_id", T([1]),
     {"prefix_allowed_tokens_fn": lambda b, ids: [3], "forced_bos_token_id": 2}, {2: 0.0}),
    ("hf", "min_new_tokens", "prefix_allowed_tokens_fn", T([1]),
     {"eos_token_id": 0, "min_new_tokens": 3, "prefix_allowed_tokens_fn": lambda b, ids: [0]}, {0: 0.0}),
    ("hf", "prefix_allowed_tokens_fn", "prefix_tokens", T([1], prefix=[2]),
     {"prefix_allowed_tokens_fn": lambda b, ids: [3]}, {}),
    ("hf", "prefix_tokens", "forced_bos_token_id", T([1], prefix=[3]), {"forced_bos_token_id": 2}, {2: 0.0}),
    ("hf", "forced_bos_token_id", "forced_eos_token_id", T([1], limit=1),
     {"forced_bos_token_id": 2, "forced_eos_token_id": 0}, {0: 0.0}),
    ("hf", "forced_eos_token_id", "suppress_tokens", T([1], limit=1),
     {"forced_eos_token_id": (0, 3), "suppress_tokens": 0}, {3: 0.0}),
    ("hf", "forced_eos_token_id", "begin_suppress_tokens", T([1, 1], prompt=2, limit=1),
     {"forced_eos_token_id": (0, 3), "begin_suppress_tokens": 0}, {3: 0.0}),
    ("hf", "repetition_penalty", "logits_processor", T([1]),
     {"repetition_penalty": 2.0, "logits_processor": allow_one, "suppress_tokens": (2, 3, 4)}, {0: -1.0, 1: -2.0}),
    ("hf", "suppress_tokens", "logits_processor", T([4]),
     {"suppress_tokens": (1, 2, 3, 4), "logits_processor": allow_one}, {0: -1.0, 1: -2.0}),
    ("hf", "begin_suppress_tokens", "logits_processor", T([4]),
     {"begin_suppress_tokens": (1, 2, 3, 4), "logits_processor": allow_one}, {0: -1.0, 1: -2.0}),
    ("hf", "logits_processor", "temperature", T([0]),
     {"logits_processor": allow_one, "temperature": 0.5, "do_sample": True, "top_k": 2}, {0: -2.0, 1: -4.0}),
    ("hf", "logits_processor", "top_k", T([0]),
     {"logits_processor": lift_four, "do_sample": True, "top_k": 2}, {0: -1.0, 4: 4.0}),
    ("hf", "temperature", "top_p", T([0]),
     {"temperature": 4.0, "do_sample": True, "top_p": 0.5}, {0: -0.25, 1: -0.5}),
    ("hf", "temperature", "min_p", T([0]),
     {"temperature": 4.0, "do_sample": True, "min_p": 0.7}, {0: -0.25, 1: -0.5}),
    ("hf", "top_k", "top_p", T([0]), {"do_sample": True, "top_k": 2, "top_p": 0.72}, {0: -1.0}),
    ("hf", "temperature", "top_h", T([0]),
     {"temperature": 4.0, "do_sample": True, "top_h": 0.5}, {0: -0.25, 1: -0.5}),
    ("hf", "top_h", "top_k", T([0]), {"do_sample": True, "top_h": 0.8, "top_k": 2}, {0: -1.0, 1: -2.0}),
    ("hf", "min_p", "typical_p", T([0]), {"do_sample": True, "min_p": 0.3, "typical_p": 0.7}, {0: -1.0}),
    ("hf", "typical_p", "epsilon_cutoff", T([0]),
     {"do_sample": True, "typical_p": 0.6, "epsilon_cutoff": 0.05}, {0: -1.0, 1: -2.0}),
    ("hf", "epsilon_cutoff", "eta_cutoff", T([0]),
     {"do_sample": True, "epsilon_cutoff": 0.1, "eta_cutoff": 0.3}, {0: -1.0}),
    ("hf", "sequence_bias", "repetition_penalty", T([2]),
     {"sequence_bias": [[[2], 4.0]], "repetition_penalty": 2.0, "suppress_tokens": (1, 3, 4)}, {0: -1.0, 2: 0.5}),
    ("hf", "remove_invalid_values", "suppress_tokens", T([1]),
     {"remove_invalid_values": True, "suppress_tokens": (1, 2, 3, 4)}, {0: -1.0}),
    ("hf", "logits_processor", "renormalize_logits", T([0]),
     {"logits_processor": lift_all, "suppress_tokens": (1, 2, 3, 4), "renormalize_logits": True}, {0: 0.0}),
    ("hf", "top_k", "renormalize_logits", T([0]),
     {"do_sample": True, "top_k": 1, "renormalize_logits": True}, {0: 0.0}),
    ("hf", "min_p", "renormalize_logits", T([0]),
     {"do_sample": True, "min_p": 0.9, "renormalize_logits": True}, {0: 0.0}),
    ("fairseq", "no_repeat_ngram_size", "logits_processor", T([1, 4]),
     {"no_repeat_ngram_size": 1, "logits_processor": allow_one},
     {0: -1.0, 1: -2.0, 2: -3.0, 3: -4.0}),
    ("fairseq", "end_at_limit", "logits_processor", T([4], limit=1),
     {"eos_token_id": 0, "min_new_tokens": 0, "logits_processor": allow_one}, {0: -1.0, 1: -2.0}),
    ("fairseq", "logits_processor", "top_k", T([0]),
     {"logits_processor": lift_four, "do_sample": True, "top_k": 2}, {0: -1.0, 4: 4.0}),
    ("fairseq", "unk_penalty", "top_k", T([0]),
     {"unk_token_id": 0, "unk_penalty": 3.5, "do_sample": True, "top_k": 2}, {1: -2.0, 2: -3.0}),
    ("fairseq", "never_pad", "top_p", T([1]),
     {"pad_token_id": 0, "do_sample": True, "top_p": 0.6}, {1: -2.0}),
    ("fairseq", "no_repeat_ngram_size", "top_p", T([0]),
     {"no_repeat_ngram_size": 1, "do_sample": True, "top_p": 0.6}, {1: -2.0}),
]  # fmt: skip


def left_of(dialect, text, options):
    """token -> score, of what all processors leave of SCORES."""
    o = Options(**{"top_k": 0} | options, dialect=dialect)
    found = apply_processors(Ops(), np.array([SCORES], np.float32), rows_of([text], o), o)[0]
    return {v: round(float(s), 5) for v, s in enumerate(found) if s > OFF}


@pytest.mark.parametrize(
    ("dialect", "first", "later", "text", "options", "expected"), ORDER, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in ORDER]
)
def test_the_order_where_it_matters(dialect, first, later, text, options, expected, monkeypatch):
    """And that it does: with the two in each other's place, something else is left."""
    assert left_of(dialect, text, options) == pytest.approx(expected)
    places = {first: later, later: first}
    swapped = tuple(places.get(name, name) for name in processors.ORDER[dialect])
    monkeypatch.setitem(processors.ORDER, dialect, swapped)
    assert left_of(dialect, text, options) != pytest.approx(expected)


def test_both_dialects_of_transformers_run_the_same_processors():
    """But for top_h, which 4.49 has not."""
    assert [p for p in processors.ORDER["hf"] if p != "top_h"] == list(processors.ORDER["hf4"])


# ---- the user's functions --------------------------------------------------------------------------------------------


def run(engine, prompts, limit, **options):
    options = Options(**{"eos_token_id": 0} | options)
    search = greedy_search if options.num_beams == 1 else beam_search
    limits = np.full(len(prompts), limit) if np.isscalar(limit) else np.array(limit)
    return search(engine, Request.make([np.array(p) for p in prompts], limits, options), options)


METHODS = {"greedy": {}, "beam": {"num_beams": 3}, "sampling": {"do_sample": True, "num_return_sequences": 2},
           "beam sampling": {"do_sample": True, "num_beams": 3}, "siblings": {"num_beams": 3, "sibling_penalty": 0.5},
           "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}}  # fmt: skip
PROMPTS = [[1, 2], [3], [4, 4, 1]]
every_method = pytest.mark.parametrize(("dialect", "method"), [
    (d, m) for d in dialects.DIALECTS for m in METHODS
    if (m in ("greedy", "beam") or d not in ("unilm", "ctranslate2", "lightseq"))  # the others are refused
    and (d, m) != ("fairseq", "beam sampling")
])  # fmt: skip


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@pytest.mark.parametrize("method", METHODS)
def test_prefix_allowed_tokens_fn_gets_the_sentence_and_its_whole_text(method, dialect):
    """Prompt included and nothing behind it; what it does to its array is its own affair."""
    calls = []

    def odd_or_even(sentence, ids):
        """Sentence 1 keeps to odd tokens, the others to even ones."""
        assert isinstance(sentence, int) and isinstance(ids, np.ndarray)
        calls.append((sentence, ids.tolist()))
        ids[:] = 9
        return range(sentence % 2, 12, 2)

    found = run(ToyEngine(0, 12), PROMPTS, 5, dialect=dialect, prefix_allowed_tokens_fn=odd_or_even, **METHODS[method])
    for sentence, text in calls:
        prompt = PROMPTS[sentence]
        assert text[: len(prompt)] == prompt and len(text) < len(prompt) + 5
        assert all(v % 2 == sentence % 2 for v in text[len(prompt) :])
    rows = {"greedy": 1, "sampling": 2, "groups": 4}.get(method, 3)
    first = [call for call in calls if len(call[1]) == len(PROMPTS[call[0]])]
    assert sorted(first[: 3 * rows]) == sorted([(b, p) for b, p in enumerate(PROMPTS)] * rows)
    for sentence, texts in enumerate(found.tokens):
        for text in texts:
            assert len(text) and all(v % 2 == sentence % 2 for v in text.tolist())


@every_method
def test_logits_processor_gets_scores_and_rows(method, dialect):
    """Functions run in their order, each on what the one before returned, with the texts of the scores' rows."""
    engine, seen = ToyEngine(0, 12), []

    def first(scores_RV, rows):
        for r, b in enumerate(rows.sentence_R):
            prompt = PROMPTS[b]
            assert rows.prompt_R[r] == len(prompt) and rows.text(r)[: len(prompt)].tolist() == prompt
            assert rows.new_R[r] == rows.length_R[r] - len(prompt) < rows.limit_R[r] == 5
            assert rows.last_R[r] == (rows.new_R[r] == 4) and rows.sources[b].tolist() == prompt
        seen.append(scores_RV.copy())
        return scores_RV - 1.0  # an array of its own

    def second(scores_RV, rows):
        assert np.allclose(scores_RV, seen[-1] - 1.0)
        scores_RV[:, 7] = -np.inf
        return scores_RV

    found = run(engine, PROMPTS, 5, dialect=dialect, logits_processor=(first, second), **METHODS[method])
    assert len(seen) == found.steps * (2 if method == "groups" and dialect != "fairseq" else 1)
    assert all(7 not in text for texts in found.tokens for text in texts)
    is_logits = dialect == "ctranslate2" or (method in ("greedy", "sampling") and dialect != "fairseq")
    expected = engine.scores(PROMPTS[0]).astype(np.float64)
    if not is_logits:
        expected -= np.log(np.exp(expected).sum())
    possible = np.isfinite(seen[0][0])  # fairseq rules EOS out of the first token
    np.testing.assert_allclose(seen[0][0][possible], expected[possible], rtol=1e-5)


def test_one_function_needs_no_list():
    greedily = run(ToyEngine(1, 9), [[1]], 4, logits_processor=lambda s, rows: np.where(np.arange(9) == 5, 0.0, s - 99))
    assert greedily.tokens[0][0].tolist() == [5, 5, 5, 5]


def test_a_source_is_what_the_encoder_read_and_a_prompt_where_there_is_none(tiny_folder):
    """Through generate: a decoder-only model's sources are its prompts."""
    model, seen = md.load(tiny_folder()), []
    model.generate(input_ids=[[5, 6], [7]], max_new_tokens=1,
                   logits_processor=lambda s, rows: seen.append([x.tolist() for x in rows.sources]) or s)  # fmt: skip
    assert seen == [[[5, 6], [7]]]
    kept = model.generate(input_ids=[[5, 6], [7]], max_new_tokens=3, encoder_repetition_penalty=1e6).token_ids
    assert set(kept[0].tolist()) <= {5, 6} and kept[1].tolist() == [7, 7, 7]


@pytest.mark.parametrize("W", [1, 2])
@pytest.mark.parametrize("tokens", [[], [9], [99], [-1], [3, -1]])
def test_tokens_allowed_that_are_none_are_refused(tokens, W):
    """Not an IndexError for those beyond the vocabulary, nor the last token for -1."""
    with pytest.raises(md.OptionError, match="prefix_allowed_tokens_fn"):
        run(ToyEngine(0, 9), [[1]], 4, num_beams=W, prefix_allowed_tokens_fn=lambda b, ids: tokens)


@pytest.mark.parametrize("W", [1, 2])
@pytest.mark.parametrize("change", [
    lambda s: s * np.nan, lambda s: np.where(np.arange(9) == 4, np.nan, s), lambda s: None, lambda s: s[:, :5],
    lambda s: s[0, 0], lambda s: s + np.inf, lambda s: 1 / 0,
])  # fmt: skip
def test_what_is_no_score_is_no_choice(change, W):
    """NaN, scores of fewer tokens, or nothing at all, from a user's function."""
    with pytest.raises(md.OptionError, match=r"logits_processor(, called as|.* must return scores)"):
        run(ToyEngine(0, 9), [[1]], 4, num_beams=W, logits_processor=lambda scores_RV, rows: change(scores_RV))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_text_that_is_done_is_no_fault_of_a_users_function(bad):
    """Its row goes on beside the others, and whatever the model says of it does no harm."""

    class Broken(ToyEngine):
        drop_finished = False

        def step(self, tokens_RM, length_R, parent_R):
            logits_RV = super().step(tokens_RM, length_R, parent_R)
            logits_RV[0, 0] = bad
            return logits_RV

    seen = []
    found = run(
        Broken(0, 9), [[1], [2]], 4, logits_processor=lambda scores_RV, rows: (seen.append(scores_RV), scores_RV)[1],
        prefix_allowed_tokens_fn=lambda b, ids: [0] if b == 0 else [3],
    )  # fmt: skip
    assert any(not (scores_RV[0] < np.inf).all() for scores_RV in seen)
    assert [texts[0].tolist() for texts in found.tokens] == [[0], [3, 3, 3, 3]]


@pytest.mark.parametrize("W", [1, 2])
def test_what_is_allowed_against_all_other_rules_is_certain(W):
    """So it adds 0 to the score, in a row as in a beam."""
    found = run(ToyEngine(0, 9), [[1]], 2, num_beams=W, bad_words_ids=[[3]], eos_token_id=None,
                prefix_allowed_tokens_fn=lambda b, ids: [3] if len(ids) == 1 else [5])  # fmt: skip
    assert found.tokens[0][0].tolist() == [3, 5]
    exact = log_probability(ToyEngine(0, 9), [1, 3], [5]) / 2
    assert found.scores_BX[0, 0] == pytest.approx(exact, rel=1e-6)


# ---- where nothing is left -------------------------------------------------------------------------------------------


@every_method
def test_a_sentence_without_any_token_left_says_so(dialect, method):
    """The second of three, after 11 new tokens: there are 14, two of them in its prompt, and it may not end yet.

    In ctranslate2, which does not ban what a prompt has, all three after 13.
    """
    options = {"min_new_tokens": 14, "no_repeat_ngram_size": 1, **METHODS[method]}
    who = "sentence 1 at step 14" if dialect == "ctranslate2" else "sentence 2 at step 12"
    with pytest.raises(md.OptionError, match=f"no token is left for {who}"):
        run(ToyEngine(0, 14), [[3], [3, 4], [3]], 15, dialect=dialect, **options)


@pytest.mark.parametrize("W", [1, 2])
@pytest.mark.filterwarnings("error")
def test_nothing_left_is_no_token_0_after_renormalization(W):
    """Minus infinity everywhere becomes NaN, whose largest is the first."""
    with pytest.raises(md.OptionError, match="no token is left"):
        run(ToyEngine(0, 4), [[1]], 8, num_beams=W, no_repeat_ngram_size=1, eos_token_id=None, renormalize_logits=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [
    {}, {"renormalize_logits": True}, {"do_sample": True, "top_k": 5},
    {"do_sample": True, "top_p": 0.95},
    {"do_sample": True, "min_p": 0.01},
], ids=str)  # fmt: skip
def test_a_beam_that_may_not_go_on_leaves_its_place_to_the_others(options):
    """A text that begins with 2 may not go on, so that none is returned."""

    def not_behind_2(scores_RV, rows):
        scores_RV[[rows.text(r).tolist() == [1, 2] for r in range(len(scores_RV))]] = -np.inf
        return scores_RV

    begin_with_2 = 0
    for seed in range(12):
        free = run(ToyEngine(seed, 6), [[1]], 5, num_beams=2, num_return_sequences=2, **options)
        begin_with_2 += any(text[0] == 2 for text in free.tokens[0])
        found = run(ToyEngine(seed, 6), [[1]], 5, num_beams=2, num_return_sequences=2,
                    logits_processor=not_behind_2, **options)  # fmt: skip
        texts = [text.tolist() for text in found.tokens[0] if len(text)]
        assert texts and all(text[0] != 2 for text in texts)
    assert begin_with_2 > 1


# ---- notes for a trace -----------------------------------------------------------------------------------------------


def test_notes_say_what_each_processor_changed():
    o = Options(no_repeat_ngram_size=1, suppress_tokens=4, temperature=2.0, do_sample=True, top_k=3)
    texts, scores = [Text([1, 2]), Text([3, 4])], np.array([SCORES, SCORES], np.float32)
    notes = {}
    noted = apply_processors(Ops(), scores.copy(), rows_of(texts, o), o, notes)
    assert (noted == apply_processors(Ops(), scores.copy(), rows_of(texts, o), o)).all()
    assert {name: pairs.tolist() for name, pairs in notes.items()} == {
        "no_repeat_ngram_size": [[0, 1], [0, 2], [1, 3], [1, 4]], "suppress_tokens": [[0, 4]],
        "temperature": [[0, 0], [0, 3], [1, 0], [1, 1], [1, 2]],
    }  # fmt: skip


@pytest.mark.parametrize("W", [1, 2])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.filterwarnings("error")
def test_scores_that_are_none_are_told_of_without_a_warning(W, bad):
    """Whether the token that has them is allowed or not."""

    class Broken(ToyEngine):
        def scores(self, text):
            return np.where(np.arange(self.vocab) == 4, bad, super().scores(text)).astype(np.float32)

    for allowed in ([4, 5], [5, 6]):
        with pytest.raises(md.NumericalError, match="NaN at step 1, sentence 1"):
            run(Broken(0, 9), [[1]], 3, num_beams=W, prefix_allowed_tokens_fn=lambda b, ids, a=allowed: a)


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}, {"do_sample": True, "typical_p": 0.9}], ids=str)
@pytest.mark.parametrize("least", [0, 30, 170])
def test_an_end_that_gains_beyond_all_numbers_comes(search, least):
    """100 ** 160 is no float, and 100 ** 30 none of 32 bits: EOS is certain, and a beam's score is a number."""
    model = md.load("tiny-gpt2", plan="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        out = model.generate("A", exponential_decay_length_penalty=(1, 100.0), min_new_tokens=least,
                             max_new_tokens=180, no_repeat_ngram_size=0, **search)  # fmt: skip
    assert (
        out.finish_reasons == ["stop"] and len(out.token_ids[0]) <= max(least, 3) + 1 and np.isfinite(out.scores).all()
    )
