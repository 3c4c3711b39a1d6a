"""Options that other programs have: what to type here for them."""

from __future__ import annotations

THREADS = "set the variables NUMBA_NUM_THREADS, of compiled code, and OPENBLAS_NUM_THREADS, of NumPy"
# name -> (the option that this command must have for the answer to be true, "" for any; the answer)
ANSWERS = {
    "--stream": ("--num-beams", "a single text is shown as it grows, without an option"),
    "--use-cache": ("--plan", "the plan chooses the cache: --plan cache=none runs without one"),
    "--no-cache": ("--plan", "say --plan cache=none"),
    "--n-predict": ("--max-new-tokens", "say --max-new-tokens"),
    "--max-gen-len": ("--max-new-tokens", "say --max-new-tokens"),
    "--num-samples": ("--num-return-sequences", "say --num-return-sequences, with --do-sample"),
    "--best-of": ("--num-return-sequences", "say --num-beams for the best of several"),
    "--temp": ("--temperature", "say --temperature"),
    "--greedy": ("--num-beams", "it is the default: leave it out"),
    "--repeat-penalty": ("--repetition-penalty", "say --repetition-penalty"),
    "--presence-penalty": ("--repetition-penalty", "the nearest is --repetition-penalty"),
    "--frequency-penalty": ("--repetition-penalty", "the nearest is --repetition-penalty"),
    "--logit-bias": ("--sequence-bias", "say --sequence-bias"),
    "--grammar": ("--regex", "say --regex or --json-schema"),
    "--prompt": ("--num-beams", 'a prompt stands without an option: minidecode generate "TEXT"'),
    "-p": ("--num-beams", 'a prompt stands without an option: minidecode generate "TEXT"'),
    "--file": ("--input", "say --input"),
    "-f": ("--input", "say --input"),
    "--output-file": ("--output", "say --output"),
    "--model-name": ("--model", "say --model"),
    "--model-path": ("--model", "say --model"),
    "--model-name-or-path": ("--model", "say --model"),
    "--system-prompt": ("--system", "say --system"),
    "--conversation": ("--chat", "say --chat, or minidecode chat"),
    "--interactive": ("--chat", "say minidecode chat"),
    "--gpu": ("--device", "say --device cuda"),
    "--cuda": ("--device", "say --device cuda"),
    "--cpu": ("--device", "it is the default: leave it out"),
    "--fp16": ("--dtype", "say --dtype float16"),
    "--half": ("--dtype", "say --dtype float16"),
    "--bf16": ("--dtype", "bfloat16 files load as float32; --dtype float16 stores weights in half"),
    "--load-in-8bit": ("--dtype", "say --dtype int8"),
    "--load-in-4bit": ("--dtype", "say --dtype int4"),
    "--quantize": ("--dtype", "say --dtype int8, int8_dynamic or int4"),
    "--threads": ("", THREADS),
    "-t": ("", THREADS),
    "--verbose": ("--receipt", "say --receipt"),
    "-v": ("--receipt", "say --receipt"),
}


def answer_for_option(option: str, known: set[str]) -> str:
    """What to type for an option of another program, or "". known: this command's options."""
    needed, words = ANSWERS.get(option, ("", ""))
    return words if not needed or needed in known else ""


def replace_underscores_by_dashes(option: str) -> str:
    """--max_new_tokens, as in Python, is --max-new-tokens."""
    return option.replace("_", "-")
