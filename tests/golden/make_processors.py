"""Remakes tests/golden/processors: what transformers 5 generates when score processors are on, and what its filters do.

    pip install '.[oracle]'
    python tests/golden/make_processors.py
    python tests/golden_files.py processors

The models are folders of tests/golden/gpt2 and tests/golden/bart. Every seed is fixed, so a second run writes the same
files:

    cases.json     one call a line, as in the models' own cases.json, and: "model", its folder; "matters", whether the
                   tokens are others without all of OWN; "needed", those of OWN whose absence alone changes the tokens.
                   The option "prefix_allowed" stands for a prefix_allowed_tokens_fn: the tokens allowed next where a
                   text, its prompt included, holds an even or an odd number of tokens
    filters.json   one row of scores a line, null for -inf; the options of sampling; and the probabilities that they
                   leave, in sampling and in sampling with beams, where filters keep at least 1 + (EOS ids) tokens
    summary.json   versions, and how many cases there are

Each sentence is generated in a call of its own, so padding never matters. A case is kept only if it is far from a tie
(making.py: settled), and if no sentence came to a point where no token was possible.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import make_bart
import make_gpt2
import torch
import transformers
from making import draw_eos, draw_options, draw_prompts, generate_alone, nudged, settled, write_json
from transformers import GenerationConfig, LogitsProcessor

HERE = Path(__file__).parent
OUT = HERE / "processors"
MODELS = ("gpt2/gelu", "gpt2/relu", "gpt2/tanh", "gpt2/untied", "bart/gelu", "bart/scaled", "bart/untied")

# The options that cases are about, in a call or out of it; the others (lengths, forced tokens, a ban of n-grams) are
# drawn as for the models' own cases; OTHERS are to be among them.
OWN = ("repetition_penalty", "encoder_repetition_penalty", "encoder_no_repeat_ngram_size", "bad_words_ids",
       "suppress_tokens", "begin_suppress_tokens", "prefix_allowed", "sequence_bias",
       "exponential_decay_length_penalty", "renormalize_logits")  # fmt: skip
OTHERS = ("min_new_tokens", "min_length", "no_repeat_ngram_size", "several EOS ids", "forced_bos_token_id",
          "forced_eos_token_id")  # fmt: skip
ALONE = OWN[:-1]  # renormalize_logits changes something only where another processor did
CORNERED = [(W, ("bad_words_ids", "prefix_allowed")) for W in (1, 2, 3)]  # see draw_corner
CORNERED += [(W, ("bad_words_ids", "suppress_tokens", "prefix_allowed")) for W in (1, 2)]
MIXED_GREEDY, MIXED_BEAM = 12, 16  # cases with several of OWN, for each model
LONGEST_PROMPT = 9
DRAWS = 8  # how often a case is drawn before one in which not every option is needed will do
LEAST_EACH = 12  # cases of each option, in greedy and in beam search
FILTER_ROWS = 200

# ---- asking transformers ---------------------------------------------------------------------------------------------


class NoWayOnError(Exception):
    """A text could not go on: transformers then takes an arbitrary token, or has NaN for scores."""


class Watch(LogitsProcessor):
    """Changes nothing; raises NoWayOnError where no token is possible, with `every_row` where a beam has none."""

    def __init__(self, every_row: bool):
        self.every_row = every_row

    def __call__(self, input_ids, scores):
        stuck_R = scores.isneginf().all(dim=-1)
        if stuck_R.any() if self.every_row else stuck_R.all():
            raise NoWayOnError
        return scores


def generate(model, prompts: list[list[int]], options: dict) -> tuple[list[list[int]], list[float]]:
    """As generate_alone, options spelled as in cases.json.

    Raises NoWayOnError if too few texts are possible too: transformers then returns some that are ruled out.
    """
    asked = dict(options)
    allowed = asked.pop("prefix_allowed", None)
    if allowed:
        asked["prefix_allowed_tokens_fn"] = lambda _, ids: allowed[("even", "odd")[len(ids) % 2]]
    asked["logits_processor"] = [Watch(bool(options.get("renormalize_logits")))]
    tokens, scores = generate_alone(model, prompts, asked)
    if not all(score > -1e6 for score in scores):
        raise NoWayOnError
    return tokens, scores


def without(options: dict, *names: str) -> dict:
    return {k: v for k, v in options.items() if k not in names}


# ---- drawing a case --------------------------------------------------------------------------------------------------


def plan(rng: random.Random) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(num_beams, which of OWN) of each case of one model."""
    for name in ALONE:
        yield 1, (name,)
        yield rng.randint(2, 5), (name,)
    yield from CORNERED
    for i in range(MIXED_GREEDY + MIXED_BEAM):
        W = 1 if i < MIXED_GREEDY else rng.randint(2, 5)
        names = rng.sample(ALONE, rng.choice([2, 2, 3, 4]))
        yield W, (*names, "renormalize_logits") if W > 1 and rng.random() < 0.6 else tuple(names)


