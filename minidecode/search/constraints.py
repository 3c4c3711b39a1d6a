"""Text by rule: a regular expression or a JSON schema that all of a new text must match (the extra `constrain`).

The library llguidance says which tokens may follow a beginning of a text. It does not say how many tokens an end takes.
So each text that runs has a known end: bytes that complete it, in no more tokens than it may still have. A token gets
through only if an end that fits is known behind it, too. Thus no text is cut off at its limit in the middle of a match.

What holds: a text that ends with EOS matches. Each text ends so, unless a stop string, stopping_criteria or max_time
ends it before. A call whose limit is below the shortest end that was found is refused before anything is computed.
What is lost: an end may exist where none is found, so near the limit a token may be ruled out that could have stayed;
and of each row the likeliest tokens alone get through, KEPT of them, top_k or KEPT_TO_SAMPLE where tokens are drawn.

Milliseconds a step for each row, inside a JSON string, where most tokens may follow (median, one core): 0.7 of
tiny-gpt2's 4,096 tokens and 0.8 of GPT-2's 50,257; 12 and 11 where tokens are drawn and top_k is 0.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import json
import re
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import MinidecodeError, OptionError, pip_install
from ..files.tokenizer import Tokenizer
from ..options.options import Options
from ..runtime.receipt import ConstraintCounts
from .schema_limits import check_schema, dicts_within
from .shortest_match import MOST, WalkBudget, shortest_json, shortest_match

KEPT = 64  # tokens of a row that get through where the likeliest are chosen: more than any search looks at
KEPT_TO_SAMPLE = 1024  # where tokens are drawn, and top_k does not say how many
SEARCHES = 3  # for new ends, of a row at a step, that find none
NEW_END, FIRST_END = 200, 10_000  # states that such a search looks at, and the one before the first token
MOST_TO_READ = 100_000  # characters of a pattern or schema
SHORT_END = 200  # bytes of an end, of which each part is counted in tokens once
LONG_ENDS = 8  # longer ones that are remembered, with a number for each byte
TRIED = 300_000  # bytes that a search tries
JOINED = 2**14  # bytes of old ends that a state of a search is tried with
GRAMMARS = 8  # whose matchers a vocabulary keeps for later calls
HINTS = 16  # texts that a search tries as a whole
END_OF_BYTES = 256  # the id of the end, where every byte is a token
SAME_LENGTH, SAME_MASK = 24, 4  # states that such a search follows at one length, and of these with one mask
MANY_BYTES = 24  # of more that may follow, a search tries these alone:
LIKELY_BYTES = b"\"'}])>,01259aAeZz :.;-_/\\{[(<+*=!?@#$%&|~^`\n\t"
JSON_FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}  # as json.dumps writes it


# ---- the library and a tokenizer -------------------------------------------------------------------------------------


def _import_library() -> Any:
    try:
        import llguidance
    except ModuleNotFoundError as error:
        raise MinidecodeError(
            f"the package {error.name} is missing: {pip_install('llguidance', 'constrain')}"
        ) from None
    return llguidance


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer as llguidance knows it, and its tokens as bytes."""

    backend: Any  # an llguidance.LLTokenizer
    words: dict[bytes, int]  # id of each token that is text
    text_of: dict[int, bytes]
    is_text_X: np.ndarray
    longest: int  # bytes of a token, at most
    roots: dict[str, tuple[Any, Any, bytes | None]] = field(default_factory=dict)  # by grammar: what `make` found

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> Vocabulary:
        """Raises OptionError on tokens that are not made of bytes, and on what the library cannot read."""
        if tokenizer.most_tokens(1) is None:
            raise OptionError(
                "regex and json_schema need a byte-level tokenizer, as of GPT-2 and BART, and this model's is another: "
                "leave them out, or use another model"
            )
        try:
            backend = _import_library().LLTokenizer(tokenizer.as_json())
        except ValueError as error:
            raise OptionError(
                f"llguidance cannot read this model's tokenizer ({_one_line_message(error)}): leave out"
                " regex and json_schema, "
                "or use another model"
            ) from None
        special = {*tokenizer.special_ids, *(i for i in range(backend.vocab_size) if backend.is_special_token(i))}
        text_of = {i: backend.decode_bytes([i]) for i in range(backend.vocab_size) if i not in special}
        words: dict[bytes, int] = {}
        for i, text in text_of.items():
            if text:
                words.setdefault(text, i)
        is_text_X = np.zeros(backend.vocab_size, bool)
        is_text_X[[i for i, text in text_of.items() if text]] = True
        return cls(backend, words, text_of, is_text_X, max(map(len, words), default=1))


