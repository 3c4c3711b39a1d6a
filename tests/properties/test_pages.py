"""The page pool against a naive account of what each page holds, and the known mistakes, which the account finds."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from minidecode.cache.pages import ROOT, NoPageError, PagePool, pages_for

SIZE, PAGES = 2, 7


class Sequences(RuleBasedStateMachine):
    """Sequences that share a pool of a few small pages.

    What a page would hold at a position is here all tokens up to it, on which its keys and values depend.
    """

    pool_type = PagePool

    def __init__(self):
        super().__init__()
        self.pool = self.pool_type(PAGES, SIZE)
        self.held = [[None] * SIZE for _ in range(PAGES)]
        self.sequences: list[tuple[list, list]] = []  # (tokens, table)

    def write(self, tokens, table, position):
        nth, slot = divmod(position, SIZE)
        self.held[table[nth]][slot] = tuple(tokens[: position + 1])

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=5))
    def submit(self, tokens):
        """A prompt: what is found is not computed, the rest is; then its full pages are published."""
        table = self.pool.fork_prefix(tokens)
        computed = len(table) * SIZE
        assert computed < len(tokens), "no token is left whose logits choose the next one"
        try:
            self.pool.grow(table, len(tokens))
        except NoPageError:
            self.pool.release(table)
            return
        self.sequences.append((tokens, table))
        for position in range(computed, len(tokens)):
            self.write(tokens, table, position)
        self.publish_full(tokens, table)

    def publish_full(self, tokens, table):
        for nth in range(len(tokens) // SIZE):
            here = tokens[nth * SIZE : nth * SIZE + SIZE]
            self.pool.publish(table[nth], table[nth - 1] if nth else ROOT, here)

    @precondition(lambda self: self.sequences)
    @rule(nth=st.integers(0, 9), token=st.integers(0, 1), publish=st.booleans())
    def step(self, nth, token, publish):
        """One more token of a sequence."""
        tokens, table = self.sequences[nth % len(self.sequences)]
        try:
            self.pool.grow(table, len(tokens) + 1)
            copy = self.pool.make_writable(table, len(tokens) // SIZE)
        except NoPageError:
            return
        if copy is not None:
            source, target = copy
            self.held[target] = list(self.held[source])
        tokens.append(token)
        self.write(tokens, table, len(tokens) - 1)
        if publish:
            self.publish_full(tokens, table)

    @precondition(lambda self: self.sequences)
    @rule(nth=st.integers(0, 9))
    def fork(self, nth):
        """A beam, or one more sample."""
        tokens, table = self.sequences[nth % len(self.sequences)]
        self.sequences.append((list(tokens), self.pool.fork(table)))

    @precondition(lambda self: self.sequences)
    @rule(nth=st.integers(0, 9))
    def finish(self, nth):
        _, table = self.sequences.pop(nth % len(self.sequences))
        self.pool.release(table)

    @invariant()
    def counts_agree(self):
        counted = [0] * PAGES
        for page in (page for _, table in self.sequences for page in table):
            counted[page] += 1
        pool = self.pool
        assert pool.references == counted
        assert pool.used == sum(count > 0 for count in counted)
        assert pool.free + pool.used + pool.cached == PAGES and pool.available == pool.free + pool.cached

    @invariant()
    def sequences_find_their_own(self):
        for tokens, table in self.sequences:
            for position in range(len(tokens)):
                nth, slot = divmod(position, SIZE)
                assert self.held[table[nth]][slot] == tuple(tokens[: position + 1]), "another sequence's page"

    def teardown(self):
        for _, table in self.sequences:
            self.pool.release(table)
        self.sequences = []
        assert self.pool.used == 0
        taken = [self.pool.take_free_page() for _ in range(PAGES)]  # evicts all
        assert sorted(taken) == list(range(PAGES))
        assert not (self.pool._named or self.pool._name_of or any(self.pool._behind.values()))


def run(pool_type, **how):
    machine = type("Machine", (Sequences,), {"pool_type": pool_type})
    run_state_machine_as_test(machine, settings=settings(deadline=None, stateful_step_count=30, **how))


def test_references_pages_and_contents_agree():
    run(PagePool, max_examples=40)


class NamedByItsOwnTokens(PagePool):
    def publish(self, page, parent, tokens):
        self._name_of.setdefault(ROOT, (ROOT, ()))
        done = super().publish(page, ROOT, tokens)
        del self._name_of[ROOT]
        return done

    def fork_prefix(self, tokens):
        names = [(ROOT, tuple(tokens[i : i + self.size])) for i in range(0, len(tokens) - self.size, self.size)]
        found = []
        for name in names:
            if name not in self._named:
                break
            found.append(self._named[name])
        return self.fork(found)


class SharedPageWritten(PagePool):
    def make_writable(self, table, nth):
        return None


class WholePromptFound(PagePool):
    def fork_prefix(self, tokens):
        return super().fork_prefix([*tokens, 0])


class TablesOffByOne(PagePool):
    def grow(self, table, positions):
        super().grow(table, positions - 1)


class EvictedPageKeepsItsName(PagePool):
    def _forget(self, page):
        del self._cached[page]
        self._free.append(page)


class ForkWithoutReferences(PagePool):
    def fork(self, table):
        return list(table)


class StaleTable(PagePool):
    """The copy is made, and the table goes on with the page that others hold."""

    def make_writable(self, table, nth):
        before = table[nth]
        copy = super().make_writable(table, nth)
        table[nth] = before
        return copy


class PublishedBeforeItIsFull(PagePool):
    """Names the page that comes next as if it were computed."""

    def grow(self, table, positions):
        before = len(table)
        super().grow(table, positions)
        if before == 0 and table:
            self.publish(table[0], ROOT, [0] * self.size)


class CachedPageIsStillFree(PagePool):
    def share(self, page):
        self.references[page] += 1


@pytest.mark.parametrize("mutant", [
    NamedByItsOwnTokens, SharedPageWritten, WholePromptFound, TablesOffByOne, EvictedPageKeepsItsName,
    ForkWithoutReferences, StaleTable, PublishedBeforeItIsFull, CachedPageIsStillFree,
])  # fmt: skip
def test_known_mistakes_are_found(mutant):
    with pytest.raises((AssertionError, KeyError, IndexError)):
        run(mutant, max_examples=300, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck), report_multiple_bugs=False)  # fmt: skip


@pytest.mark.parametrize(("positions", "pages"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_pages_at_their_edges(positions, pages):
    assert pages_for(positions) == pages
    pool, table = PagePool(3), []
    pool.grow(table, positions)
    assert len(table) == pages and pool.free == 3 - pages


def publish_prompt(pool, tokens):
    """Computes a prompt alone and ends it: its full pages stay cached."""
    table = pool.fork_prefix(tokens)
    pool.grow(table, len(tokens))
    for nth in range(len(tokens) // pool.size):
        pool.publish(table[nth], table[nth - 1] if nth else ROOT, tokens[nth * pool.size : (nth + 1) * pool.size])
    pool.release(table)
    return table


def test_the_last_token_of_a_prompt_that_is_found_whole_is_computed_again():
    pool = PagePool(8, 4)
    table = publish_prompt(pool, [1, 2, 3, 4, 5, 6, 7, 8])
    assert pool.cached == 2
    assert pool.fork_prefix([1, 2, 3, 4, 5, 6, 7, 8]) == table[:1]
    assert pool.fork_prefix([1, 2, 3, 4, 5, 6, 7, 8, 9]) == table


def test_the_least_recently_used_page_is_evicted_first_and_leaves_before_trunks():
    pool = PagePool(4, 1)
    old, new = publish_prompt(pool, [1, 2]), publish_prompt(pool, [3, 4])
    pool.release(pool.fork_prefix([1, 2, 0]))  # used again
    assert [pool.take_free_page() for _ in range(4)] == [new[1], new[0], old[1], old[0]]
    with pytest.raises(NoPageError, match="all 4 pages are used"):
        pool.take_free_page()


def test_grow_takes_all_pages_or_none():
    pool, table = PagePool(3), []
    with pytest.raises(NoPageError, match="4 pages are needed, and of 3 only 3 are not used"):
        pool.grow(table, 64)
    assert table == [] and pool.free == 3


def pages_end_with_the_page_before_them(pool):
    """A window lets go of the first of two pages; its number then names another prompt, which the second is not of."""
    first, second = publish_prompt(pool, [1, 2])
    kept = pool.fork_prefix([1, 2, 0])
    pool.release(kept[:1])
    while pool.take_free_page() != first:
        pass
    pool.publish(first, ROOT, [3])
    assert pool.fork_prefix([3, 2, 0]) == [first]
    pool.release([second])
    assert pool.free == 1, "a page without a name is free when its last table ends"


class PagesOutliveThePageBeforeThem(PagePool):
    def _forget(self, page):
        self._behind.pop(page, None)
        super()._forget(page)


def test_pages_end_with_the_page_before_them():
    pages_end_with_the_page_before_them(PagePool(4, 1))
    with pytest.raises(AssertionError):
        pages_end_with_the_page_before_them(PagesOutliveThePageBeforeThem(4, 1))


def test_two_sequences_that_compute_the_same_prompt_publish_it_once():
    pool, tables = PagePool(6, 1), [[], []]
    for table in tables:
        pool.grow(table, 2)
    published = [[pool.publish(table[0], ROOT, [5]), pool.publish(table[1], table[0], [6])] for table in tables]
    assert published == [[True, True], [False, False]]
    for table in tables:
        pool.release(table)
    assert (pool.free, pool.used, pool.cached) == (4, 0, 2)
