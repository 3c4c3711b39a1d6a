"""`minidecode fairseq-generate` and `fairseq-interactive`: fairseq's programs of these names, line for line.

Their options are fairseq's own, read as fairseq reads them. H- and D- lines have a hypothesis's score in base 2, and
P- lines those of its tokens, </s> included.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer

from ..bench.bleu4 import Bleu4
from ..errors import OptionError, pip_install
from ..files.fairseq_data import Pair, check_data_folder, cut_into_batches
from ..files.fairseq_folder import convert_fairseq
from ..files.fairseq_tokenizer import BOS, EOS, PAD, SPECIAL, UNKNOWN, Codes, Dictionary
from ..lines.records import decode_line

if TYPE_CHECKING:
    from ..model import Model

JOINS = {"sentencepiece": "\u2581", "wordpiece": "_", "letter": "|"}  # what stands for a space between words
BPE = {"subword_nmt": "@@ ", "@@ ": "@@ ", "@@": "@@"}
# What changes no line here: how fast it runs, what is logged, and fastseq's options.
NO_EFFECT = (
    "--cpu", "--fp16", "--no-progress-bar", "--memory-efficient-fp16", "--use-el-attn", "--decode-hypothesis",
)  # fmt: skip
NO_EFFECT_WITH_VALUE = (
    "--num-workers", "--log-format", "--log-interval", "--seed", "--task", "--dataset-impl", "--user-dir",
    "--postprocess-workers", "--data-buffer-size",
)  # fmt: skip

Given = Annotated[list[str] | None, typer.Argument(metavar="DATA --path MODEL.pt [OPTIONS]", help="As for fairseq's.")]


def fairseq_generate(given: Given = None) -> None:
    """Translate a data folder, as fairseq does.

    DATA is what fairseq-preprocess wrote: a folder with dict.SRC.txt, dict.TGT.txt and test.SRC-TGT.SRC.idx. The
    options are fairseq's: --beam, --nbest, --lenpen, --unkpen, --max-len-a, --max-len-b, --min-len, --remove-bpe,
    --no-repeat-ngram-size, --scoring, --quiet, --batch-size, --max-tokens, --prefix-size, --gen-subset. --plan is
    minidecode's.
    """
    asked = parse_options("fairseq-generate", given or [])
    pair = Pair.from_folder(Path(asked.data), asked.source_lang, asked.target_lang)
    sources, targets = (pair.sentences(asked.gen_subset, side) for side in ("source", "target"))
    if sources is None:
        raise OptionError(f"{asked.data} has no subset {asked.gen_subset!r}: name one with --gen-subset")
    if targets is not None and len(targets) != len(sources):
        raise OptionError(f"{asked.data} has {len(sources)} sources and {len(targets)} targets: preprocess both again")
    program = Program.start(asked, pair)
    scorer = make_scorer(asked) if targets is not None else None
    sizes = [np.array([len(ids) for ids in side]) for side in (sources, targets) if side is not None]
    multiple = asked.required_batch_size_multiple or 8
    tokens = 12000 if asked.max_tokens is None and asked.batch_size is None else asked.max_tokens
    for batch in cut_into_batches(sizes, tokens, asked.batch_size, multiple):
        prefixes = [targets[i][: asked.prefix_size] for i in batch] if asked.prefix_size and targets else None
        for i, hypotheses in zip(batch, program.translate([sources[i] for i in batch], prefixes), strict=True):
            lines = [f"S-{i}\t{program.source_text(sources[i])}"]
            reference = None
            if targets is not None:
                reference = program.text_of_ids(pair.target, targets[i], escaped=True)
                lines.append(f"T-{i}\t{reference}")
            lines += itertools.chain.from_iterable(program.lines_of_hypothesis(i, each) for each in hypotheses)
            if not asked.quiet:
                print("\n".join(lines))
            if scorer is not None and targets is not None and hypotheses:
                scorer.add(
                    targets[i], hypotheses[0].tokens, reference, program.text_of_ids(pair.target, hypotheses[0].tokens)
                )
    if scorer is not None:
        print(f"Generate {asked.gen_subset} with beam={asked.beam}: {scorer}")


def fairseq_interactive(given: Given = None) -> None:
    """Translate lines, as fairseq does.

    DATA is a folder with dict.SRC.txt and dict.TGT.txt. The options are those of fairseq-generate, and --input,
    --buffer-size, --bpe subword_nmt, --bpe-codes.
    """
    asked = parse_options("fairseq-interactive", given or [])
    pair = Pair.from_folder(Path(asked.data), asked.source_lang, asked.target_lang)
    program, first = Program.start(asked, pair), 0
    name = "standard input" if asked.input == "-" else asked.input
    with sys.stdin.buffer if asked.input == "-" else open(asked.input, "rb") as file:
        texts = (decode_line(line, f"{name}, line {number}").strip() for number, line in enumerate(file, 1))
        while lines := list(itertools.islice(texts, max(1, asked.buffer_size))):
            sources = [program.encode(line) for line in lines]
            translated: dict[int, tuple[list[Hypothesis], float]] = {}
            sizes = [np.array([len(ids) for ids in sources])]
            most = 1 if asked.max_tokens is None and asked.batch_size is None else asked.batch_size
            for batch in cut_into_batches(sizes, asked.max_tokens, most, asked.required_batch_size_multiple or 1):
                began = time.perf_counter()
                replies = program.translate([sources[i] for i in batch])
                seconds = (time.perf_counter() - began) / len(batch)
                translated |= {int(i): (hypotheses, seconds) for i, hypotheses in zip(batch, replies, strict=True)}
            for i, ids in enumerate(sources):
                hypotheses, seconds = translated[i]
                print(f"S-{first + i}\t{program.source_text(ids)}\nW-{first + i}\t{seconds:.3f}\tseconds")
                for hypothesis in hypotheses:
                    print("\n".join(program.lines_of_hypothesis(first + i, hypothesis)))
            sys.stdout.flush()
            first += len(lines)


@dataclass
class Hypothesis:
    """A translation: its tokens with </s>, its score, and that of each token, natural logarithms."""

    tokens: np.ndarray
    score: np.float32
    token_scores: np.ndarray


@dataclass
class Program:
    """The model and the options of one run."""

    asked: argparse.Namespace
    pair: Pair
    model: Model
    codes: Codes | None

    @classmethod
    def start(cls, asked: argparse.Namespace, pair: Pair) -> Program:
        """The checkpoint is converted into a temporary folder, with the dictionaries of the data folder."""
        from ..loading import load

        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "model"
            convert_fairseq(
                asked.path, out, source_lang=pair.source_lang, target_lang=pair.target_lang, dictionaries=pair.folder
            )
            model = load(out, plan=asked.plan)
        return cls(asked, pair, model, Codes.from_file(Path(asked.bpe_codes)) if asked.bpe_codes else None)

    def encode(self, line: str) -> np.ndarray:
        """Token ids of a source, </s> at the end."""
        return self.pair.source.encode(line if self.codes is None else self.codes.split_text(line))

    def translate(self, sources: list[np.ndarray], prefixes: list[np.ndarray] | None = None) -> list[list[Hypothesis]]:
        """The --nbest hypotheses of each source of a batch. The limit follows the longest source of the batch."""
        asked, context = self.asked, self.model.config.context
        limit = min(int(asked.max_len_a * max(map(len, sources)) + asked.max_len_b), context - 1)
        out = self.model.generate(
            input_ids=[ids.tolist() for ids in sources], prefix_tokens=prefixes, generation_config=False,
            keep="token_scores", dialect="fairseq", num_beams=asked.beam,
            num_return_sequences=min(asked.nbest, asked.beam), max_len_b=limit, min_new_tokens=asked.min_len,
            length_penalty=0.0 if asked.unnormalized else asked.lenpen, unk_penalty=asked.unkpen,
            no_repeat_ngram_size=asked.no_repeat_ngram_size, match_source_len=asked.match_source_len,
            temperature=asked.temperature, eos_token_id=EOS, pad_token_id=PAD, unk_token_id=UNKNOWN,
            decoder_start_token_id=EOS,
        )  # fmt: skip
        assert out.kept is not None  # it was asked for
        hypotheses_of: list[list[Hypothesis]] = [[] for _ in sources]
        for h, (ids, score, each) in enumerate(zip(out.token_ids, out.scores, out.kept.token_scores, strict=True)):
            if len(ids):
                hypotheses_of[h * len(sources) // len(out)].append(Hypothesis(ids, np.float32(score), each))
        return hypotheses_of

    def text_of_ids(self, dictionary: Dictionary, ids: Sequence[int] | np.ndarray, escaped: bool = False) -> str:
        """Words by id, without <s> and </s>, their pieces joined if --remove-bpe asks for it."""
        unknown = "<<unk>>" if escaped else "<unk>"
        text = " ".join(unknown if i == UNKNOWN else dictionary.words[i] for i in ids if i not in (BOS, EOS))
        symbol = self.asked.post_process
        if symbol in JOINS:
            return text.replace(" ", "").replace(JOINS[symbol], " ").strip()
        return f"{text} ".replace(BPE[symbol], "").rstrip() if symbol in BPE else text

    def source_text(self, ids: np.ndarray) -> str:
        """What an S- line says."""
        return self.text_of_ids(self.pair.source, ids)

    def lines_of_hypothesis(self, number: int, hypothesis: Hypothesis) -> Iterator[str]:
        """H-, D- and P- of one hypothesis."""
        text, base = self.text_of_ids(self.pair.target, hypothesis.tokens), np.float32(math.log(2))
        score = float(hypothesis.score / base)
        plain = f"{text} ".replace("@@ ", "").rstrip() if self.asked.bpe == "subword_nmt" else text
        yield f"H-{number}\t{score}\t{text}"
        yield f"D-{number}\t{score}\t{plain}"
        yield f"P-{number}\t{' '.join(f'{float(each / base):.4f}' for each in hypothesis.token_scores)}"


class BleuOfIds:
    """fairseq's default scoring."""

    def __init__(self, joined: bool):
        self.bleu, self.joined = Bleu4(), joined
        self.numbers: dict[str, int] = {}

    def add(self, target: np.ndarray, ids: np.ndarray, reference: str, text: str) -> None:
        """Token ids; where pieces are joined, words, each a number."""
        if self.joined:
            self.bleu.add(self._number_words(reference), self._number_words(text))
        else:
            self.bleu.add(target.tolist(), ids.tolist())

    def _number_words(self, text: str) -> list[int]:
        return [UNKNOWN if word == "<unk>" else self.numbers.setdefault(word, len(self.numbers) + len(SPECIAL))
                for word in text.split()]  # fmt: skip

    def __str__(self) -> str:
        return str(self.bleu)