_vocabularies: weakref.WeakKeyDictionary[Tokenizer, Vocabulary] = weakref.WeakKeyDictionary()


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """Read once for each tokenizer."""
    if tokenizer not in _vocabularies:
        _vocabularies[tokenizer] = Vocabulary.from_tokenizer(tokenizer)
    return _vocabularies[tokenizer]


def _likely_endings(options: Options) -> Iterator[str]:
    """Texts that a search for an end tries as a whole: what patterns match, and of objects what is behind the brace."""
    if options.regex is not None:
        yield shortest_match(options.regex) or ""
        return
    schema, budget = json.loads(str(options.json_schema)), WalkBudget()
    for part in dicts_within(schema):
        if isinstance(part.get("pattern"), str):
            yield shortest_match(part["pattern"]) or ""
        if isinstance(part.get("properties"), dict) and (text := shortest_json(part, schema, budget)):
            yield text[1:]  # behind {
            yield text[2:]  # and behind {"


def _single_bytes(text: bytes) -> list[bytes]:
    return [text[i : i + 1] for i in range(len(text))]


def _one_line_message(message: object) -> str:
    """The library's message without its pictures of the place: "what: why"."""
    text = str(message)
    lines = [line.strip() for line in text.splitlines()]
    if why := next((line for line in lines if line.startswith("error: ")), None):
        return why.removeprefix("error: ")
    return re.sub(r"^at \d+\(\d+\): (invalid regex \S+ \(in regex\): )?", "", lines[0] if lines else text)[:200]


