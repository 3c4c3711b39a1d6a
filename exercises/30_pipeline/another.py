"""Channels that are closed, not ended by a word; a batch that fails goes on behind the line that failed."""

import threading

# --- variation
BATCH = 3
ROOM = 2
A = 7
# --- end


def generate(values):
    """The model: yields a result for each value, and fails at one that it cannot do."""
    for value in values:
        if value < 0:
            raise ValueError("this line cannot be done")
        yield value * A % 97


class Channel:
    """A queue with room for a few, which an iteration empties until it is closed."""

    def __init__(self, room):
        self.waiting, self.room = [], room
        self.changed, self.is_closed = threading.Condition(), False

    def put(self, one):
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) < self.room)
            self.waiting.append(one)
            self.changed.notify_all()

    def close(self):
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def __iter__(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.is_closed)
                if not self.waiting:
                    return
                one = self.waiting.pop(0)
                self.changed.notify_all()
            yield one


def run(line_X, read, write):
    ahead, done = Channel(ROOM), Channel(ROOM * BATCH)
    threads = [
        threading.Thread(target=read_all, args=(line_X.tolist(), read, ahead)),
        threading.Thread(target=lambda: [write(k, result) for k, result in done]),
    ]
    for thread in threads:
        thread.start()
    for first, values in ahead:
        for pair in enumerate(all_of(values), first):
            done.put(pair)
    done.close()
    for thread in threads:
        thread.join()


def read_all(lines, read, ahead):
    try:
        for first in range(0, len(lines), BATCH):
            values = []
            try:
                for line in lines[first : first + BATCH]:
                    values.append(read(line))
            finally:
                ahead.put((first, values))
    except ValueError:
        pass
    finally:
        ahead.close()


def all_of(values):
    results = []
    while len(results) < len(values):
        try:
            for result in generate(values[len(results) :]):
                results.append(result)
        except ValueError:
            results.append(-1)
    return results
