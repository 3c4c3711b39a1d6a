"""A live model of transformers gives the same tokens before and after `md.accelerate`: families, options, edges."""

import copy
import functools
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import tolerance
from tolerance import FLOAT32, score_bound, widths

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

import minidecode as md  # noqa: E402
from minidecode.live.accelerate import Accelerated  # noqa: E402
from minidecode.live.proof import _difference  # noqa: E402
from minidecode.runtime.rounding import logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

GOLDEN = Path(__file__).parents[1] / "golden"
DECODERS = ("gpt2", "gpt_bigcode", "llama")
ENCODER_DECODERS = ("bart", "marian", "mbart", "t5", "prophetnet")
CASES = int(os.environ.get("ACCELERATE_CASES", "6"))  # of each family
PAD = 3
COUNTS_ON = "_prepare_position_ids_for_generation"  # what a model has if its new tokens' positions follow those given
TOKENS = ("bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


def live_model(family: str, draw: random.Random, vary=None):
    """A model of one of the golden folders' shapes, in float64, whose weights are drawn anew.

    vary: changes the sizes in its config first; then its norms are drawn anew, too.
    """
    folders = sorted(p.parent for p in (GOLDEN / family).glob("*/config.json"))
    kind = transformers.AutoModelForCausalLM if family in DECODERS else transformers.AutoModelForSeq2SeqLM
    folder = draw.choice(folders)
    if vary is None:
        live = kind.from_pretrained(folder, dtype=torch.float64).eval()
    else:
        config = transformers.AutoConfig.from_pretrained(folder)
        vary(config, draw)
        live = kind.from_config(config, dtype=torch.float64).eval()
    torch.manual_seed(draw.randrange(10**6))
    for name, p in live.named_parameters():
        if not any(part in name for part in ("norm", "ln", "embed_positions")):  # Marian's positions are no weights
            torch.nn.init.normal_(p, std=0.3)
        elif vary is not None and "embed_positions" not in name:
            torch.nn.init.normal_(p, 1.0 if name.endswith("weight") else 0.0, std=0.2)
    live.tie_weights()  # transformers 5.0 has two parameters where later ones have one
    tokens = {name: getattr(live.generation_config, name) for name in TOKENS}  # other settings might meet drawn ones
    # Without its cache, transformers' ProphetNet gives other scores.
    live.generation_config = transformers.GenerationConfig(**tokens | {"pad_token_id": PAD, "use_cache": True})
    return live


def options_of(draw: random.Random) -> dict:
    """Greedy or beams, with some of the options that change tokens."""
    W = draw.choice([1, 1, 2, 3, 5])
    options = {"num_beams": W, "max_new_tokens": draw.randint(1, 10)}
    if W > 1:
        # Two new tokens may be forced ones, so that the other beams are out of play. transformers finds these equal,
        # since it scores in float32; a float64 model here does not.
        options["num_return_sequences"] = draw.randint(1, W) if options["max_new_tokens"] > 2 else 1
        options |= draw.choice([{}, {"length_penalty": 2.0}, {"length_penalty": 0.3, "early_stopping": True}])
    for name, values in [
        ("no_repeat_ngram_size", [0, 2, 3]),
        ("min_new_tokens", [None, 3]),
        ("eos_token_id", [5, [5, 7]]),
    ]:
        if (value := draw.choice(values)) is not None:
            options[name] = value
    return options


def same_output(live, before, after, length_penalty: float) -> None:
    """Sequences to the token, scores and logits of each step up to rounding, and -inf at the same tokens.

    A row whose text is done is 0 here; transformers goes on with it, and scores in float32. A log-probability moves by
    twice what logits do, on both sides.
    """
    assert type(before) is type(after) and before.sequences.tolist() == after.sequences.tolist()
    assert after.sequences.dtype == torch.int64
    beams = getattr(before, "beam_indices", None), getattr(after, "beam_indices", None)
    assert beams == (None, None) or beams[0].tolist() == beams[1].tolist()
    own, T = live.generate.convert(), len(before.scores)
    largest = float(torch.stack(before.logits).abs().max())
    bound = logit_bound(own, largest, max(widths(own.config)))
    for kind in ("scores", "logits"):
        theirs, ours = (torch.stack(getattr(side, kind)) for side in (before, after))
        assert theirs.shape == ours.shape and theirs.dtype == ours.dtype
        going = (ours != 0).any(dim=-1)
        assert going[0].all() and torch.allclose(theirs[going], ours[going], rtol=0, atol=4 * bound)
    by_token = [
        live.compute_transition_scores(side.sequences, side.scores, indices)
        for side, indices in zip((before, after), beams, strict=True)
    ]
    told = by_token[1] != 0
    assert told[:, 0].any() or (by_token[0][:, 0] == 0).all()  # as after a forced token
    assert torch.allclose(by_token[0][told], by_token[1][told], rtol=0, atol=4 * bound)
    if beams[0] is not None:
        score = float(before.sequences_scores.abs().max())
        allowed = max(2 * score_bound(bound, t, length_penalty, score, FLOAT32) for t in range(1, T + 1))
        assert torch.allclose(before.sequences_scores, after.sequences_scores, rtol=0, atol=allowed)


@pytest.mark.parametrize("family", [*DECODERS, *ENCODER_DECODERS])
def test_tokens_are_those_of_transformers(family):
    draw = random.Random(family)
    for _ in range(CASES):
        live, options = live_model(family, draw), options_of(draw)
        length, B = draw.randint(3, 9), draw.randint(1, 3)
        ids = torch.tensor([[draw.randrange(8, live.config.vocab_size) for _ in range(length)] for _ in range(B)])
        mask = torch.ones_like(ids)
        if family in DECODERS:
            mask[0, : draw.randrange(length)] = 0
            options["pad_token_id"] = 5  # an EOS: transformers counts other padding as text
        else:
            mask[0, length - draw.randrange(length) :] = 0
        ids[mask == 0] = options.get("pad_token_id", PAD)
        given = {"input_ids": ids, "attention_mask": mask} | options
        if family == "prophetnet":  # transformers' masks make NaN of its float64
            given = {"input_ids": ids.clamp(min=8)} | options
        given |= {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
        before, after = live.generate(**given), md.accelerate(live).generate(**given)
        same_output(live, before, after, options.get("length_penalty", 1.0))


@pytest.fixture
def gpt2():
    return live_model("gpt2", random.Random(1))


@pytest.fixture
def ids():
    return torch.tensor([[9, 10, 11, 12], [10, 9, 12, 13]])


def test_the_old_forward_pass_is_not_called(gpt2, ids, monkeypatch):
    expected = gpt2.generate(ids, max_new_tokens=5)
    md.accelerate(gpt2)
    monkeypatch.setattr(type(gpt2), "forward", lambda *_, **__: pytest.fail("transformers' forward pass ran"))
    assert gpt2.generate(ids, max_new_tokens=5).tolist() == expected.tolist()
    assert gpt2.generate.receipt.new_tokens == 10
    assert "generate" not in vars(md.restore(gpt2)) and type(gpt2).generate is transformers.GenerationMixin.generate


@pytest.mark.parametrize("by_data", [False, True])  # `.data` has a counter of its own
def test_changed_weights_count_at_the_next_call(gpt2, ids, by_data):
    before = md.accelerate(gpt2).generate(ids).tolist()
    weight = gpt2.transformer.h[0].mlp.c_fc.weight
    with torch.no_grad():
        (weight.data if by_data else weight).mul_(-1)
    changed = gpt2.generate(ids).tolist()
    assert changed == md.restore(gpt2).generate(ids).tolist() != before


def test_copies_and_pickles_have_their_own_weights(gpt2, ids):
    expected = md.accelerate(gpt2).generate(ids).tolist()
    for other in (copy.deepcopy(gpt2), pickle.loads(pickle.dumps(gpt2))):
        assert other.generate.live is other and other.generate(ids).tolist() == expected
        with torch.no_grad():
            other.transformer.wte.weight.mul_(-1)
        assert other.generate(ids).tolist() != expected
    assert gpt2.generate(ids).tolist() == expected


def test_a_shallow_copy_generates_by_its_own_settings(gpt2, ids):
    """With the first model's weights, as copy.copy has it, and also where it is copied again."""
    first = md.accelerate(gpt2).generate(ids, max_new_tokens=4).tolist()
    other = copy.copy(copy.copy(gpt2))
    other.generation_config = copy.deepcopy(gpt2.generation_config)
    other.generation_config.suppress_tokens = [first[0][4]]
    ours = other.generate(ids, max_new_tokens=4).tolist()
    assert other.generate.live is other and gpt2.generate(ids, max_new_tokens=4).tolist() == first != ours
    assert md.restore(other).generate(ids, max_new_tokens=4).tolist() == ours
    assert "generate" in vars(gpt2) and "generate" not in vars(other)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_restore_puts_back_what_was_there(gpt2, times):
    """A user's own `generate` on the object, too; of copies, that which copy and pickle make of it."""
    gpt2.generate = functools.partial(generate_of_a_user, gpt2)
    before = dict(vars(gpt2))
    for _ in range(times):
        md.accelerate(gpt2)
    copies = copy.copy(gpt2), copy.deepcopy(gpt2), pickle.loads(pickle.dumps(gpt2))
    assert all(isinstance(each.generate, Accelerated) == bool(times) for each in (gpt2, *copies))
    assert vars(md.restore(gpt2)) == before
    of_whom = [md.restore(each).generate()[1] for each in copies]
    assert of_whom[0] is gpt2 and of_whom[1] is copies[1] and of_whom[2] is copies[2]


def generate_of_a_user(model):
    return "mine", model


def test_a_users_wrapper_of_generate_stays(gpt2, ids):
    md.accelerate(gpt2)
    gpt2.generate = wrapper = functools.partial(gpt2.generate, max_new_tokens=3)
    assert md.restore(gpt2).generate is wrapper and wrapper(ids).shape == (2, 7)


def test_a_calls_own_tokenizer_counts_for_that_call(gpt2, ids):
    """Of three that read another token as the stop string, one of which `accelerate` has; without any is an error."""

    def tokenizer(stop):
        words = {f"a{i}": i for i in range(1, gpt2.config.vocab_size) if i != stop}
        words |= {"x": stop, "abcdef": 0}  # transformers joins abcdef to each word
        inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="abcdef"))
        inner.decoder = tokenizers.decoders.Fuse()
        return transformers.PreTrainedTokenizerFast(tokenizer_object=inner)

    given = {"max_new_tokens": 12, "repetition_penalty": 9.0, "suppress_tokens": [0]}
    written = gpt2.generate(ids[:1], **given)[0, 4:].tolist()
    given["stop_strings"] = "x"
    readers = [tokenizer(stop) for stop in list(dict.fromkeys(written))[:3]]
    expected = [gpt2.generate(ids[:1], tokenizer=each, **given).tolist() for each in readers]
    assert len({len(text[0]) for text in expected}) == 3
    md.accelerate(gpt2)
    for i in (0, 1, 1, 2, 0):
        assert gpt2.generate(ids[:1], tokenizer=readers[i], **given).tolist() == expected[i]
    with pytest.raises(md.InputError, match="pass it as tokenizer="):
        gpt2.generate(ids[:1], **given)
    md.accelerate(gpt2, readers[1])
    for i in (2, 1):
        assert gpt2.generate(ids[:1], tokenizer=readers[i], **given).tolist() == expected[i]
    assert gpt2.generate(ids[:1], **given).tolist() == expected[1]


