"""Queues without a bound."""

import queue
import threading

# --- variation
BATCH = 3
ROOM = 2
A = 7
# --- end

END = None


def generate(values):
    """The model: yields a result for each value, and fails at one that it cannot do."""
    for value in values:
        if value < 0:
            raise ValueError("this line cannot be done")
        yield value * A % 97


def run(line_X, read, write):
    ahead, done = queue.Queue(), queue.Queue()

    def reading():
        batch = []
        for k, line in enumerate(line_X.tolist()):
            try:
                batch.append((k, read(line)))
            except ValueError:
                break  # what was read before is still to be done
            if len(batch) == BATCH:
                ahead.put(batch)
                batch = []
        if batch:
            ahead.put(batch)
        ahead.put(END)

    def writing():
        while (result := done.get()) is not END:
            write(*result)

    threads = [threading.Thread(target=stage, daemon=True) for stage in (reading, writing)]
    for thread in threads:
        thread.start()
    while (batch := ahead.get()) is not END:
        try:
            results = list(generate([value for _, value in batch]))
        except ValueError:
            results = [alone(value) for _, value in batch]
        for (k, _), result in zip(batch, results, strict=True):
            done.put((k, result))
    done.put(END)
    for thread in threads:
        thread.join()


def alone(value):
    """The result of one value, or -1."""
    try:
        return next(generate([value]))
    except ValueError:
        return -1