class ByteTokens:
    """Every byte a token, and an end: what a search for an end goes by, for masks over a vocabulary take longer."""

    tokens = [*_single_bytes(bytes(range(256))), b"<|end|>"]  # noqa: RUF012
    eos_token_id, bos_token_id, special_token_ids = END_OF_BYTES, None, (END_OF_BYTES,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@functools.cache
def backend_of_bytes() -> Any:
    """Bytes as tokens, in llguidance's form."""
    library = _import_library()
    return library.LLTokenizer(library.TokenizerWrapper(ByteTokens()))


# ---- the constraint --------------------------------------------------------------------------------------------------


@dataclass
class Beginning:
    """A text so far: what may follow it, and bytes that complete it."""

    text: bytes
    matcher: Any  # an llguidance.LLMatcher
    end: bytes | None  # None: none is known
    ends: dict[int, bytes | None] = field(default_factory=dict)  # behind a token more
    searches: int = 0

    @functools.cached_property
    def allowed_X(self) -> np.ndarray:
        """Truth values: whether a token may follow, of as many ids as the library has."""
        return np.unpackbits(np.frombuffer(self.matcher.compute_bitmask(), np.uint8), bitorder="little").astype(bool)


@dataclass
class Constraint:
    """What new texts must match. Made for one generation, and asked at each of its steps."""

    name: str  # of the option
    vocabulary: Vocabulary
    root: Beginning
    by_byte: Any  # an LLMatcher of bytes at the beginning of a text
    hints: list[bytes]  # short matches of parts, which a search tries as a whole
    eos: list[int]  # ids that end a text and are no text themselves
    skipped: tuple[int, ...]  # a forced BOS, which is no text either
    kept: int  # tokens that get through, at most
    counts: ConstraintCounts = field(default_factory=ConstraintCounts)
    _step: int = -1
    _now: dict[tuple[int, ...], Beginning | None] = field(default_factory=dict)  # by new tokens
    _before: dict[tuple[int, ...], Beginning | None] = field(default_factory=dict)  # those of the step before
    _fewest: dict[bytes, int] = field(default_factory=dict)  # tokens of short ends, and
    _long: deque[tuple[bytes, list[int]]] = field(default_factory=lambda: deque(maxlen=LONG_ENDS))  # behind each byte

    @classmethod
    def make(cls, options: Options, tokenizer: Tokenizer | None, vocab_size: int) -> Constraint | None:
        """The options' constraint, or None. Raises OptionError on an unusable pattern, schema or tokenizer."""
        if (name := options.constraint) is None:
            return None
        if tokenizer is None:
            raise OptionError(f"{name} needs a tokenizer, and this model folder has none: add its tokenizer.json")
        library, vocabulary = _import_library(), vocabulary_of(tokenizer)
        eos = [i for i in options.eos_token_id if i in tokenizer.special_ids and i < vocab_size]
        if not eos:
            raise OptionError(
                f"{name} needs an eos_token_id that is a special token, for a text ends with it, and it is "
                f"{list(options.eos_token_id) or None}: give one of {tokenizer.special_ids}"
            )
        if (length := len(str(options.regex or options.json_schema))) > MOST_TO_READ:
            raise OptionError(f"{name} has {length:,} characters: make it simpler, at most {MOST_TO_READ:,} are read")
        if name == "json_schema":
            with contextlib.suppress(RecursionError):  # the library refuses what is nested so deep
                check_schema(json.loads(str(options.json_schema)))
        remedy = "mend the pattern" if name == "regex" else "mend the schema, or ask for less"
        try:
            if name == "regex":
                grammar = library.LLMatcher.grammar_from_regex(options.regex)
            else:
                grammar = library.LLMatcher.grammar_from_json_schema(options.json_schema, overrides=JSON_FORM)
        except ValueError as error:  # such as half a surrogate pair in a schema, or one that is nested too deep
            raise OptionError(f"{name} is refused by llguidance ({_one_line_message(error)}): {remedy}") from None
        first_hints: dict[str, None] = {}
        for hint in filter(None, _likely_endings(options)):
            first_hints[hint] = None
            if len(first_hints) == HINTS:
                break
        hints = [hint.encode("utf-8", "ignore") for hint in first_hints]
        hints = [hint for hint in hints if all(b in vocabulary.words for b in _single_bytes(hint))]
        if grammar not in vocabulary.roots:
            backends = vocabulary.backend, backend_of_bytes()
            matcher, by_byte = (library.LLMatcher(backend, grammar, log_level=0) for backend in backends)
            if matcher.get_error():
                raise OptionError(
                    f"{name} is refused by llguidance ({_one_line_message(matcher.get_error())}): {remedy}"
                )
            if len(vocabulary.roots) >= GRAMMARS:
                vocabulary.roots.clear()
            constraint = cls(name, vocabulary, Beginning(b"", matcher, None), by_byte, hints, eos, (), 1)
            vocabulary.roots[grammar] = matcher, by_byte, constraint._first_end(options)
        matcher, by_byte, end = vocabulary.roots[grammar]
        kept = KEPT
        if options.do_sample or options.renormalize_logits:
            kept = max(KEPT, options.top_k or 0) if options.do_sample and options.top_k else KEPT_TO_SAMPLE
        # A copy, for other threads may generate under the same grammar.
        root, kept = Beginning(b"", matcher.deep_copy(), end), max(kept, 4 * options.candidates)
        return cls(name, vocabulary, root, by_byte, hints, eos, options.forced_bos_token_id, kept)

    def check_limits(self, limit_B: Iterable[int], prompt_B: Iterable[int]) -> None:
        """Raises OptionError where a sentence may not have as many new tokens as the shortest known match takes."""
        if self.root.end is None:
            raise OptionError(
                f"{self.name}: no text that matches was found: mend it, or make it simpler (one of more than {MOST:,} "
                "bytes is not looked for)"
            )
        for limit, prompt in zip(limit_B, prompt_B, strict=True):
            needed = self._fewest_tokens(self.root.end) + 1 + (prompt == 1 and bool(self.skipped))
            if needed > limit:
                raise OptionError(
                    f"{self.name}: the shortest match that was found takes {needed} tokens with its end, and a text "
                    f"may have {limit}: give max_new_tokens={needed} or more, or shorten what must match"
                )

    def check_prefixes(self, prefixes: Sequence[Sequence[int]], limit_B: Sequence[int]) -> None:
        """Raises OptionError where the tokens that a text must begin with lead to no match within its limit."""
        for b, prefix in enumerate(prefixes):
            if not self.allows_prefix(prefix, limit_B[b]):
                raise OptionError(
                    f"prefix_tokens of sentence {b + 1} begin no text that {self.name} allows within {limit_B[b]} "
                    "tokens: give others, or a higher max_new_tokens"
                )

    def allows_prefix(self, prefix: Iterable[int], limit: int) -> bool:
        """Whether a match within the limit is known that begins with these tokens."""
        beginning: Beginning | None = self.root
        fixed = list(itertools.takewhile(lambda i: i >= 0 and i not in self.eos, prefix))
        for token in fixed[1:] if fixed[:1] and fixed[0] in self.skipped else fixed:
            beginning = self._state_after_token(beginning, token)
        end = None if beginning is None else beginning.end
        return end is not None and len(fixed) + self._fewest_tokens(end) + 1 <= limit

    def continuations(self, ids: tuple[int, ...], scores_V: np.ndarray, left: int) -> list[int]:
        """The tokens that may follow the new tokens `ids`: they continue a match, and an end fits into what is left.

        Counts what it rules out. Call `forget_older_steps` first.
        """
        beginning = self._state_after(ids)
        allowed_V = self._allowed_tokens(beginning, len(scores_V))
        self.counts.of += len(scores_V)
        self.counts.masked += len(scores_V) - int(allowed_V.sum())
        return self._tokens_that_can_end(beginning, allowed_V, scores_V, left)

    def token_towards_end(self, ids: tuple[int, ...]) -> int | None:
        """The next token of the known end behind `ids`; None where they begin no match."""
        beginning = self._state_after(ids)
        return None if beginning is None else self._take_next_of_end(beginning)

    def forget_older_steps(self, step: int) -> None:
        """Beginnings of the last step alone are kept; diverse groups ask several times in a step."""
        if step != self._step:
            self._step, self._before, self._now = step, self._now, {}

    def _state_after(self, ids: tuple[int, ...]) -> Beginning | None:
        """The state after these tokens, one token on from the step before; None where they match nothing."""
        if ids not in self._now:
            if not ids:
                self._now[ids] = self.root
            elif ids[:-1] in self._before:
                self._now[ids] = self._state_after_token(self._before[ids[:-1]], ids[-1])
            else:  # a search of another step's texts, which no search of ours does
                beginning: Beginning | None = self.root
                for i in ids:
                    beginning = self._state_after_token(beginning, i)
                self._now[ids] = beginning
        return self._now[ids]

    def _state_after_token(self, beginning: Beginning | None, token: int) -> Beginning | None:
        if beginning is None or token not in self.vocabulary.text_of:
            return None
        matcher = beginning.matcher.deep_copy()
        if not matcher.consume_token(token):
            return None
        if token not in beginning.ends:  # a token of no mask of ours
            beginning.ends[token] = self._find_end_behind(beginning, token, np.inf)
        end = beginning.ends[token]
        return None if end is None else Beginning(beginning.text + self.vocabulary.text_of[token], matcher, end)

    def _allowed_tokens(self, beginning: Beginning | None, V: int) -> np.ndarray:
        """Truth values of V tokens. A model may have more ids than its tokenizer, and these are no text."""
        allowed_V = np.zeros(V, bool)
        if beginning is not None:
            known = min(V, self.vocabulary.backend.vocab_size)
            allowed_V[:known] = beginning.allowed_X[:known]
            allowed_V[:known] &= self.vocabulary.is_text_X[:known]
            allowed_V[self.eos] = beginning.matcher.is_accepting()
        return allowed_V

    def _tokens_that_can_end(
        self, beginning: Beginning | None, allowed_V: np.ndarray, scores_V: np.ndarray, left: int
    ) -> list[int]:
        """The likeliest of the tokens that are allowed and possible and let the text end in time; left: tokens."""
        possible = np.flatnonzero(allowed_V & (scores_V > -np.inf))
        if beginning is None or not len(possible):
            return []
        asked = 4 * self.kept
        if len(possible) > asked:
            possible = possible[np.argpartition(-scores_V[possible], asked)[:asked]]
        stays: list[int] = []
        beginning.searches = 0
        for i in possible[np.argsort(-scores_V[possible], kind="stable")].tolist():
            if i in self.eos or self._ends_within(beginning, i, left):
                stays.append(i)
                if len(stays) == self.kept:
                    return stays
            else:
                self.counts.too_long += 1
        return stays or [self._take_next_of_end(beginning)]

    def _take_next_of_end(self, beginning: Beginning) -> int:
        """The first of the fewest tokens of the end that is known."""
        if not beginning.end:
            return self.eos[0]
        token = self._first_token(beginning.end)
        beginning.ends[token] = beginning.end[len(self.vocabulary.text_of[token]) :]
        return token

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _ends_within(self, beginning: Beginning, token: int, left: int) -> bool:
        """Whether an end is known behind this token that needs, with EOS, no more than the tokens left behind it."""
        most, end = left - 2, beginning.ends.get(token)
        if end is None or self._fewest_tokens(end) > most:
            end = beginning.ends[token] = self._find_end_behind(beginning, token, most)
        return end is not None

    def _find_end_behind(self, beginning: Beginning, token: int, most: float) -> bytes | None:
        """The end that was known, or what is left of it, if it completes this, too; else one that is searched for.

        most: tokens that it may have.
        """
        text = self.vocabulary.text_of[token]
        end = self._reuse_old_end(beginning.matcher, [token], beginning.end, most, len(text))
        # A new end is seldom shorter.
        has_no_room = beginning.end is not None and most < self._fewest_tokens(beginning.end)
        if end is not None or has_no_room or beginning.searches >= SEARCHES:
            return end
        beginning.searches += 1
        end = self._search_end(beginning.text + text, beginning.end, most, NEW_END)
        beginning.searches -= end is not None  # those that fail are counted
        return end

    def _reuse_old_end(
        self, matcher: Any, tokens: list[int], old: bytes | None, most: float, likely_cut: int = 0
    ) -> bytes | None:
        """The rest of a known end after a cut, if it completes the matcher's text and these tokens."""
        if old is None:
            return None
        first, last = range(min(4, len(old))), range(max(len(old) - 8, 0), len(old) + 1)
        for cut in dict.fromkeys([min(likely_cut, len(old)), *first, *last]):
            if self._fewest_tokens(old[cut:]) <= most:
                ids = [*tokens, *self._byte_ids(old[cut:]), self.vocabulary.backend.eos_token]
                if matcher.validate_tokens(ids) == len(ids):
                    return old[cut:]
        return None

    def _byte_ids(self, text: bytes) -> list[int]:
        """A token for each byte."""
        return [self.vocabulary.words[text[i : i + 1]] for i in range(len(text))]

    def _first_end(self, options: Options) -> bytes | None:
        """A short text that matches: what a walk through the pattern or schema says, or else what a search finds."""
        is_regex = self.name == "regex"
        shortest = (
            shortest_match(str(options.regex)) if is_regex else shortest_json(json.loads(str(options.json_schema)))
        )
        text = None if shortest is None else shortest.encode("utf-8", "ignore")
        if text is not None and len(text) <= MOST and self._is_text(text):
            ids = [*text, END_OF_BYTES]
            if self.by_byte.validate_tokens(ids) == len(ids):
                return text
        return self._search_end(b"", None, np.inf, FIRST_END)

    def _search_end(self, text: bytes, old: bytes | None, most: float, states: int) -> bytes | None:
        """A short end of a text, in at most `most` tokens: bytes alone, or bytes and then the rest of the old end.

        It goes byte by byte, the shortest first; a hint counts as one byte. Bytes behind which the same may follow are
        mostly the same to a pattern: of these the first is tried. Of texts of one length a few are followed, those
        first that turned off the first byte's way seldom, and long ago: they are the furthest on. So what is found is
        an end, and mostly a short one; where none is found within this many states, one may still exist.
        """
        start = self.by_byte.deep_copy()
        start.consume_tokens(list(text))
        heap, order, followed, tried = [(0, 0, 0, 0, b"", start)], 0, Counter[Any](), 0
        for _ in range(states):
            if not heap or tried > TRIED:
                return None
            length, turns, last_turn, _, more, state = heapq.heappop(heap)
            if most < np.inf and self._fewest_tokens(more) > most + 1:
                continue
            if state.is_accepting() and self._fewest_tokens(more) <= most:
                return more
            if old is not None and (end := self._end_by_old_end(state, more, old, most)) is not None:
                return end
            if forced := state.compute_ff_bytes():
                following = [forced] if self._is_text(forced) else []
            else:
                mask = state.compute_bitmask()
                followed[length] += 1
                followed[length, mask] += 1
                if followed[length] > SAME_LENGTH or followed[length, mask] > SAME_MASK:
                    continue
                allowed_X = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
                following = self._bytes_that_follow(allowed_X)
            hints = [hint for hint in self.hints if (hint[0] == forced[0] if forced else allowed_X[hint[0]])]
            masks: set[Any] = set()
            for piece in [*following, *hints]:
                if len(more) + len(piece) > MOST:
                    continue
                tried, after = tried + len(piece), state.deep_copy()
                if not after.consume_tokens(list(piece)):
                    continue
                mask = after.compute_bitmask(), after.compute_ff_bytes(), after.is_accepting()
                if mask not in masks or piece in hints:
                    way = (turns + 1, length) if masks else (turns, last_turn)
                    masks.add(mask)
                    order += 1
                    cost = 1 if piece in hints else len(piece)
                    heapq.heappush(heap, (length + cost, *way, order, more + piece, after))
        return None

    def _end_by_old_end(self, state: Any, more: bytes, old: bytes, most: float) -> bytes | None:
        """These bytes and what is left of the old end, if that completes the state's text.

        Of a long end, a few cuts are tried: near its begin and near its end.
        """
        most, half = most - self._fewest_tokens(more), max(2, JOINED // (len(old) + 1) // 2)
        first, last = range(min(half, len(old))), range(max(len(old) - half, 0), len(old) + 1)
        for cut in dict.fromkeys([*first, *last]):
            if self._fewest_tokens(old[cut:]) <= most:
                ids = [*old[cut:], END_OF_BYTES]
                if state.validate_tokens(ids) == len(ids):
                    return more + old[cut:]
        return None

    def _bytes_that_follow(self, allowed_X: np.ndarray) -> list[bytes]:
        """The bytes to try: ASCII first; where there are many, the likely ends."""
        following = [b for b in self._likely_end_bytes if allowed_X[b[0]]]
        following = [b for b in following if b < b"\x80"] or following
        if len(following) > MANY_BYTES:
            following = [b for b in following if b in LIKELY_BYTES] or following[:MANY_BYTES]
        return following

    def _is_text(self, text: bytes) -> bool:
        """Whether each byte is a token."""
        return all(b in self.vocabulary.words for b in _single_bytes(text))

    @functools.cached_property
    def _likely_end_bytes(self) -> list[bytes]:
        """The bytes that are tokens, likely ends first."""
        single = [b for b in _single_bytes(bytes(range(256))) if b in self.vocabulary.words]
        return sorted(single, key=lambda b: LIKELY_BYTES.find(b) if b in LIKELY_BYTES else len(LIKELY_BYTES))

    def _fewest_tokens(self, text: bytes) -> int:
        """The fewest tokens that a text can be cut into."""
        if text in self._fewest:
            return self._fewest[text]
        for whole, fewest in self._long:
            if whole.endswith(text):
                return fewest[len(whole) - len(text)]
        words, longest, fewest = self.vocabulary.words, self.vocabulary.longest, [0] * (len(text) + 1)
        for i in range(len(text) - 1, -1, -1):
            ends = range(i + 1, min(i + longest, len(text)) + 1)
            fewest[i] = 1 + min(fewest[j] for j in ends if text[i:j] in words)
        if len(text) > SHORT_END:
            self._long.appendleft((text, fewest))
        else:
            self._fewest |= {text[i:]: number for i, number in enumerate(fewest)}
        return fewest[0]

    def _first_token(self, text: bytes) -> int:
        """The first of the fewest tokens."""
        words, fewest = self.vocabulary.words, self._fewest_tokens(text)
        ends = range(1, min(self.vocabulary.longest, len(text)) + 1)
        return words[text[: next(j for j in ends if text[:j] in words and self._fewest_tokens(text[j:]) == fewest - 1)]]
