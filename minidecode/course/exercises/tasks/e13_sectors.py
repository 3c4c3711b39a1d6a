"""Exercise 13: how many sectors a warp moves, exactly."""

from __future__ import annotations

from ..prediction_task import PredictionTask

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
        "gaps-are-free": "a sector is moved as a whole, with what lies between the numbers that are wanted",
        "lanes-never-share": "several lanes that read the same number are given the same sector",
    }  # fmt: skip

    def variation(self, rng):
        size, share = int(rng.choice([4, 8])), int(rng.choice([2, 4]))
        per_sector, width = SECTOR // size, int(rng.choice([2, 4, 8]))
        return {
            "offset": rng.integers(1, SECTOR // width) + SECTOR // width * rng.integers(0, 3),
            "width": width,
            "stride": rng.choice([3, 5, 6, 7, 9, 10, 12, 14]),  # from 8 on sectors are left out between the lanes
            "size": size,
            "share": share,
            "from": per_sector * rng.integers(1, 4) + rng.integers(1, per_sector),  # never at a sector's beginning
        }

    def expected_outputs(self, v, mistake=None):
        start = vars(v)["from"]
        wanted = [[v.width * (v.offset + t) for t in range(32)], [4 * v.stride * t for t in range(32)],
                  [v.size * (start + t // v.share) for t in range(32)]]  # fmt: skip
        sizes = (v.width, 4, v.size)
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
        right, start = self.expected_outputs(v), vars(v)["from"]
        shared = (start * v.size, (start + 31 // v.share) * v.size + v.size - 1)
        bytes_wanted = (32 * v.width, 128, 32 // v.share * v.size)
        shares = [f"{100 * b // (SECTOR * n)} %" for b, n in zip(bytes_wanted, right.values(), strict=True)]
        apart = "more than a sector, so each lane has one of its own, and those between stay where they are"
        if 4 * v.stride < SECTOR:
            apart = "less than a sector, so all from the first to the last are touched"
        return (
            f"Bytes {v.width * v.offset} to {v.width * (v.offset + 32) - 1} of `a` and {shared[0]} to {shared[1]} of"
            f" `c`, without gaps: divide both ends by 32. Bytes 0 to {124 * v.stride + 3} of `b`, {4 * v.stride} from"
            f" lane to lane: {apart}. Of what moves, {shares[0]}, {shares[1]} and {shares[2]} was wanted."
        )

    def _name_mistake(self, v, values, right):
        """The one mistake that was made at all lines, or at those that are wrong; else that of the first wrong line."""
        whole = super()._name_mistake(v, values, right)
        if whole:
            return whole
        by_line = self._mistakes_by_line(v, values, right)
        common = set.intersection(*map(set, by_line.values()))
        if len(common) == 1:
            return common.pop()
        first = next(iter(by_line.values()))
        return first[0] if len(first) == 1 and all(by_line.values()) else None

    def _mistakes_by_line(self, v, values, right):
        """Each wrong answer -> the mistakes that give this number there, whatever was said of other lines."""
        theirs = {mistake: self.expected_outputs(v, mistake) for mistake in self.known}
        wrong = [name for name in self.answers if values[name] != right[name]]
        return {name: [m for m in self.known if theirs[m][name] == values[name]] for name in wrong}

    def _mistakes_text(self, mistakes, v, values, right):
        by_line = self._mistakes_by_line(v, values, right)
        if mistakes and all(set(mistakes) <= set(names) for names in by_line.values()):
            return super()._mistakes_text(mistakes, v, values, right)
        lines = []
        for name, names in by_line.items():
            if not names:
                lines.append(f"{name} is none of the mistakes that this exercise knows by name.")
                continue
            known = " or ".join(f'"{m.replace("-", " ")}"' for m in names)
            lines.append(f"{name} is what {known} gives: {'; or: '.join(self.known[m] for m in names)}.")
        return "\n".join(lines)