def test_float32_weights_are_shared_where_they_can_be():
    live = live_model("gpt2", random.Random(2)).float()
    side = Accelerated(live, plan="numpy")
    side.convert()
    assert side.copied < 0.2 * sum(4 * p.numel() for p in live.parameters())


def test_functions_of_torch_are_called(gpt2, ids):
    """As transformers calls them: tensors in, tensors out."""

    class Never9(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            assert input_ids.shape[0] == len(scores)
            scores[:, 9] = -float("inf")
            return scores

    class AfterSix(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return torch.full((len(input_ids),), input_ids.shape[1] >= 6)

    given = {"logits_processor": [Never9()], "stopping_criteria": [AfterSix()],
             "prefix_allowed_tokens_fn": lambda b, ids: list(range(8, 20)), "max_new_tokens": 9}  # fmt: skip
    before = gpt2.generate(ids, **given)
    assert before.tolist() == md.accelerate(gpt2).generate(ids, **given).tolist() and before.shape[1] == 6


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}, {"do_sample": True, "top_k": 1, "num_return_sequences": 2}])
def test_functions_of_torch_know_texts_by_their_rows(gpt2, search):
    """Rows stay where they are, padded on both sides, though prompts have different lengths and texts end in turn."""
    ids = torch.tensor([[9, 10, 11, 12], [PAD, PAD, 12, 13], [PAD, 10, 12, 9]])
    seen = []

    class Seen(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            seen[-1].append(input_ids.tolist())
            return scores

    class ByRow(transformers.StoppingCriteria):
        """Ends the texts of each prompt at a length of their own."""

        def __call__(self, input_ids, scores, **kwargs):
            if not search.get("num_beams"):  # of beams, transformers hands over candidates in its own order
                seen[-1].append(input_ids.tolist())
            ends_B = torch.tensor([5, 9, 7]) <= input_ids.shape[1]
            return ends_B.repeat_interleave(len(input_ids) // 3)

    given = {"attention_mask": (ids != PAD).long(), "max_new_tokens": 9, "pad_token_id": PAD, "eos_token_id": 36}
    outputs = []
    for _ in range(2):
        seen.append([])
        functions = {"logits_processor": [Seen()], "stopping_criteria": [ByRow()]}
        outputs.append(gpt2.generate(ids, **given, **functions, **search).tolist())
        md.accelerate(gpt2)
    if search.get("num_beams"):  # what the beams of an answer that is over hold is either side's own
        seen = [[rows[2:4] for rows in of_side] for of_side in seen]
    assert outputs[0] == outputs[1] and seen[0] == seen[1]
    each = len(outputs[0]) // 3
    assert [[PAD in row[4:] for row in outputs[0][::each]], len(outputs[0][0])] == [[True, False, True], 9]


def test_without_an_eos_texts_end_together(gpt2, ids):
    """Transformers writes on in a text whose criterion was met, though by another of them, until all are met."""

    class From(transformers.StoppingCriteria):
        def __init__(self, *lengths):
            self.lengths = torch.tensor(lengths)

        def __call__(self, input_ids, scores, **kwargs):
            return self.lengths == input_ids.shape[1]

    given = {"stopping_criteria": [From(6, 99), From(99, 9)], "max_new_tokens": 9, "pad_token_id": PAD}
    gpt2.generation_config.eos_token_id = None
    before = gpt2.generate(ids, **given)
    assert before.tolist() == md.accelerate(gpt2).generate(ids, **given).tolist() and before.shape[1] == 9
    assert PAD not in before[0, 6:]
    with pytest.raises(md.InputError, match="one prompt at a time"):
        gpt2.generate(ids, stop_strings="a")


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize(
    "given",
    [
        {"eos_token_id": -1}, {"eos_token_id": [-1, 5], "pad_token_id": PAD}, {"eos_token_id": -1, "pad_token_id": -1},
        {"logits_to_keep": 0},
        {"position_ids": torch.tensor([[0, 0, 1, 2], [0, 1, 2, 3]])},
    ],
)  # fmt: skip
def test_arguments_that_change_nothing_are_taken(gpt2, ids, given, num_beams):
    if "position_ids" in given and not hasattr(gpt2, COUNTS_ON):
        pytest.skip("transformers before 5.2")
    given = {"attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]), "num_beams": num_beams} | given
    before = gpt2.generate(ids, max_new_tokens=6, **given).tolist()
    assert before == md.accelerate(gpt2).generate(ids, max_new_tokens=6, **given).tolist()


def test_positions_that_transformers_does_not_count_on_from_are_refused(gpt2, ids, monkeypatch):
    """Before 5.2, every new token but the first has the last position of those that were given."""
    positions = {"position_ids": torch.arange(4).expand(2, 4)}
    if not hasattr(gpt2, COUNTS_ON):
        assert gpt2.generate(ids, **positions).tolist() != gpt2.generate(ids).tolist()
    monkeypatch.delattr(transformers.GenerationMixin, COUNTS_ON, raising=False)
    with pytest.raises(md.OptionError, match=r"transformers before 5\.2 does not count on"):
        md.accelerate(gpt2).generate(ids, **positions)


@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_norm_whose_epsilon_is_1(num_beams):
    """As transformers' own tests have it, so that noise does not count."""
    config = transformers.AutoConfig.from_pretrained(next((GOLDEN / "llama").glob("*/config.json")).parent)
    config.rms_norm_eps = 1.0
    live = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64).eval()
    given = {"input_ids": torch.tensor([[9, 10, 11]]), "max_new_tokens": 6, "num_beams": num_beams}
    assert live.generate(**given).tolist() == md.accelerate(live).generate(**given).tolist()


def test_a_decoder_alone_is_refused():
    config = transformers.AutoConfig.from_pretrained(next((GOLDEN / "bart").glob("*/config.json")).parent)
    with pytest.raises(md.CheckpointError, match="BartForCausalLM: it is a decoder alone"):
        md.accelerate(transformers.BartForCausalLM(config).eval())


def test_a_streamer_gets_the_same(gpt2, ids):
    class Kept(list):
        def put(self, value):
            self.extend(np.asarray(value).reshape(-1).tolist())

        def end(self):
            self.append("end")

    before, after = Kept(), Kept()
    gpt2.generate(ids[:1], streamer=before, max_new_tokens=4)
    md.accelerate(gpt2).generate(ids[:1], streamer=after, max_new_tokens=4)
    assert before == after and before[-1] == "end"


def test_outputs_have_transformers_kinds(gpt2, ids):
    """With the fields that were asked for, and no others."""
    for options in ({}, {"num_beams": 2}, {"num_beams": 2, "output_scores": True}, {"output_logits": True}):
        before = gpt2.generate(ids, return_dict_in_generate=True, **options)
        after = md.accelerate(gpt2).generate(ids, return_dict_in_generate=True, **options)
        md.restore(gpt2)
        assert type(before) is type(after) and before.sequences.tolist() == after.sequences.tolist()
        assert set(before) - {"past_key_values", "cache"} == set(after)
    padded = {"pad_token_id": 0, "eos_token_id": 12, "max_new_tokens": 12, "num_beams": 2}
    before, after = gpt2.generate(ids, **padded), md.accelerate(gpt2).generate(ids, **padded)
    assert before.tolist() == after.tolist()


def test_a_least_length_beyond_the_limit_is_the_limit(gpt2, ids):
    given = {"max_new_tokens": 3, "min_new_tokens": 7, "eos_token_id": [*range(0, 37, 2)]}
    assert gpt2.generate(ids, **given).tolist() == md.accelerate(gpt2).generate(ids, **given).tolist()


def test_draws_follow_torch_seeds(gpt2, ids):
    md.accelerate(gpt2)
    texts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        texts.append(gpt2.generate(ids, do_sample=True, max_new_tokens=8).tolist())
    assert texts[0] == texts[1] != texts[2]


class Mine(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.c_fc, self.c_proj, self.act = inner.c_fc, inner.c_proj, inner.act
        self.eval()

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.train(), "training mode"),
        (lambda m: m.transformer.h[0].train(), "training mode"),
        (lambda m: setattr(m.transformer.h[0].mlp, "forward", lambda x: x), "h.0.mlp is replaced"),
        (lambda m: setattr(m.transformer.h[1], "mlp", Mine(m.transformer.h[1].mlp)), "no class of transformers"),
        (lambda m: setattr(m.transformer.h[0].mlp, "act", torch.nn.ReLU().eval()), "a module was changed"),
        (lambda m: setattr(m.transformer.h[0].ln_1, "eps", 1.0), "a module was changed"),
        (lambda m: setattr(m.transformer.h[0].attn, "scaling", 0.01), "a module was changed"),
        (lambda m: m.bfloat16(), "computes in its 16 bits"),
        (lambda m: m.transformer.h[0].register_forward_hook(lambda *_: None), "forward hook"),
        (lambda m: setattr(m, "forward", m.forward), "replaced"),
        (lambda m: setattr(m.config, "model_type", "opt"), "offset of 2"),
    ],
)
def test_what_cannot_be_the_same_is_refused(gpt2, change, says):
    change(gpt2)
    with pytest.raises(md.CheckpointError, match=says):
        md.accelerate(gpt2)
    assert "generate" not in vars(gpt2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"assistant_model": 1}, "speculative"), ({"prompt_lookup_num_tokens": 3}, "speculative"),
        ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}, "dialect hf4"),
        ({"output_attentions": True}, "not kept"),
        ({"unheard_of": 1}, "not known"), ({"inputs_embeds": torch.zeros(1, 1, 1)}, "token ids"),
        ({"attention_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])}, "padded on the left"),
        ({"attention_mask": torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])}, "keeps no token of row 1"),
        ({"position_ids": torch.arange(1, 5).expand(2, 4)}, "positions count"),
        ({"position_ids": torch.arange(3)}, "positions count"),
        ({"attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]), "repetition_penalty": 1.3}, "counts padding"),
        *[
            ({"attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])} | given, "counts padding")
            for given in (
                {"no_repeat_ngram_size": 2}, {"encoder_repetition_penalty": 1.7}, {"forced_bos_token_id": 9},
                {"bad_words_ids": [[3, 9]]}, {"prefix_allowed_tokens_fn": lambda b, ids: [9, 10]},
            )
        ],
    ],
)  # fmt: skip
def test_arguments_that_are_not_here_are_refused(gpt2, ids, given, says):
    with pytest.raises(md.MinidecodeError, match=says):
        md.accelerate(gpt2).generate(ids, **given)


@pytest.mark.parametrize("mask", [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1]])
def test_a_source_is_padded_on_its_right(mask):
    """transformers counts its positions from the row's begin, so that padding elsewhere would move its tokens."""
    live = live_model("bart", random.Random(1))
    given = {"input_ids": torch.tensor([[9, 10, 11, 12]]), "max_new_tokens": 3}
    with pytest.raises(md.InputError, match="sources are padded on the right: set tokenizer"):
        md.accelerate(live).generate(**given, attention_mask=torch.tensor([mask]))
    assert live.generate(**given, attention_mask=torch.tensor([sorted(mask, reverse=True)])).shape == (1, 4)


@pytest.mark.parametrize("given", [{"encoder_no_repeat_ngram_size": 2}, {"encoder_repetition_penalty": 9.0}])
def test_options_that_read_padded_sources_are_refused(given):
    """transformers takes the padding for tokens of the source: the second text here is another than without it."""
    live = live_model("bart", random.Random(1))
    ids, other = [9, 10, 11], torch.tensor([[9, 10, 11, PAD], [9, 10, 11, 12]])
    given = given | {"max_new_tokens": 8, "sequence_bias": [[[11], 90.0], [[11, PAD], 200.0]]}
    alone = live.generate(torch.tensor([ids]), **given)[0].tolist()
    padded = live.generate(other, attention_mask=(other != PAD).long(), **given)[0].tolist()
    assert padded[: len(alone)] != alone
    assert md.accelerate(live).generate(torch.tensor([ids]), **given)[0].tolist() == alone
    with pytest.raises(md.InputError, match="counts padding as text for encoder_"):
        live.generate(other, attention_mask=(other != PAD).long(), **given)


def test_a_proof_says_what_was_compared_and_where_two_sides_part(gpt2, ids, monkeypatch):
    assert Accelerated(gpt2).prove(ids, max_new_tokens=5) == "2 inputs, 10 new tokens: the same on both sides"
    assert md.accelerate(gpt2, prove=ids) is gpt2 and "generate" in vars(gpt2)
    md.restore(gpt2)
    right = Accelerated._options_of_settings
    wrong = lambda self, settings, N: right(self, settings, N) | {"suppress_tokens": [*range(8, 14)]}  # noqa: E731
    monkeypatch.setattr(Accelerated, "_options_of_settings", wrong)
    gpt2.generation_config.suppress_tokens = list(range(14, 40))  # so that theirs is one of 8 to 13
    with pytest.raises(md.RefusedError, match=r"new token 0: .* rounding does not explain it; the model is as it was"):
        md.accelerate(gpt2, prove=ids)
    assert "generate" not in vars(gpt2)


def test_the_bound_of_a_tie_is_that_of_the_golden_tests():
    """Which is known to be narrow: the same formula, from weights here and from each family's config there."""
    for family in (*DECODERS, *ENCODER_DECODERS):
        own = Accelerated(live_model(family, random.Random(3)), plan="numpy").convert()
        expected = tolerance.logit_bound(own.config, 3.0, FLOAT32)
        assert logit_bound(own, 3.0, max(widths(own.config))) == pytest.approx(expected), family


def test_a_tie_is_told_from_a_difference(gpt2, ids):
    """Two tokens whose scores are as near as rounding makes them, and one that is not."""
    side, given = Accelerated(gpt2, plan="numpy"), {"input_ids": ids[:1]}
    with torch.no_grad():
        best, other, *_ = gpt2(ids[:1]).logits[0, -1].topk(2).indices.tolist()
        gpt2.config.tie_word_embeddings = False
        gpt2.lm_head.weight = torch.nn.Parameter(gpt2.lm_head.weight.clone())
    settings = {"num_beams": 1, "length_penalty": 1.0, "decoder_start_token_id": None}
    for shift, says in ((1 + 1e-7, "a tie"), (1 + 1e-4, "does not explain")):
        with torch.no_grad():
            gpt2.lm_head.weight[other] = shift * gpt2.lm_head.weight[best]
        new = np.array([best]), np.array([other])
        assert says in _difference(side.convert(), given, 0, new, 1, settings), shift


def test_prove_compares_files_and_says_where_they_part(monkeypatch, capsys):
    from minidecode.commands import cli, prove

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["minidecode", "prove", "--max-new-tokens", "4", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capsys.readouterr().out

    code, out = run("Fellow citizens,")
    assert not code and out.count("4 new tokens: the same on both sides") == 2
    monkeypatch.setattr(prove, "SEARCHES", ({"num_beams": 1},))
    first = int(md.load("tiny-gpt2").generate("Fellow citizens,", max_new_tokens=1).token_ids[0][0])
    right = Accelerated._options_of_settings
    monkeypatch.setattr(Accelerated, "_options_of_settings", lambda *a: right(*a) | {"suppress_tokens": [first]})
    code, out = run("Fellow citizens,", "--json")
    assert code == 1 and "rounding does not explain it" in out


def test_padded_sources_need_a_mask():
    """transformers 5.0 infers one from the padding token, and 5.24 reads the padding as text."""
    live = live_model("bart", random.Random(1))
    ids = torch.tensor([[9, 10, PAD, PAD], [9, 10, 11, 12]])
    with pytest.raises(md.InputError, match="padding token 3 and no attention_mask"):
        md.accelerate(live).generate(ids, max_new_tokens=3)
    assert live.generate(ids, max_new_tokens=3, attention_mask=(ids != PAD).long()).shape[0] == 2


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart"])
def test_lengths_beyond_the_context_are_refused(family):
    """Only transformers' own default ends at the context; up to it, tokens are the same."""
    live = live_model(family, random.Random(1))
    context, before = live.config.max_position_embeddings, 1 if family == "bart" else 4
    ids = torch.tensor([[9, 10, 11, 12]])
    given = {"eos_token_id": None, "forced_eos_token_id": None}
    fits = context + 1 - before
    expected = live.generate(ids, max_new_tokens=fits, **given).tolist()
    md.accelerate(live)
    assert live.generate(ids, max_new_tokens=fits, **given).tolist() == expected and len(expected[0]) == context + 1
    for length in ({"max_new_tokens": fits + 1}, {"max_length": context + 2}):
        with pytest.raises(md.InputError, match=f"context of {context}: ask for at most {fits}"):
            live.generate(ids, **length, **given)
    with pytest.raises(md.InputError, match=f"{context + 2} tokens"):
        live.generate(torch.full((1, context + 2), 9), max_new_tokens=1, **given)


@pytest.mark.parametrize(
    ("family", "given", "says"),
    [
        ("gpt2", {"token_type_ids": torch.zeros(1, 4, dtype=torch.int64)}, "return_token_type_ids=False"),
        ("llama", {"guidance_scale": 1.5, "num_beams": 2}, "does not follow beams"),
        ("prophetnet", {"use_cache": False}, "other scores without its cache"),
    ],
)  # fmt: skip
def test_arguments_that_change_the_scores_of_transformers_are_refused(family, given, says):
    live, ids = live_model(family, random.Random(1)), torch.tensor([[9, 10, 11, 12]])
    with pytest.raises(md.OptionError, match=says):
        md.accelerate(live).generate(ids, max_new_tokens=3, **given)
    if "use_cache" in given:
        for config in (live.config, live.generation_config):
            config.use_cache = False
            with pytest.raises(md.OptionError, match=says):
                live.generate(ids, max_new_tokens=3)
            config.use_cache = True
    assert live.generate(ids, max_new_tokens=3, num_beams=2).shape[0] == 1


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("llama", lambda m: setattr(m.model.norm, "variance_epsilon", 5.0)),
        ("llama", lambda m: m.model.rotary_emb.inv_freq.mul_(3)),
        ("gpt2", lambda m: setattr(m.transformer.h[0].mlp, "act", torch.nn.ReLU().eval())),
        ("gpt2", lambda m: setattr(m.transformer.h[0].ln_1, "eps", 1.0)),
        ("gpt2", lambda m: setattr(m.config, "layer_norm_epsilon", 1.0)),
        ("bart", lambda m: setattr(m.model.decoder.layers[0], "activation_fn", torch.nn.Tanh().eval())),
        ("gpt2", lambda m: m.half()),
        ("gpt2", lambda m: m.train()),
    ],
)
def test_modules_that_change_after_accelerate_are_noticed(family, change):
    live, ids = live_model(family, random.Random(1)), torch.tensor([[9, 10, 11, 12]])
    before = md.accelerate(live).generate.convert()
    live.generate(ids, max_new_tokens=2)
    assert live.generate.convert() is before
    change(live)
    with pytest.raises(md.CheckpointError):
        live.generate(ids, max_new_tokens=2)


