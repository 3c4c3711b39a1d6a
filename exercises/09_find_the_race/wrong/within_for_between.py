"""The one taken for the other."""

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

period, before, seen = 0, [], {}
for line in PROGRAM.splitlines():
    number, text = int(line[:2]), line[4:]
    period += "syncthreads" in text
    if " s[" in text:
        before.append((period, number, text.partition(" s[")[2].partition("]")[0], text.strip().startswith("s[")))
    if "edge[" in text:
        seen.setdefault("edge", []).append(number)

for one in before:
    for two in before:
        if one[0] == two[0] and one[1] < two[1] and one[2] != two[2] and (one[3] or two[3]):
            WITHIN = (one[1], two[1])
            both = [t for i in (one[2], two[2]) for t in range(THREADS) if eval(i) == CELL]
            THREADS_AT_CELL = tuple(sorted(both))
BETWEEN = tuple(seen["edge"])
WITHIN, BETWEEN = BETWEEN, WITHIN