def draw_base(rng: random.Random, model, W: int, names: tuple[str, ...]) -> tuple[list[list[int]], dict]:
    """(prompts, options) of a call without any of OWN."""
    is_pair, V = model.config.is_encoder_decoder, model.config.vocab_size
    prompts = draw_prompts(rng, V)[:3]
    eos = draw_eos(rng, model, prompts)
    while "exponential_decay_length_penalty" in names and not eos:  # it is EOS that it favours
        eos = draw_eos(rng, model, prompts)
    options = make_bart.draw_pair_options(rng, W, eos, model) if is_pair else draw_options(rng, W, eos, prompts)
    if W > 1 and rng.random() < 0.2:
        options["length_penalty"] = 3.0
    if "begin_suppress_tokens" in names and rng.random() < 0.4:
        options["forced_bos_token_id"] = rng.choice([t for t in range(V) if t not in (eos or [])])
    if "encoder_no_repeat_ngram_size" in names or "encoder_repetition_penalty" in names:
        prompts = echoed(rng, model, prompts, options)
    return prompts, options


def echoed(rng: random.Random, model, prompts: list[list[int]], options: dict) -> list[list[int]]:
    """The prompts, into which some of what the model says to them is put: of such n-grams some will come again.

    A source gets it in front, a prompt at its end. Prompts keep their lengths, which count in those of texts.
    """
    said, _ = generate(model, prompts, options)
    each = len(said) // len(prompts)
    mixed = []
    for b, prompt in enumerate(prompts):
        chunk = rng.choice(said[b * each : (b + 1) * each])[: rng.randint(2, 5)]
        if model.config.is_encoder_decoder:
            mixed.append((chunk + prompt)[:LONGEST_PROMPT])
        else:
            mixed.append((prompt + chunk)[-len(prompt) :])
    return mixed


def draw_own(rng: random.Random, model, prompts: list[list[int]], base: dict, names: tuple[str, ...]) -> dict:
    """Values of the options named, chosen by what the model says without them, so that they are in its way."""
    said, _ = generate(model, prompts, base)
    draw = {
        "repetition_penalty": lambda: rng.choice([0.7, 1.3, 2.0]),
        "encoder_repetition_penalty": lambda: rng.choice([0.7, 1.3, 2.0]),
        "encoder_no_repeat_ngram_size": lambda: rng.choice([2, 2, 3]),
        "bad_words_ids": lambda: draw_words(rng, model, prompts, base, said),
        "suppress_tokens": lambda: draw_suppressed(rng, base, said),
        "begin_suppress_tokens": lambda: draw_first(rng, base, said),
        "prefix_allowed": lambda: draw_allowed(rng, model.config.vocab_size, base),
        "sequence_bias": lambda: draw_biases(rng, model, prompts, base, said),
        "exponential_decay_length_penalty": lambda: [rng.choice([0, 1, 2]), rng.choice([1.1, 1.5, 3.0])],
        "renormalize_logits": lambda: True,
    }
    own = {name: draw[name]() for name in OWN if name in names}
    if {"prefix_allowed", "bad_words_ids"} <= own.keys():
        draw_corner(rng, own, base, rng.choice(said))
    return own


def draw_corner(rng: random.Random, own: dict, base: dict, text: list[int]) -> None:
    """Changes `own` so that, at times, all that the function allows is ruled out by what goes before it.

    If that holds for all beams of a sentence, transformers lets the function win, and the tokens that it allows score
    0; what comes behind it can still rule them out.
    """
    free = sorted(set(text) - forced_tokens(base))
    least = base.get("min_new_tokens") or base.get("min_length")
    if "suppress_tokens" in own and len(free) > 1:  # of two tokens that the function brings back, one is left
        allowed = rng.sample(free, 2)
        words = [[t] for t in allowed]
        own["suppress_tokens"] = allowed[:1]
    elif len(text) > 1 and rng.random() < 0.4:  # ruled out in the beams that end with the word's first token
        end = rng.randrange(1, len(text))
        allowed, words = [text[end]], [text[end - 1 : end + 1]]
    elif base["eos_token_id"] and least and rng.random() < 0.5:  # an EOS that comes too early
        allowed, words = base["eos_token_id"][:1], []
    else:
        allowed = [rng.choice(text)]
        words = [allowed]
    own["prefix_allowed"][rng.choice(["even", "odd"])] = sorted(allowed)
    own["bad_words_ids"] += words