class BleuOfTexts:
    """--scoring sacrebleu."""

    def __init__(self) -> None:
        self.references: list[str] = []
        self.texts: list[str] = []

    def add(self, target: np.ndarray, ids: np.ndarray, reference: str, text: str) -> None:
        """Texts alone."""
        self.references.append(reference)
        self.texts.append(text)

    def __str__(self) -> str:
        import sacrebleu

        return sacrebleu.corpus_bleu(self.texts, [self.references], tokenize="13a").format()


def make_scorer(asked: argparse.Namespace) -> BleuOfIds | BleuOfTexts:
    """What --scoring names. Raises OptionError where its package is missing."""
    if asked.scoring == "bleu" and not asked.sacrebleu:
        return BleuOfIds(asked.post_process is not None)
    try:
        import sacrebleu  # noqa: F401
    except ImportError:
        raise OptionError(f"--scoring sacrebleu needs it: {pip_install('sacrebleu', 'evaluate')}") from None
    return BleuOfTexts()


class OneLineParser(argparse.ArgumentParser):
    """A wrong option is one line, as in the other commands: without all options there are."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"minidecode: {message} (see {self.prog} --help)\n")


def parse_options(name: str, given: list[str]) -> argparse.Namespace:
    """fairseq's options. A wrong one ends the program with exit code 2, as there."""
    parser = OneLineParser(f"minidecode {name}", add_help=False)
    add: Any = parser.add_argument
    add("data")
    add("--path", help="checkpoint_best.pt")
    add("--plan", default="fast", help="minidecode's own: how it computes")
    add("-s", "--source-lang")
    add("-t", "--target-lang")
    for option, kind, value in (
        ("--beam", int, 5), ("--nbest", int, 1), ("--lenpen", float, 1.0), ("--unkpen", float, 0.0),
        ("--max-len-a", float, 0.0), ("--max-len-b", int, 200), ("--min-len", int, 1),
        ("--no-repeat-ngram-size", int, 0), ("--temperature", float, 1.0), ("--prefix-size", int, 0),
        ("--max-tokens", int, None), ("--buffer-size", int, 0), ("--required-batch-size-multiple", int, None),
        ("--gen-subset", str, "test"), ("--input", str, "-"), ("--bpe-codes", str, None),
    ):  # fmt: skip
        add(option, type=kind, default=value)
    add("--batch-size", "--max-sentences", type=int)
    add("--post-process", "--remove-bpe", nargs="?", const="@@ ", choices=[*BPE, *JOINS])
    add("--scoring", choices=["bleu", "sacrebleu"], default="bleu")
    add("--bpe", choices=["subword_nmt"])
    for option in ("--sacrebleu", "--quiet", "--unnormalized", "--match-source-len", *NO_EFFECT):
        add(option, action="store_true")
    for option in NO_EFFECT_WITH_VALUE:
        add(option)
    asked = parser.parse_args(given)
    check_data_folder(Path(asked.data))
    if asked.path is None:
        parser.error("--path is missing: name the checkpoint, such as --path checkpoint_best.pt")
    if ":" in asked.path:
        raise OptionError("--path names several checkpoints: an ensemble is not supported, so give one")
    if asked.task not in (None, "translation"):
        raise OptionError(f"--task {asked.task} is not supported: translation is")
    if asked.match_source_len and name == "fairseq-interactive":
        raise OptionError("--match-source-len is for fairseq-generate: leave it out")
    return asked
