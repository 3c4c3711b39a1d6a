"""Exercise 2: how many bytes a decode step reads."""

from __future__ import annotations

from ..prediction_task import PredictionTask


class Task(PredictionTask):
    answers = {"BYTES_PER_TOKEN": "bytes"}
    known = {
        "counted-operations": "you counted operations, two for each weight; the question is what must be fetched",
        "forgot-output-matrix": "the matrix that turns the last hidden state into scores of all tokens is read too, in"
                                " every step",
        "bits-for-bytes": "these are bits: a byte has eight",
        "forgot-values": "each earlier position has a key and a value: two rows of the width in every layer",
        "forgot-cache": "the keys and values of all earlier positions are read again in every step",
    }  # fmt: skip

    def variation(self, rng):
        width = rng.choice([512, 768, 1024])
        return {
            "layers": rng.choice([6, 12]), "width": width, "vocabulary": rng.choice([32000, 50257]),
            "positions": rng.choice([3000, 4000, 5000]), "bytes_per_number": rng.choice([1, 4]),
        }  # fmt: skip

    def expected_outputs(self, v, mistake=None):
        weights = v.layers * 12 * v.width**2
        output = v.vocabulary * v.width
        cache = v.layers * (1 if mistake == "forgot-values" else 2) * v.positions * v.width
        if mistake == "forgot-output-matrix":
            output = 0
        if mistake == "forgot-cache":
            cache = 0
        numbers = weights + output + cache
        if mistake == "counted-operations":
            return {"BYTES_PER_TOKEN": 2 * numbers}
        return {"BYTES_PER_TOKEN": numbers * v.bytes_per_number * (8 if mistake == "bits-for-bytes" else 1)}

    def explain(self, v):
        size = v.bytes_per_number
        weights, output = v.layers * 12 * v.width**2 * size, v.vocabulary * v.width * size
        cache = v.layers * 2 * v.positions * v.width * size
        return (
            f"Products of the layers {weights:,}, the output matrix {output:,}, keys and values {cache:,} bytes. At"
            f" 20 GB/s that is at most {20e9 / (weights + output + cache):.0f} tokens a second, whatever the"
            " arithmetic can do."
        )
