"""Exercise 3: the batch from which on decoding is bound by arithmetic."""

from __future__ import annotations

from ..prediction_task import PredictionTask, factor_between


class Task(PredictionTask):
    answers = {"BATCH": "sentences"}
    known = {
        "inverted": "divided the other way round: operations over bytes say how often what is fetched must be used, and"
                    " each sentence uses it once",
        "one-operation": "each weight is multiplied, and the product is added: two operations for each sentence",
        "numbers-for-bytes": "memory gives bytes, not numbers, and a weight has several of them",
        "bits-for-bytes": "the bandwidth is given in bytes: a bit is an eighth of one",
    }  # fmt: skip

    def variation(self, rng):
        return {
            "giga_operations_per_second": rng.choice([200, 500, 2000, 9000]),
            "gigabytes_per_second": rng.choice([16, 25, 40]),
            "million_weights": rng.choice([124, 355, 406]),
            "bytes_per_weight": rng.choice([4, 8]),  # with 2, forgotten bytes and operations would cancel
        }  # fmt: skip

    def expected_outputs(self, v, mistake=None):
        operations, size = 1 if mistake == "one-operation" else 2, v.bytes_per_weight
        size = {"numbers-for-bytes": 1, "bits-for-bytes": 8 * size}.get(mistake, size)
        batch = v.giga_operations_per_second * size / (operations * v.gigabytes_per_second)
        return {"BATCH": 1 / batch if mistake == "inverted" else batch}

    def _name_mistake(self, v, values, right):
        """Inverted is also the machine alone: bytes in a second over operations in a second."""
        balance = v.giga_operations_per_second / v.gigabytes_per_second
        inverted = right["BATCH"] / balance**2
        mistake = super()._name_mistake(v, values, right)
        return "inverted" if mistake is None and factor_between(values["BATCH"], inverted) <= 1.01 else mistake

    def explain(self, v):
        fetch = v.million_weights * v.bytes_per_weight / v.gigabytes_per_second  # in milliseconds
        compute = 2 * v.million_weights / v.giga_operations_per_second
        return (
            f"To fetch the weights takes {fetch:.3g} ms, to use each of them once {compute:.3g} ms; so"
            f" {fetch / compute:,.6g} sentences can use them while they are fetched, and a sentence alone leaves the"
            f" arithmetic idle for {1 - compute / fetch:.1%} of the time. Keys and values do not share: each sentence"
            " brings its own, used once, so with a cache the true limit lies further off, or nowhere."
        )
