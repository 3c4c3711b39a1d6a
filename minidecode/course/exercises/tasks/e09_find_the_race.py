"""Exercise 9: two races in a program, to be found by reading it."""

from __future__ import annotations

from ..prediction_task import PredictionTask, why_no_answer

NO_BARRIERS = ("", "cuda.syncwarp()", "cuda.threadfence_block()")  # what may stand where a barrier is missing


class Task(PredictionTask):
    answers = {"WITHIN": "", "THREADS_AT_CELL": "", "BETWEEN": ""}
    within = 1
    known = {
        "write-alone": "a race has two sides: the line that writes, and the line of another thread that reads or writes"
                       " the same place in the same period between barriers",
        "within-for-between": "shared memory belongs to one block, so its races are within one; what several blocks"
                              " touch is global memory",
        "missed-between-blocks": "cuda.syncthreads() ends at the block: what one block writes to global memory and"
                                 " another one reads, nothing orders in one launch",
        "order-of-lines": "that one line stands before the other orders them for one thread, not for two; and nothing"
                          " short of cuda.syncthreads() makes all warps of a block wait",
        "barrier-between": "between these two lines every thread passes a barrier, so none does the second before all"
                           " have done the first",
        "place-for-thread": "thread t touches the place that its index expression gives, which is mostly not"
                            " s[t]",
    }  # fmt: skip

    def variation(self, rng):
        threads = int(rng.choice([64, 96]))
        near, far = (int(n) for n in rng.permutation([3, 5, 7, 9, 11])[:2])
        forms = ["t", f"(t + {near}) % THREADS", "THREADS - 1 - t", f"(t + {far}) % THREADS"]
        forms = [forms[k] for k in rng.permutation(4)]  # of the two reads and the two writes, by turns
        missing = int(rng.integers(0, 3))
        steps = [f"x = s[{forms[0]}]", f"s[{forms[1]}] = x + 1", f"y = s[{forms[2]}]", f"s[{forms[3]}] = y"]
        body = ["s[t] = a[b * THREADS + t]", "cuda.syncthreads()"]
        for k, step in enumerate(steps):
            if rng.integers(0, 2):
                body.append(_comment_on_step(step))
            body.append(step)
            body.append(str(rng.choice(NO_BARRIERS)) if k == missing else "cuda.syncthreads()")
        ends = [["if t == THREADS - 1:", "    edge[b + 1] = s[t]"], ["if t == 0:", "    out[b] = edge[b]"]]
        for k in rng.permutation(2):
            body += ends[k]
        head = ["s = cuda.shared.array(THREADS, float32)", "t, b = cuda.threadIdx.x, cuda.blockIdx.x"]
        lines = ["@cuda.jit", "def spread(out, edge, a):", *("    " + line for line in (*head, *body) if line)]
        cells = [c for c in range(threads) if _are_in_two_warps(forms[missing : missing + 2], c, threads)]
        program = "".join(f"{n:2d}  {line}\n" for n, line in enumerate(lines, 1))
        return {"program": program, "threads": threads, "cell": int(rng.choice(cells))}

    def expected_outputs(self, v, mistake=None):
        if mistake is not None:
            raise NotImplementedError  # see _find_common_mistake: each is found from one answer, whatever others are
        lines = _list_shared_accesses(v)
        one, two = next(
            (one, two)
            for k, one in enumerate(lines)
            for two in lines[k + 1 :]
            if one["period"] == two["period"] and (one["writes"] or two["writes"])
        )
        threads = sorted(_thread_at_index(line["index"], v.cell, v.threads) for line in (one, two))
        between = [n for n, text in _numbered_lines(v) if "edge[" in text]
        return {
            "WITHIN": (one["line"], two["line"]),
            "THREADS_AT_CELL": tuple(threads),
            "BETWEEN": tuple(between),
        }

    def explain(self, v):
        right = self.expected_outputs(v)
        one, two = (line for line in _list_shared_accesses(v) if line["line"] in right["WITHIN"])
        who = [
            f"thread {_thread_at_index(x['index'], v.cell, v.threads)} {'writes' if x['writes'] else 'reads'} it (line"
            f" {x['line']})"
            for x in (one, two)
        ]
        inside = [text for n, text in _numbered_lines(v) if one["line"] < n < two["line"] and "cuda." in text]
        decoy = f" {inside[0].strip()} stands there, and makes no other warp wait." if inside else ""
        return (
            f"s[{v.cell}]: {who[0]}, {who[1]}, no barrier between.{decoy} And edge[1] is written by block 0 and read by"
            f" block 1 (lines {right['BETWEEN'][0]} and {right['BETWEEN'][1]}): nothing orders blocks of one launch."
        )

    def _read(self, submission, verdict):
        """Pairs in any order: what counts is who is in them."""
        values = super()._read(submission, verdict)
        return {name: tuple(sorted(x)) if why_no_answer(x, (0, 0)) is None else x for name, x in values.items()}

    def _find_common_mistake(self, v, values, right):
        within, threads, between = values["WITHIN"], values["THREADS_AT_CELL"], values["BETWEEN"]
        if (within, between) == (right["BETWEEN"], right["WITHIN"]):
            return {"within-for-between": "WITHIN, with BETWEEN in its place,"}
        mistakes = {}
        writes = {line["line"] for line in _list_shared_accesses(v) if line["writes"]}
        writes |= {n for n, text in _numbered_lines(v) if text.strip().startswith("edge[")}
        periods = {line["line"]: line["period"] for line in _list_shared_accesses(v)}
        if within == ():
            mistakes["order-of-lines"] = "WITHIN"
        elif _only_line_of_pair(within) in writes:
            mistakes["write-alone"] = "WITHIN"
        elif len({periods.get(n) for n in within} - {None}) == 2:
            mistakes["barrier-between"] = "WITHIN"
        if between == () or (between == within and between != right["BETWEEN"]):
            mistakes["missed-between-blocks"] = "BETWEEN"
        elif _only_line_of_pair(between) in writes:
            mistakes.setdefault("write-alone", "BETWEEN")
        if threads == (v.cell, v.cell):
            mistakes["place-for-thread"] = "THREADS_AT_CELL"
        return mistakes


