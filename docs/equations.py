"""What each op computes, as an equation: docs/write_ops.py writes it on the op's page.

r is a row, b a sentence, w a beam, h a query head of key/value head g, t and n positions, v a token. Sums run over what
is named below them; what an op leaves out of its sums, such as padding, is in its docstring.
"""

ATTENTION = "a[r, h] = sum_{0} softmax_{0}(scale * q[r, h] . k[{1}, g, {0}]) v[{1}, g, {0}]"
EQUATIONS = {
    "ngram": "scores[r, tokens[r, i+n-1]] = -inf   for every i with tokens[r, i : i+n-1] = the row's last n-1 tokens",
    "bias": "scores[r, v] = scores[r, v] + sum of the biases of the sequences (s, v) with s at the end of text r",
    "penalty": """scores[r, v] = scores[r, v] / penalty   if scores[r, v] >= 0 and v is in the row's list
             = scores[r, v] * penalty   if scores[r, v] <  0 and v is in the row's list""",
    "linear": "y[r, o] = sum_i x[r, i] W[i, o]",
    "epilogue": "y[r, o] = act(sum_i x[r, i] W[i, o] + bias[o])   (+ add_to[r, o])",
    "linear_int8": """s[r] = max_i |x[r, i]| / 127,   q[r, i] = round(x[r, i] / s[r])
y[r, o] = act(s[r] s[o] sum_i q[r, i] W[i, o] + bias[o])   (+ add_to[r, o])""",
    "norm": """x'[r] = x[r] + y[r] + bias
h[r] = gain * (x'[r] - mean(x'[r])) / sqrt(var(x'[r]) + eps) + shift""",
    "heads": "(q[r], k[r], v[r]) = qkv[r] + bias,   cut into heads",
    "rotation": """(a, b) = the halves of a query or key of row r
c = cos(angles of pos[r]),   s = sin(angles of pos[r])
(a, b) becomes (a c - b s, b c + a s)""",
    "append": "(q[r], k[r, :, at[r]], v[r, :, at[r]]) = qkv[r] + bias,   cut into heads",
    "prefill": "a[r, h] = sum_m softmax_m(scale * q[r, h] . k[m, g]) v[m, g],   m: the keys of the row's sentence",
    "cross_kv": "(k[s], v[s]) = h W_s + bias_s   for every decoder layer s,   cut into heads",
    "embedding": """x[r] = scale * wte[ids[r]] + wpe[pos[r]]
h[r] = gain * (x[r] - mean(x[r])) / sqrt(var(x[r]) + eps) + shift""",
    "activation": "y[r, i] = act(f[r, i] + bias[i])",
    "split": """s_n = scale * q[r, h] . prompt_k[b, g, n],   s_t = scale * q[r, h] . k[r, g, t],   p = softmax over both
a[r, h] = sum_n p_n prompt_v[b, g, n] + sum_t p_t v[r, g, t]""",
    "shared": ATTENTION.format("n", "b"),
    "grouped": ATTENTION.format("m", "r"),
    "el": """q'[r, h] = q[r, h] W_k[g],   p_n = softmax_n(scale * q'[r, h] . h[b, n])
a[r, h] = W_v[g] (sum_n p_n h[b, n]) + b_v[g]""",
    "el_split": """s_n = scale * (q[r, h] W_k[g] . h[b, n] + q[r, h] . b_k[g]),   s_t = scale * q[r, h] . k[r, g, t]
p = softmax over both
a[r, h] = W_v[g] (sum_n p_n h[b, n]) + (sum_n p_n) b_v[g] + sum_t p_t v[r, g, t]""",
    "reorder": "k[r, :, t] = k[parent[r], :, t]   for t < length[r],   all rows at once",
    "indirect": """s_n = scale * q[r, h] . prompt_k[b, g, n],   s_t = scale * q[r, h] . k[source[r, t], g, t]
p = softmax over both
a[r, h] = sum_n p_n prompt_v[b, g, n] + sum_t p_t v[source[r, t], g, t]""",
    "indirection": "source[r, t] = source[parent[r], t]   for t < length[r],   all rows at once",
    "paged_append": """p = table[r, at[r] // M],   m = at[r] mod M
(q[r], k[p, :, m], v[p, :, m]) = qkv[r] + bias,   cut into heads""",
    "paged": """x_m = table[r, m // M],   s_m = scale * q[r, h] . k[x_m, g, m mod M],   p = softmax over m
a[r, h] = sum_m p_m v[x_m, g, m mod M]""",
    "pages": "k[target[r]] = k[source[r]]   for every row r whose page becomes another",
    "sequences": """text[b, w, m] = text[b, parent[b, w], m]   for m < length[b],   all beams at once
text[b, w, length[b]] = token[b, w]""",
    "beam_update": """finished = the best W of: what had finished, and the candidates that end
running = the best W candidates that do not end""",
    "finished": """finished[b, w] = finished[b, slot[b, w]]                       if slot[b, w] < W
               = running[b, parent[b, c]] and token[b, c]     if slot[b, w] = W + c""",
    "flags": """flag = ALL_DONE [all are done] + SOME_DONE [any is done] + TROUBLE [anything is wrong]
     + MOVED [parent[b, w] != w for any beam]""",
    "extend": """tokens[r, length[r]] = token[r],   total[r] = total[r] + gained[r],   length[r] = length[r] + 1
for every row r that is not done""",
    "softmax": "scores[r, v] = logits[r, v] - log(sum_u exp(logits[r, u]))",
    "beam_scores": "scores[r, v] = scores[r, v] + running[r]",
    "rolling": ATTENTION.format("p", "r").replace(", p]", ", p mod M]") + ",   p: the last M positions",
    "candidates": "(score[b, c], index[b, c]) = the c-th largest of scores[b, x] over x, and its x",
    "hars": """score[b, c] = the c-th largest of base[b, w] + log_softmax(logits)[b, w, v] over (w, v)
parent[b, c], token[b, c] = its w and v""",
    "temperature": "scores[r, v] = scores[r, v] / temperature",
    "top_k": "scores[r, v] = -inf   where scores[r, v] < the k-th largest of scores[r]",
    "top_p": "scores[r, v] = -inf   but for the fewest likeliest tokens S with sum_{v in S} softmax(scores[r])[v] >= p",
    "typical": """H = mean surprise of the row,   d[v] = | -log softmax(scores[r])[v] - H |
scores[r, v] = -inf   but for the fewest tokens S of least d with sum_{v in S} softmax(scores[r])[v] >= mass""",
    "argmax": "token[r] = argmax_v scores[r, v],   logprob[r] = log_softmax(logits)[r, token[r]]",
    "sample": "token[r] = argmax_v (scores[r, v] + noise[r, v]),   noise as in gumbel: a draw from softmax(scores[r])",
    "gather": "logprob[r] = logprobs[r, token[r]]",
    "random": "noise[r, v] = -log(-log(u)),   u = Philox4x32-10(seed, key[r], step[r], v) in (0, 1)",
    "arena": """minimise  max_x (offset[x] + bytes[x])
so that x and y share no byte if first[x] <= last[y] and first[y] <= last[x]""",
}
