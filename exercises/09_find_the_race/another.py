"""The program run on paper: who touches which place, in which period between barriers."""

# --- variation
PROGRAM = """\
 1  @cuda.jit
 2  def spread(out, edge, a):
 3      s = cuda.shared.array(THREADS, float32)
 4      t, b = cuda.threadIdx.x, cuda.blockIdx.x
 5      s[t] = a[b * THREADS + t]
 6      cuda.syncthreads()
 7      x = s[(t + 5) % THREADS]
 8      s[t] = x + 1
 9      cuda.syncthreads()
10      y = s[THREADS - 1 - t]
11      cuda.syncthreads()
12      s[(t + 3) % THREADS] = y
13      cuda.syncthreads()
14      if t == THREADS - 1:
15          edge[b + 1] = s[t]
16      if t == 0:
17          out[b] = edge[b]
"""
THREADS = 64
CELL = 9
# --- end

touched, period = [], 0
for line in PROGRAM.splitlines():
    words = line[4:].split()
    period += words == ["cuda.syncthreads()"]
    sides = line[4:].strip().split(" = ")
    if len(sides) != 2:
        continue
    for side, writes in zip(sides, (True, False), strict=True):
        if side.startswith("s["):
            for t in range(THREADS):
                touched.append((period, eval(side[2:-1]), int(line[:2]), t, writes))

races = {
    (min(i, k), max(i, k), min(t, u), max(t, u))
    for p, c, i, t, w in touched if c == CELL
    for q, d, k, u, x in touched if d == c
    if p == q and i != k and t != u and (w or x)
}  # fmt: skip
(first, second, low, high), *_ = races
WITHIN, THREADS_AT_CELL = (first, second), (low, high)
BETWEEN = tuple(int(line[:2]) for line in PROGRAM.splitlines() if "edge[" in line)
