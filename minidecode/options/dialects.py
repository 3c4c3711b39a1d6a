"""Dialects: where the systems that we mirror differ, as data. The loops in greedy.py and beam.py read it.

| rule                    | hf (transformers 5)      | hf4 (transformers 4.49)    | fairseq (0.10.2)          |
|-------------------------|--------------------------|----------------------------|---------------------------|
| greedy search processes | logits                   | logits                     | log-probabilities         |
| temperature             | when sampling            | when sampling              | always, before softmax    |
| finished hypotheses     | the best W               | the best W                 | the first W               |
| a sentence stops when   | its best running beam    | its best candidate         | W have finished           |
|                         | cannot beat the worst    | cannot beat the worst      |                           |
| forced BOS              | certain                  | certain                    | keeps its log-probability |
| at the most tokens      | the W best candidates    | the W running beams are    | EOS is forced             |
|                         | count as finished        | finished as they are       |                           |
| EOS drawn with a beam   | among the W best drawn   | among the W best drawn     | (refused)                 |
| diverse groups          | (as hf4)                 | a beam search each         | interleaved, one search   |

hf follows the newest transformers: since 5.24 the candidates that a step draws with several beams are sorted by score
before beams are chosen, as in 4.49. 5.0 to 5.23 kept the order of the draw, so the first W drawn could end; no dialect
here has that rule.

A beam that is out of play scores -1e9 in both of Hugging Face's, so that it can still come back, and -inf in fairseq.

unilm (s2s-ft, the code of UniLM) is hf but for these rules:

- A step looks at W candidates. One that ends takes the place of one that would go on.
- A sentence stops when no running beam can beat the worst finished text, however long it gets. s2s-ft itself goes on to
  the most tokens, and finds the same texts.
- Scores have the norm of GNMT.
- There is no sampling and there are no groups.
- A ban of single tokens does not count the EOS that targets begin with.

s2s-ft searches with one beam without a least length and without a ban of n-grams. Here both hold for one beam, too.

ctranslate2 (4.8.5) is hf but for these rules:

- Processors change logits. Scores are the log-probabilities of what they leave: a ban makes other tokens likelier.
- Bans and penalties look at the new tokens alone, not at the prompt or the token that targets begin with.
- EOS alone can be a bad word.
- A sentence stops when num_beams * patience texts have finished, rounded, whatever still runs. With length_penalty 0 it
  stops when num_return_sequences texts have finished, and one of these was the best candidate of its step.
- The tokens of a prefix are certain. Behind it, only the best candidate may end at once.
- There is one EOS with beams. There is no sampling, there are no groups and no forced tokens.

lightseq (3.0, by its code; docs/INTERNALS.md names the lines) is hf but for these rules:

- A text that ends keeps its beam. Each step ranks the texts that have ended and the continuations of the others, by
  their scores, and the W best of both stay. One that falls behind is lost.
- A sentence stops when all W have ended.
- Scores have the norm of GNMT.
- There is no sampling and there are no groups. LightSeq has no bans, least length or forced tokens. Here they hold as
  in unilm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Dialect:
    """The rules of one system. Its processors, and their order, stand in search/processors.py."""

    name: str
    out_of_play: float
    greedy_scores: Literal["logits", "log-probabilities"] = "logits"
    softmax: Literal["first", "last"] = "first"  # before the processors, or behind them
    temperature_in_softmax: bool = False
    finished: Literal["best", "first"] = "best"
    stop: Literal["running", "candidate", "full", "limit", "counted", "shared"] = "running"
    at_limit: Literal["candidates", "running", "eos"] = "candidates"
    groups: Literal["apart", "interleaved"] = "apart"
    all_go_on: bool = True  # whether W beams go on from a step in which some end
    norm: Literal["asked", "gnmt"] = "asked"  # of a length: the options', or always this one
    bans_see_prompts: bool = True  # whether bans and penalties look at what texts begin with, too
    bans_eos: bool = False  # whether EOS alone can be a bad word
    ends_behind_prefix: Literal["all", "best"] = "all"  # which candidates may end right behind a prefix
    defaults: dict[str, object] = field(default_factory=dict)


HF = Dialect("hf", -1.0e9, defaults={"top_k": 50})
HF4 = Dialect(
    "hf4",
    -1.0e9,
    stop="candidate",
    at_limit="running",
    defaults={"top_k": 50},
)
FAIRSEQ = Dialect(
    "fairseq", float("-inf"), greedy_scores="log-probabilities", temperature_in_softmax=True,
    finished="first", stop="full", at_limit="eos", groups="interleaved", defaults={"min_new_tokens": 1},
)  # fmt: skip
UNILM = Dialect("unilm", -1.0e9, stop="limit", all_go_on=False, norm="gnmt", defaults={"min_new_tokens": 1})
CTRANSLATE2 = Dialect(
    "ctranslate2", float("-inf"), greedy_scores="log-probabilities", softmax="last", stop="counted",
    bans_see_prompts=False, bans_eos=True, ends_behind_prefix="best",
)  # fmt: skip
LIGHTSEQ = Dialect("lightseq", float("-inf"), stop="shared", norm="gnmt")
DIALECTS = {d.name: d for d in (HF, HF4, FAIRSEQ, UNILM, CTRANSLATE2, LIGHTSEQ)}
