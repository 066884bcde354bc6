"""The contract, over every memory system that comes with Emend."""

from emend.evals.streams.conformance import SystemContract
from emend.evals.streams.system import SYSTEMS, SystemFactory


class TestEmpty(SystemContract):
    recalls = False

    def factory(self) -> SystemFactory:
        return SYSTEMS.load("empty")


class TestOracle(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("oracle")


class TestFullContext(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("full_context")


class TestGrep(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("grep")


class TestBm25Newest(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("bm25_newest")


class TestMemory(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("memory")


class TestFacts(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("facts_gold")


class TestRetrieval(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("retrieval")


class TestFactsByAnExtractor(SystemContract):
    can_forget = False

    def factory(self) -> SystemFactory:
        return SYSTEMS.load("facts")
