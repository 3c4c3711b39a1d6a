"""Exercise 19: how many bytes a de-duplicated cache takes."""

from __future__ import annotations

from ..prediction_task import PredictionTask


class Task(PredictionTask):
    answers = {"CACHE_BYTES": "bytes"}
    within = 1
    known = {
        "beams-on-the-prompt": "all beams of a sentence share its prompt, so its keys and values are kept once and not"
                               " for each beam: that is what this cache is for",
        "forgot-beams": "what is generated differs from beam to beam: each keeps its own",
        "forgot-values": "keys alone tell where to look; what is read there are the values, as many again",
        "forgot-layers": "each layer computes keys and values of its own",
        "forgot-heads": "K is the width of one head",
        "forgot-sentences": "each sentence of the batch has a prompt and beams of its own",
    }  # fmt: skip

    def variation(self, rng):
        return {  # no two factors alike, for each may be forgotten
            "layers": rng.choice([6, 18, 24]), "sentences": rng.choice([8, 20, 32]), "beams": rng.integers(4, 7),
            "prompt": rng.choice([512, 768, 1024]), "generated": rng.choice([56, 100, 142]),
            "heads": rng.choice([12, 16]), "k": rng.choice([64, 80]), "bytes_per_number": rng.choice([1, 2, 4]),
        }  # fmt: skip

    def expected_outputs(self, v, mistake=None):
        without = {"beams": 1, "values": 1, "layers": 1, "heads": 1, "sentences": 1}
        n = {"beams": v.beams, "values": 2, "layers": v.layers, "heads": v.heads, "sentences": v.sentences}
        if mistake and mistake.startswith("forgot-"):
            n |= {name: one for name, one in without.items() if mistake == f"forgot-{name}"}
        prompts = v.beams if mistake == "beams-on-the-prompt" else 1
        positions = n["sentences"] * (prompts * v.prompt + n["beams"] * v.generated)
        return {"CACHE_BYTES": n["layers"] * n["values"] * positions * n["heads"] * v.k * v.bytes_per_number}

    def explain(self, v):
        position = v.layers * 2 * v.heads * v.k * v.bytes_per_number
        after, before = (v.sentences * (w * v.prompt + v.beams * v.generated) for w in (1, v.beams))
        return (
            f"A position takes {v.layers} x 2 x {v.heads} x {v.k} x {v.bytes_per_number} = {position:,} bytes. There"
            f" are {after:,} of them; with a copy of the prompt for each beam there would be {before:,}, which is"
            f" {position * before / 1e9:.2f} GB in the place of {position * after / 1e9:.2f} GB."
        )