@pytest.mark.parametrize("family", [*DECODERS, *ENCODER_DECODERS])
def test_an_unchanged_model_is_not_converted_again(family):
    """Though transformers' own `generate` ran in between."""
    live, ids = live_model(family, random.Random(1)), torch.tensor([[9, 10, 11, 12]])
    before = md.accelerate(live).generate.convert()
    for run in (live.generate, functools.partial(type(live).generate, live)):
        run(ids, max_new_tokens=2, num_beams=2)
        assert live.generate.convert() is before


def test_autocast_and_hooks_of_all_modules_are_refused(gpt2, ids):
    md.accelerate(gpt2)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(md.CheckpointError, match="leave its block"):
        gpt2.generate(ids)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    with pytest.raises(md.CheckpointError, match="hook of all modules"):
        gpt2.generate(ids)
    hook.remove()
    with torch.inference_mode():
        assert gpt2.generate(ids, max_new_tokens=2).shape == (2, 6)


@pytest.mark.parametrize("prove", [[], torch.tensor([5, 6]), 5, [[5, 6], [7]], {}, {"attention_mask": [[1]]}, object()])
def test_a_proof_of_no_inputs_is_one_line(gpt2, prove):
    with pytest.raises(md.InputError, match="prove needs texts") as error:
        md.accelerate(gpt2, prove=prove)
    assert "\n" not in str(error.value) and "generate" not in vars(gpt2)


def test_a_proof_keeps_all_that_a_tokenizer_returned(gpt2):
    md.accelerate(gpt2, prove={"input_ids": [[9, 10]], "attention_mask": [[1, 1]]})
    with pytest.raises(md.OptionError, match="token_type_ids"):
        md.accelerate(gpt2, prove={"input_ids": [[9, 10]], "token_type_ids": [[0, 0]]})
    with pytest.raises(md.OptionError, match="dtype must be one of"):
        md.accelerate(gpt2, dtype="bf17")
