"""Programs of others around a live model, before and after `md.accelerate`: a pipeline, a loop, an evaluation."""

import functools
from pathlib import Path

import pytest
from lm_eval_tasks import ENDINGS, write_tasks

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

import minidecode as md  # noqa: E402

pytestmark = pytest.mark.oracle

WEIGHTS = Path(__file__).parents[2] / "weights"
STARTS = [start for start, _ in ENDINGS]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


@pytest.fixture
def gpt2():
    """(model, tokenizer) of tiny-gpt2."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(WEIGHTS / "tiny-gpt2", padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    return transformers.AutoModelForCausalLM.from_pretrained(
        WEIGHTS / "tiny-gpt2", dtype=torch.float32
    ).eval(), tokenizer


@pytest.fixture
def passes(monkeypatch):
    """(model) -> a list that gets the shape of the ids at each forward pass of its class."""

    def noted(live):
        forward, shapes = type(live).forward, []

        @functools.wraps(forward)  # transformers reads its signature
        def counted(self, input_ids=None, *args, **kwargs):
            shapes.append(input_ids.shape)
            return forward(self, input_ids, *args, **kwargs)

        monkeypatch.setattr(type(live), "forward", counted)
        return shapes

    return noted


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 3}, {"batch_size": 5, "num_beams": 3, "no_repeat_ngram_size": 3, "num_return_sequences": 2}],
)
def test_a_pipeline_that_generates_text(gpt2, passes, options):
    model, tokenizer = gpt2
    pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    asked = {"max_new_tokens": 12, "do_sample": False, **options}
    before = pipe(STARTS, **asked)
    md.accelerate(model)
    shapes = passes(model)
    assert pipe(STARTS, **asked) == before and not shapes and model.generate.receipt.new_tokens


def test_a_loop_that_summarizes(passes):
    """Batches of padded articles, beams, and the usual options of summaries."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(WEIGHTS / "tiny-bart")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(WEIGHTS / "tiny-bart", dtype=torch.float32).eval()
    articles = [" ".join(f"{start} {ending}." for ending in endings) for start, endings in ENDINGS]

    def summaries():
        texts = []
        for first in range(0, len(articles), 2):
            batch = tokenizer(articles[first : first + 2], padding=True, truncation=True, max_length=64,
                              return_tensors="pt")  # fmt: skip
            ids = model.generate(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=4, max_length=24,
                min_length=5, length_penalty=2.0, no_repeat_ngram_size=3, early_stopping=True,
            )  # fmt: skip
            texts += tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts

    before = summaries()
    md.accelerate(model)
    shapes = passes(model)
    assert summaries() == before and len(set(before)) > 1 and not shapes


@pytest.mark.parametrize("batch_size", [1, 3])
def test_lm_evaluation_harness(gpt2, passes, tmp_path, monkeypatch, batch_size):
    """Its `hf` model generates here, and takes log-likelihoods from transformers' own forward pass."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    needed = "needs lm-evaluation-harness: pip install 'lm-eval[hf]'"
    HFLM = pytest.importorskip("lm_eval.models.huggingface", reason=needed).HFLM
    import lm_eval
    from lm_eval.tasks import TaskManager

    model, tokenizer = gpt2
    write_tasks(tmp_path, [" whale"] * len(ENDINGS))
    shapes = passes(model)
    tasks = TaskManager(include_path=str(tmp_path), include_defaults=False)

    def run(*names):
        """(results, the answers to each document, how often transformers' forward pass ran)."""
        shapes.clear()
        harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, device="cpu")
        found = lm_eval.simple_evaluate(
            model=harness, tasks=list(names), task_manager=tasks, bootstrap_iters=0, log_samples=True
        )
        answers = {name: [sample["resps"] for sample in found["samples"][name]] for name in names}
        return found["results"], answers, len(shapes)

    generated, likelihoods = run("going_on"), run("endings", "guesses", "reading")
    md.accelerate(model)
    assert run("going_on") == (*generated[:2], 0) and generated[2] > 0
    assert len({str(answer) for answer in generated[1]["going_on"]}) == len(ENDINGS)
    assert run("endings", "guesses", "reading") == likelihoods and likelihoods[2] > 0
