"""A small evaluation for lm-evaluation-harness, written as files: its data and its tasks need no network.

Endings as in HellaSwag, words to be guessed as in LAMBADA, a text to be read whole, and a text to be continued.
"""

from __future__ import annotations

import json
from pathlib import Path

ENDINGS = [
    ("Fellow citizens, the war", ["is over, and the people", "whale whale of the deck", "ing ing ing"]),
    ("It is the duty of the", ["sea to be a ship.", "Government to the people.", "United States"]),
    ("The captain stood upon the", ["deck", "Constitution of our country, and of the treasury", "law, and the law"]),
    ("We have", ["been at peace with", "Queequeg\u2019s harpoon and pipe", "have have"]),
    ("The", ["United States of America", "d", "citizen"]),
]
TASKS = {
    "endings": """\
output_type: multiple_choice
doc_to_text: "{{start}}"
doc_to_choice: "{{endings}}"
doc_to_target: 0
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "guesses": """\
output_type: loglikelihood
doc_to_text: "{{start}}"
doc_to_target: "{{guess}}"
metric_list: [{metric: acc}, {metric: perplexity}]
""",
    "reading": """\
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{start}} {{endings[0]}}"
metric_list: [{metric: bits_per_byte}]
""",
    "going_on": """\
output_type: generate_until
doc_to_text: "{{start}}"
doc_to_target: "{{guess}}"
generation_kwargs: {until: ["."], max_gen_toks: 12, do_sample: false}
metric_list: [{metric: exact_match}]
""",
}


def write_tasks(folder: Path, guesses: list[str]) -> list[str]:
    """Writes the data and a YAML file for each task; returns their names. guesses: of how each text goes on."""
    docs = [{"start": start, "endings": endings, "guess": guess}
            for (start, endings), guess in zip(ENDINGS, guesses, strict=True)]  # fmt: skip
    data = folder / "endings.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
    for name, task in TASKS.items():
        head = f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(head + task, encoding="utf-8")
    return list(TASKS)
