"""The guide's page "Coming from transformers": both columns, run on one model, give the same tokens."""

from pathlib import Path

import pytest

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

from guide_pages import literal, two_columns  # noqa: E402
from tolerance import FLOAT32, logit_bound  # noqa: E402

import minidecode as md  # noqa: E402

pytestmark = pytest.mark.oracle

FOLDER = Path(__file__).parents[1] / "golden" / "gpt2" / "gelu-new"
OPTIONS = [(a, b) for (a, _), (b, _) in two_columns("from_transformers.md") if b.partition("=")[0].isidentifier()]


@pytest.mark.parametrize(("theirs", "ours"), OPTIONS, ids=[ours for _, ours in OPTIONS])
def test_the_columns_for_transformers_mean_the_same(theirs, ours):
    base = {"max_new_tokens": 7, "eos_token_id": 4, "pad_token_id": 4, "do_sample": False}
    live = transformers.GPT2LMHeadModel.from_pretrained(FOLDER, dtype=torch.float64).eval()
    live.generation_config = transformers.GenerationConfig()
    ids = [[9, 10, 11, 9, 10]]
    before = live.generate(torch.tensor(ids), **base | literal(theirs))
    out = md.load(FOLDER, dtype="float64").generate(input_ids=ids, generation_config=False, **base | literal(ours))
    found = getattr(before, "sequences", before)[:, len(ids[0]) :].tolist()
    assert len(OPTIONS) == 12 and len(found) == len(out.token_ids)
    for text, mine in zip(found, out.token_ids, strict=True):
        assert text[: len(mine)] == mine.tolist() and set(text[len(mine) :]) <= {4}
    for kind in ("scores", "logits"):
        if (kept := getattr(before, kind, None)) is not None and kind in str(literal(ours).get("keep")):
            mine = torch.tensor(getattr(out.kept, kind)[0])
            bound = logit_bound(md.load(FOLDER).config, float(kept[0].abs().max()), FLOAT32)  # transformers rounds
            assert torch.allclose(kept[0].double(), mine, rtol=0, atol=bound)
