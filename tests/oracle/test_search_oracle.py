"""Score processors, live: calls that no file holds, drawn anew and put to transformers 5 and to minidecode."""

import random

import pytest

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

import make_processors as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import Golden, check_scores, generate  # noqa: E402
from making import nudged, settled  # noqa: E402
from test_dialect_golden import asked  # noqa: E402

pytestmark = pytest.mark.oracle

CASES_EACH, SEED = 14, 77_000


@pytest.fixture(scope="module", autouse=True)
def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


@pytest.mark.parametrize("name", oracle.MODELS)
def test_processors(name):
    """Tokens are equal; calls near a tie are left out, and are few."""
    rng = random.Random(f"{SEED} {name}")
    golden = Golden(oracle.HERE / name)
    exact = oracle.load(name, torch.float64)
    models = [exact, oracle.load(name, torch.float32), nudged(exact, SEED)]
    compared = near_ties = 0
    for num_beams, names in rng.sample(list(oracle.plan(rng)), 3 * CASES_EACH):
        if compared == CASES_EACH:
            break
        try:
            case = oracle.ask(rng, exact, num_beams, names)
        except oracle.NoWayOnError:
            continue
        if not settled(models, case["prompts"], case["options"], oracle.generate):
            near_ties += 1
            continue
        tokens, scores = generate(golden.load(), asked(case))
        assert tokens == case["tokens"], case["options"]
        check_scores(golden, case, scores, case["scores"], {})
        compared += 1
    assert compared == CASES_EACH and near_ties <= 2
