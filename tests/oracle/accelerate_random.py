"""Compares `generate` before and after `md.accelerate` on drawn models, prompts and options, and counts what came out.

    python tests/oracle/accelerate_random.py [FAMILY ...] [--seed 0] [--count 100]

Each case is of a seed of its own: `--only N` runs one again and shows its options. A case is equal if its tokens are,
and its scores and logits of each step up to the computed bound. If tokens differ, the proof of `md.accelerate` says
whether rounding explains it. Sampling has top_k=1, so that both sides draw the same.
"""

import argparse
import collections
import random
import sys
import traceback
import warnings
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "oracle"), str(TESTS / "golden")]

import golden_files  # noqa: E402

golden_files.unpack()

import torch  # noqa: E402
import transformers  # noqa: E402
from test_accelerate import DECODERS, ENCODER_DECODERS, PAD, live_model, same_output  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.live.proof import compare_results  # noqa: E402

LAYERS = ("n_layer", "num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers",
          "num_encoder_layers")  # fmt: skip
KEPT = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}


def vary(config, draw):
    """Draws how many layers and tokens a model has."""
    for name in LAYERS:
        if name in config.to_dict():
            setattr(config, name, draw.randint(1, 3))
    if hasattr(config, "layer_types"):  # one for each layer
        config.layer_types = (config.layer_types or []) and [config.layer_types[0]] * config.num_hidden_layers
    if hasattr(config, "num_decoder_layers"):  # T5, ProphetNet: transformers' cache has the encoder's number of layers
        config.num_decoder_layers = config.to_dict().get("num_layers", config.num_hidden_layers)
    config.vocab_size += draw.randint(0, 20)
    if getattr(config, "decoder_vocab_size", None) is not None:
        config.decoder_vocab_size = config.vocab_size


def options_of(draw, V):
    """Options of a call, most of them in one case out of three."""
    W = draw.randint(1, 4)
    options = {"num_beams": W, "eos_token_id": draw.choice([5, [5, 7], [5, 7, 11, 12]])}
    if W > 1:
        options["num_return_sequences"] = draw.randint(1, W)
        options["length_penalty"] = draw.choice([1.0, 0.0, 0.4, 2.0, -1.0])
        options["early_stopping"] = draw.choice([False, True, "never"])
    elif draw.random() < 0.4:
        options |= {"do_sample": True, "top_k": 1, "num_return_sequences": draw.randint(1, 2)}
        options |= draw.choice([{}, {"temperature": 0.7}, {"top_p": 0.9}])
    options["max_new_tokens"] = draw.randint(3, 10)
    tokens = draw.sample(sorted({*range(8, V)} - {11, 12}), 6)  # no EOS: forced, it leaves beams that have no score
    for name, values in [
        ("no_repeat_ngram_size", [1, 2, 3]),
        ("repetition_penalty", [0.8, 1.3, 2.0]),
        ("min_new_tokens", [2, 4]),
        ("bad_words_ids", [[[tokens[0]], tokens[1:3]]]),
        ("suppress_tokens", [tokens[3:5]]),
        ("begin_suppress_tokens", [tokens[3:5]]),
        ("forced_bos_token_id", [tokens[5]]),
        ("forced_eos_token_id", [5]),
        ("renormalize_logits", [True]),
        ("exponential_decay_length_penalty", [(2, 1.3)]),
        ("encoder_no_repeat_ngram_size", [2]),
        ("sequence_bias", [[[[tokens[1]], 2.0], [tokens[:2], -3.0]]]),
    ]:
        if draw.random() < 0.3:
            options[name] = draw.choice(values)
    return options


def inputs_of(draw, family, V):
    """1 to 3 prompts or sources of one length or, in three of ten cases, of two: padded on the side of the family."""
    B, N = draw.randint(1, 3), draw.randint(3, 9)
    ids = torch.tensor([[draw.randrange(8, V) for _ in range(N)] for _ in range(B)])
    mask = torch.ones_like(ids)
    if family != "prophetnet" and draw.random() < 0.3:  # transformers' masks make NaN of its float64
        n = draw.randrange(1, N)
        mask[0, slice(n) if family in DECODERS else slice(N - n, N)] = 0
        ids[mask == 0] = PAD
    return {"input_ids": ids} | ({} if family == "prophetnet" else {"attention_mask": mask})


def outcome(family, seed, shows=False):
    """(what became of a case, why)."""
    draw = random.Random(f"{family} {seed}")
    live = live_model(family, draw, vary)
    V = live.config.vocab_size
    call = inputs_of(draw, family, V) | options_of(draw, V) | KEPT
    if shows:
        print(live.config, call, sep="\n")
    try:
        before = live.generate(**call)
    except (ValueError, RuntimeError) as error:
        return "not run by transformers", str(error)
    try:
        after = md.accelerate(live).generate(**call)
    except md.MinidecodeError as error:
        return "refused", str(error)
    try:
        same_output(live, before, after, call.get("length_penalty", 1.0))
    except AssertionError as error:
        try:
            compare_results(live.generate, before, after, call)
        except md.RefusedError as told:
            return "tie" if "a tie" in str(told) else "different", str(told)
        return "different", f"same tokens, but not: {traceback.extract_tb(error.__traceback__)[-1].line}"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=[*DECODERS, *ENCODER_DECODERS], metavar="FAMILY")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others count on from it")
    parser.add_argument("--count", type=int, default=100, help="cases of each family")
    parser.add_argument("--only", type=int, metavar="SEED", help="run this case alone, and show it")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    differs = False
    for family in asked.families:
        seeds = range(asked.seed, asked.seed + asked.count) if asked.only is None else [asked.only]
        found = {seed: outcome(family, seed, asked.only is not None) for seed in seeds}
        counts = collections.Counter(kind for kind, _ in found.values())
        print(f"{family}: {len(found)} cases, " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
        for (kind, why), n in collections.Counter(each for each in found.values() if each[1]).most_common():
            seed = next(seed for seed, each in found.items() if each == (kind, why))
            print(f"    {n} {kind} (seed {seed}): {(why.splitlines() or [''])[0]}", flush=True)
        differs |= "different" in counts
    sys.exit(differs)


if __name__ == "__main__":
    main()
