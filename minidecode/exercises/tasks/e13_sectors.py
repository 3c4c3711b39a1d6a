"""Exercise 13: how many sectors a warp moves, exactly."""

from __future__ import annotations

from ..exercise import PredictionTask

SECTOR, LINE = 32, 128  # bytes


class Task(PredictionTask):
    answers = {"NEIGHBOURS": "sectors", "APART": "sectors", "SHARED": "sectors"}
    within = 1
    known = {
        "bytes-for-sectors": "these are the bytes that the lanes want; memory moves in sectors of 32 bytes",
        "bytes-moved": "these are bytes; the question is how many sectors they are, each of 32",
        "alignment-forgotten": "sectors begin at multiples of 32 bytes, wherever a warp begins: one that begins inside"
                               " of a sector touches one more",
        "one-per-lane": "lanes whose numbers lie in the same sector share it: a warp asks once for all its lanes",
        "lines-for-sectors": "these are lines of 128 bytes, in which caches are organised; what moves is the sectors of"
                             " a line that are touched",
        "gaps-are-free": "a sector comes whole: what lies between the numbers that are wanted is moved, too",
        "lanes-never-share": "several lanes that read the same number are given the same sector",
    }  # fmt: skip

    def variation(self, rng):
        size, share = int(rng.choice([4, 8])), int(rng.choice([2, 4]))
        per_sector = SECTOR // size
        return {
            "offset": rng.integers(1, 8),
            "stride": rng.choice([3, 5, 6, 7]),
            "size": size,
            "share": share,
            "from": per_sector * rng.integers(1, 4) + rng.integers(1, per_sector),  # never at a sector's beginning
        }

    def expected(self, v, mistake=None):
        start = vars(v)["from"]
        wanted = [[4 * (v.offset + t) for t in range(32)], [4 * v.stride * t for t in range(32)],
                  [v.size * (start + t // v.share) for t in range(32)]]  # fmt: skip
        sizes = (4, 4, v.size)
        if mistake == "alignment-forgotten":
            wanted = [[first - places[0] for first in places] for places in wanted]
        if mistake == "gaps-are-free":
            wanted[1] = [4 * t for t in range(32)]
        if mistake == "lanes-never-share":
            wanted[2] = [v.size * (start + t) for t in range(32)]
        unit = LINE if mistake == "lines-for-sectors" else 1 if mistake == "bytes-for-sectors" else SECTOR
        counts = []
        for places, size in zip(wanted, sizes, strict=True):
            touched = {byte // unit for first in places for byte in range(first, first + size)}
            counts.append(
                32 if mistake == "one-per-lane" else len(touched) * (SECTOR if mistake == "bytes-moved" else 1)
            )
        return dict(zip(self.answers, counts, strict=True))

    def explain(self, v):
        right, start = self.expected(v), vars(v)["from"]
        shared = (start * v.size, (start + 31 // v.share) * v.size + v.size - 1)
        bytes_wanted = (128, 128, 32 // v.share * v.size)
        shares = [f"{100 * b // (SECTOR * n)} %" for b, n in zip(bytes_wanted, right.values(), strict=True)]
        return (
            f"Bytes {4 * v.offset} to {4 * (v.offset + 31) + 3} of `a`; bytes 0 to {4 * 31 * v.stride + 3} of `b`,"
            f" {4 * v.stride} from lane to lane; bytes {shared[0]} to {shared[1]} of `c`. Divide both ends by 32. Of"
            f" what moves, {shares[0]}, {shares[1]} and {shares[2]} was wanted."
        )

    def _forgotten(self, v, values, right):
        """A mistake may be made at one line and not at the others."""
        whole = super()._forgotten(v, values, right)
        if whole:
            return whole
        partly = []
        for mistake in self.known:
            theirs = self.expected(v, mistake)
            if all(values[name] in (right[name], theirs[name]) for name in right):
                partly.append(mistake)
        return partly[0] if len(partly) == 1 else None
