"""Contract tests for retrieval strategies, to be subclassed by authors of plug-ins."""

# ruff: noqa: D102  (the name of a test says what it holds)

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.exact import ExactCorpus

TEXTS = (
    "The capital of Veldania is Ostrim.",
    "Mira Tolvane plays the cello in the Ostrim orchestra.",
    "The river Aske flows through three countries before it reaches the sea at Port Lunden.",
    "Tobin Hale was born in Kestrel Bay and works as a glassblower.",
    "The Aske Prize for chemistry went to Ilse Brandt in 1987.",
    "Kestrel Bay is twinned with Port Lunden.",
)
ODD = ("", " ", "\n", "?!", "?" * 5000, "Ostrim " * 2000, "奥斯特里姆", "a\x00b", "🙂")


def entries(texts: Sequence[str]) -> list[Entry]:
    """Return an entry per text, each from a different edit."""
    return [Entry(id=f"{i:03d}", edit_id=f"edit-{i}", text=text) for i, text in enumerate(texts)]


class RetrieverContract:
    """Tests that pytest collects from a subclass named `Test...`, which overrides `factory`.

    Example:
        class TestMine(RetrieverContract):
            def factory(self) -> Callable[[Corpus], Retriever]:
                return MyRetriever
    """

    def factory(self) -> Callable[[Corpus], Retriever]:
        """The factory under test, as it would be registered."""
        raise NotImplementedError("return the factory (corpus: Corpus) -> Retriever to be tested")

    def corpus(self, chosen: Sequence[Entry]) -> Corpus:
        """The corpus to search; a subclass may return another kind of corpus over the same
        entries.
        """
        return ExactCorpus.of(chosen, LexicalEmbedding())

    def retriever(self, texts: Sequence[str] = TEXTS) -> Retriever:
        """Return the strategy, bound to these texts."""
        return self.factory()(self.corpus(entries(texts)))

    def test_it_is_a_retriever(self) -> None:
        assert isinstance(self.retriever(), Retriever), "it has no `search(query, k)`"

    def test_an_entry_s_own_text_finds_it_first(self) -> None:
        retriever = self.retriever()
        for text in TEXTS:
            hits = retriever.search(text, 1)
            assert [hit.entry.text for hit in hits] == [text], f"asked {text!r}, got {hits}"

    def test_hits_come_best_first_and_at_most_k(self) -> None:
        retriever = self.retriever()
        for k in range(len(TEXTS) + 3):
            hits = retriever.search("The capital of Veldania and Port Lunden on the Aske", k)
            scores = [hit.score for hit in hits]
            assert len(hits) <= k, f"k={k}, got {len(hits)} hits"
            assert scores == sorted(scores, reverse=True), f"not best first: {scores}"

    def test_hits_are_distinct_entries_of_the_corpus(self) -> None:
        corpus = self.corpus(entries(TEXTS))
        hits = self.factory()(corpus).search("The twin of Port Lunden", 50)
        assert hits, "nothing found by words that stand in an entry"
        assert all(hit.entry in corpus.entries() for hit in hits), f"made up: {hits}"
        assert len({hit.entry.id for hit in hits}) == len(hits), f"an entry came twice: {hits}"

    def test_an_empty_scope_gives_no_hits(self) -> None:
        assert self.retriever(()).search("The capital of Veldania", 3) == []

    def test_scores_are_finite_numbers(self) -> None:
        for hit in self.retriever().search("Who was born in Kestrel Bay?", 50):
            assert float("-inf") < hit.score < float("inf"), f"score {hit.score}"

    def test_odd_queries_and_entries_do_no_harm(self) -> None:
        for texts in (TEXTS, ODD, [*ODD, *TEXTS]):
            retriever = self.retriever(texts)
            for query in ODD:
                assert len(retriever.search(query, 3)) <= 3, f"query {query[:20]!r}"

    def test_a_search_does_not_change_the_next(self) -> None:
        retriever = self.retriever()
        alone = {text: self.retriever().search(text, 3) for text in TEXTS}
        assert {text: retriever.search(text, 3) for text in reversed(TEXTS)} == alone

    def test_equal_entries_come_in_a_stable_order(self) -> None:
        texts = [TEXTS[0], *TEXTS, TEXTS[0]]
        first, again = (self.retriever(texts).search(TEXTS[0], 3) for _ in range(2))
        assert first == again, "two searches of the same corpus differ"
        assert [hit.entry.text for hit in first] == [TEXTS[0]] * 3, f"got {first}"

    def test_results_are_equal_across_threads(self) -> None:
        retriever = self.retriever()
        queries = [*TEXTS, "Ostrim", "the prize of Ilse Brandt", "a glassblower"] * 8

        def search(query: str) -> list[Hit]:
            return retriever.search(query, 3)

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(search, queries))
        alone = {query: self.retriever().search(query, 3) for query in queries[: len(queries) // 8]}
        assert results == [alone[query] for query in queries]
