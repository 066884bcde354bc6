"""The retrieval strategies by name."""

from collections.abc import Callable

from emend.memory.registry import Registry
from emend.memory.retrieval.base import Corpus, Retriever

RETRIEVERS: Registry[Callable[[Corpus], Retriever]] = Registry(
    kind="retriever",
    group="emend.retrievers",
    interfaces=(("search",), ("search_probe",), ("invoke", "get_name")),
    parameters=("query", "corpus"),
    beside=__file__,
)
