"""No threads: read, generate, write, and again."""

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


def run(line_X, read, write):
    for first in range(0, len(line_X), BATCH):
        values, is_broken = [], False
        for line in line_X[first : first + BATCH].tolist():
            try:
                values.append(read(line))
            except ValueError:
                is_broken = True
                break
        try:
            results = list(generate(values))
        except ValueError:
            results = [alone(value) for value in values]
        for k, result in enumerate(results, first):
            write(k, result)
        if is_broken:
            return


def alone(value):
    """The result of one value, or -1."""
    try:
        return next(generate([value]))
    except ValueError:
        return -1