def _numbered_lines(v) -> list[tuple[int, str]]:
    return [(int(line[:2]), line[4:]) for line in v.program.splitlines()]


def _list_shared_accesses(v) -> list[dict]:
    """The accesses to shared memory, line by line: in which period between barriers, at which index, a write or not."""
    accesses, period = [], 0
    for number, text in _numbered_lines(v):
        period += "syncthreads" in text
        if "s[" in text:
            index = text[text.index("s[") + 2 :].partition("]")[0]
            accesses.append({"line": number, "period": period, "index": index, "writes": text.strip().startswith("s[")})
    return accesses


def _thread_at_index(index: str, cell: int, threads: int) -> int:
    """The thread whose index expression gives this place."""
    offset = int(index.partition("+")[2].partition(")")[0] or 0)
    return threads - 1 - cell if index.startswith("THREADS") else (cell - offset) % threads


def _are_in_two_warps(forms: list[str], cell: int, threads: int) -> bool:
    """Whether the two threads at this place are in two warps: there only a barrier of the block orders them."""
    one, two = (_thread_at_index(index, cell, threads) for index in forms)
    return one // 32 != two // 32


def _only_line_of_pair(pair: tuple) -> int | None:
    """The line, where one alone is named."""
    return pair[0] if len(set(pair)) == 1 else None


def _comment_on_step(step: str) -> str:
    """What the line below does, as its author would say it."""
    read, index = step.startswith(("x", "y")), step[step.index("s[") + 2 :].partition("]")[0]
    if index == "t":
        return "# from a place of its own" if read else "# to a place of its own"
    where = "the other end" if index.startswith("THREADS") else "a place further on"
    return f"# from {where}" if read else f"# to {where}"