def draw_words(rng: random.Random, model, prompts, base: dict, said: list[list[int]]) -> list[list[int]]:
    """Two to four bad words of one to three tokens that the model says; they may overlap, and begin in the prompt.

    Some also name an EOS, by itself (which transformers lets pass) or at a word's end (which it does not), a word
    twice, or a token and a word that ends with it.
    """
    each = len(said) // len(prompts)
    words = []
    for _ in range(rng.randint(2, 4)):
        r = rng.randrange(len(said))
        text = begun_with(model, prompts[r // each], base)[-2:] + said[r]
        length = min(rng.choice([1, 2, 2, 3]), len(text))
        end = rng.randint(max(length, len(text) - len(said[r]) + 1), len(text))
        words.append(text[end - length : end])
    if base["eos_token_id"] and rng.random() < 0.5:
        words.append([rng.choice(base["eos_token_id"])])
    if rng.random() < 0.2:
        words.append(words[0])
    if rng.random() < 0.2:
        words.append(words[0][-1:])
    return words


def draw_biases(rng: random.Random, model, prompts, base: dict, said: list[list[int]]) -> list[list]:
    """[ids, bias] of sequences that the model says, made less likely, and of one token, made more so."""
    words = [
        word
        for word in draw_words(rng, model, prompts, base, said)
        if len(word) > 1 or word[0] not in (base["eos_token_id"] or [])
    ]
    different = [list(word) for word in dict.fromkeys(map(tuple, words))]
    liked = [rng.randrange(model.config.vocab_size)]
    biases = [[word, rng.choice([-4.0, -1.5, -0.5])] for word in different if word != liked]
    return [*biases, [liked, rng.choice([0.5, 1.5])]]


def begun_with(model, prompt: list[int], options: dict) -> list[int]:
    """What the new tokens come after: the prompt, or what targets begin with."""
    if not model.config.is_encoder_decoder:
        return prompt
    return [options.get("decoder_start_token_id", model.config.decoder_start_token_id)]


def draw_suppressed(rng: random.Random, base: dict, said: list[list[int]]) -> list[int]:
    """One to three tokens that the model says, at times an EOS too; of several forced tokens one, of one none."""
    spoken = sorted({t for text in said for t in text} - forced_tokens(base))
    chosen = rng.sample(spoken, min(rng.randint(1, 3), len(spoken)))
    if base["eos_token_id"] and rng.random() < 0.2:
        chosen += sorted(set(base["eos_token_id"][:1]) - forced_tokens(base) - set(chosen))
    last = as_list(base.get("forced_eos_token_id"))
    return [*chosen, min(last)] if len(last) > 1 else chosen


def forced_tokens(options: dict) -> set[int | None]:
    return {options.get("forced_bos_token_id"), *as_list(options.get("forced_eos_token_id"))}


def draw_first(rng: random.Random, base: dict, said: list[list[int]]) -> list[int]:
    """Tokens that the model says first, or, where the first is forced, first after that."""
    first = {text[0] for text in said} - forced_tokens(base)
    second = {text[1] for text in said if len(text) > 1}
    chosen = sorted(first | second if "forced_bos_token_id" in base else first)
    return rng.sample(chosen, min(rng.choice([1, 2, 4]), len(chosen)))


def draw_allowed(rng: random.Random, V: int, base: dict) -> dict[str, list[int]]:
    """Few or many tokens for each parity, with an EOS in half of the lists, so that texts may end."""
    allowed = {}
    for parity in ("even", "odd"):
        chosen = set(rng.sample(range(V), rng.choice([3, 6, V // 2, V // 2, 3 * V // 4])))
        if base["eos_token_id"] and rng.random() < 0.5:
            chosen.add(base["eos_token_id"][0])
        allowed[parity] = sorted(chosen)
    return allowed


def as_list(ids: int | list[int] | None) -> list[int]:
    return ids if isinstance(ids, list) else [] if ids is None else [ids]


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_case(rng: random.Random, model, W: int, names: tuple[str, ...]) -> dict:
    """A case in which each option is needed, or else, of DRAWS cases, the one in which the most are."""
    best: dict = {}
    drawn = 0
    while drawn < DRAWS or not best:
        try:
            case = ask(rng, model, W, names)
        except NoWayOnError:
            continue
        drawn += 1
        if not best or (case["matters"], len(case["needed"])) > (best["matters"], len(best["needed"])):
            best = case
        if set(case["needed"]) >= set(names) - {"renormalize_logits"}:
            break
    return best


def ask(rng: random.Random, model, W: int, names: tuple[str, ...]) -> dict:
    """One call drawn, transformers' answer to it, and which of OWN that answer needs."""
    prompts, base = draw_base(rng, model, W, names)
    own = draw_own(rng, model, prompts, base, names)
    options = base | own
    tokens, scores = generate(model, prompts, options)
    needed = [name for name in own if generate(model, prompts, without(options, name))[0] != tokens]
    matters = generate(model, prompts, base)[0] != tokens
    return {"prompts": prompts, "options": options, "matters": matters, "needed": needed,
            "tokens": tokens, "scores": scores}  # fmt: skip


def load(name: str, dtype: torch.dtype):
    return (make_bart if name.startswith("bart") else make_gpt2).load_oracle(HERE / name, dtype)


def model_cases(name: str, seed: int) -> tuple[list[dict], int]:
    """(cases, how many were dropped as near ties) of one model."""
    exact = load(name, torch.float64)
    models = [exact, load(name, torch.float32), nudged(exact, seed), nudged(exact, seed + 1)]
    rng = random.Random(seed)
    drawn = [draw_case(rng, exact, W, names) for W, names in plan(rng)]
    kept = [{"model": name} | case for case in drawn if settled(models, case["prompts"], case["options"], generate)]
    return kept, len(drawn) - len(kept)


def coverage(cases: list[dict]) -> dict[str, Counter]:
    """How many greedy and beam cases there are of each option, and in how many the option was needed."""
    seen = {"greedy": Counter(), "beam": Counter(), "needed": Counter()}
    for case in cases:
        options = case["options"]
        search = "greedy" if options["num_beams"] == 1 else "beam"
        seen[search].update(k for k, v in options.items() if v not in (0, None))
        seen[search].update(["several EOS ids"] if len(options["eos_token_id"] or []) > 1 else [])
        seen["needed"].update(case["needed"])
    return seen


def check_coverage(cases: list[dict], dropped: int) -> None:
    """Prints what the cases cover; exits if an option is rare or seldom needed, or if many cases were near ties."""
    seen = coverage(cases)
    for name in (*OWN, *OTHERS):
        print(f"{name}: {seen['greedy'][name]} greedy, {seen['beam'][name]} beam, needed in {seen['needed'][name]}")
    rare = [name for name in (*OWN, *OTHERS) if seen["beam"][name] < LEAST_EACH]
    rare += [name for name in (*ALONE, *OTHERS) if seen["greedy"][name] < LEAST_EACH]
    idle = [n for n in ALONE if seen["needed"][n] < 0.6 * (seen["greedy"][n] + seen["beam"][n])]
    if rare or idle or dropped > 0.05 * (len(cases) + dropped):
        raise SystemExit(f"rare: {rare}; seldom needed: {idle}; {dropped} near ties")


# ---- filters before sampling -----------------------------------------------------------------------------------------


def draw_row(rng: random.Random) -> list[float]:
    """Scores of 5 to 60 tokens, to three places: flat or peaked, with ties or none, some tokens impossible."""
    spread = rng.choice([0.05, 0.7, 2.0, 2.0, 4.0, 15.0])
    places = rng.choice([0, 0, 1, 3])
    row = [round(rng.gauss(0.0, spread), places) for _ in range(rng.randint(5, 60))]
    if rng.random() < 0.4:
        impossible = rng.sample(range(len(row)), rng.choice([1, len(row) // 2, len(row) - 2, len(row) - 1]))
        row = [-torch.inf if v in impossible else score for v, score in enumerate(row)]
    return row


def draw_filters(rng: random.Random, i: int) -> dict:
    """Each filter by itself in turn, then several together."""
    draw = {
        "temperature": lambda: rng.choice([0.1, 0.5, 0.7, 1.3, 2.5]),
        "top_k": lambda: rng.choice([1, 2, 3, 5, 8, 20, 50]),
        "top_p": lambda: rng.choice([0.01, 0.3, 0.5, 0.8, 0.9, 0.95, 0.999]),
        "min_p": lambda: rng.choice([0.0, 0.02, 0.1, 0.3, 0.7, 1.0]),
        "top_h": lambda: rng.choice([0.05, 0.3, 0.5, 0.8, 0.95]),
        "typical_p": lambda: rng.choice([0.01, 0.2, 0.5, 0.9, 0.99]),
        "epsilon_cutoff": lambda: rng.choice([0.003, 0.02, 0.1, 0.4]),
        "eta_cutoff": lambda: rng.choice([0.003, 0.02, 0.1, 0.4]),
    }
    number = rng.choice([2, 2, 3, 4])
    names = [list(draw)[i % len(draw)]] if i < FILTER_ROWS // 2 else rng.sample(list(draw), number)
    return {name: value() for name, value in draw.items() if name in names}


@torch.no_grad()
def filtered(model, row: list[float], eos: list[int] | None, W: int, options: dict) -> tuple[list[float], bool]:
    """(the probabilities, whether a filter parted tokens of one score) after transformers' own warpers, in their order.

    In beam search they get log-probabilities.
    """
    config = GenerationConfig(do_sample=True, num_beams=W, eos_token_id=eos, **options)
    model._prepare_special_tokens(config)
    scores_1V = torch.tensor([row], dtype=torch.float64)
    scores_1V = scores_1V.log_softmax(-1) if W > 1 else scores_1V
    parted = False
    for warper in model._get_logits_processor(config, input_ids_seq_length=1):
        after_1V = warper(torch.zeros((1, 1), dtype=torch.long), scores_1V)
        gone_1V = after_1V.isneginf()
        parted |= bool(torch.isin(scores_1V[gone_1V & ~scores_1V.isneginf()], scores_1V[~gone_1V]).any())
        scores_1V = after_1V
    return scores_1V.softmax(-1)[0].tolist(), parted


def filter_case(rng: random.Random, model, i: int) -> dict | None:
    """One row, or None if rounding decides what is kept: if it parts ties, or hangs on the last digits of p."""
    row, options = draw_row(rng), draw_filters(rng, i)
    eos = rng.choice([None, [0], [0], [0, 1], [0, 1, 2]])
    found = {}
    for key, W in (("probabilities", 1), ("probabilities_in_beams", rng.randint(2, 5))):
        found[key], parted = filtered(model, row, eos, W, options)
        near = [filtered(model, row, eos, W, shifted(options, off))[0] for off in (1e-6, -1e-6)]
        if parted or any(possible(probabilities) != possible(found[key]) for probabilities in near):
            return None
    scores = [None if score == -torch.inf else score for score in row]
    return {"scores": scores, "options": options, "eos_token_id": eos} | found


THRESHOLDS = ("top_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")


def shifted(options: dict, off: float) -> dict:
    """The options with thresholds a little off; a min_p of 1 keeps what ties with the best, and stays."""
    return {k: v + off if k in THRESHOLDS or (k == "min_p" and 0 < v < 1) else v for k, v in options.items()}


def possible(probabilities: list[float]) -> list[bool]:
    return [p > 0 for p in probabilities]


def filter_cases(model, seed: int) -> list[dict]:
    rng, cases = random.Random(seed), []
    while len(cases) < FILTER_ROWS:
        case = filter_case(rng, model, len(cases))
        cases += [case] if case else []
    return cases


# ---- files -----------------------------------------------------------------------------------------------------------


def write_lines(path: Path, cases: list[dict]) -> None:
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    OUT.mkdir(exist_ok=True)
    cases, dropped = [], 0
    for i, name in enumerate(MODELS):
        kept, near_ties = model_cases(name, 7000 + 10 * i)
        cases, dropped = cases + kept, dropped + near_ties
        print(f"{name}: {len(kept)} cases, {near_ties} near ties dropped", flush=True)
    write_lines(OUT / "cases.json", cases)
    filters = filter_cases(load(MODELS[0], torch.float64), 7999)
    write_lines(OUT / "filters.json", filters)
    matters = sum(case["matters"] for case in cases)
    summary = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
               "cases": len(cases), "dropped": dropped, "matters": matters, "filters": len(filters)}  # fmt: skip
    write_json(OUT / "summary.json", summary)
    print(f"{len(cases)} cases, {dropped} dropped, the options matter in {matters}; {len(filters)} rows filtered")
    check_coverage(cases, dropped)


if __name__ == "__main__":
    main()
