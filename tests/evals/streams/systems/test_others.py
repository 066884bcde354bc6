"""The contract over systems of others, with the real client against a model that writes down what it reads."""

import dataclasses
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from emend.evals.streams.conformance import SystemContract
from emend.evals.streams.system import SYSTEMS, SystemContext, SystemFactory
from tests.evals.streams.extraction import write_down
from tests.provider.models import asked_model
from tests.provider.server import Provider


@pytest.fixture(scope="class")
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with Provider(lambda asked: write_down(asked) or "") as provider:
        request.cls.provider = provider
        yield provider


class TestLangGraphStore(SystemContract):
    def factory(self) -> SystemFactory:
        return SYSTEMS.load("langgraph_store")


class _Provided(SystemContract):
    package = ""
    system_name = ""
    provider: Provider

    def factory(self) -> SystemFactory:
        return SYSTEMS.load(self.system_name)

    def context(self, folder: Path | None = None) -> SystemContext:
        if find_spec(self.package) is None:  # not imported: Mem0 would start to report its use before it is told not to
            pytest.skip(f"{self.package} is not installed")
        return dataclasses.replace(super().context(folder), model=asked_model(self.provider))


@pytest.mark.slow
@pytest.mark.usefixtures("provider")
class TestLangMem(_Provided):
    package = system_name = "langmem"


@pytest.mark.slow
@pytest.mark.usefixtures("provider")
class TestMem0(_Provided):
    package = system_name = "mem0"


@pytest.mark.slow
@pytest.mark.usefixtures("provider")
class TestMem0WithoutExtraction(TestMem0):
    def context(self, folder: Path | None = None) -> SystemContext:
        return dataclasses.replace(super().context(folder), settings={"infer": False})


@pytest.mark.slow
@pytest.mark.usefixtures("provider")
class TestGraphiti(_Provided):
    package = "graphiti_core"
    system_name = "graphiti"


@pytest.mark.slow
@pytest.mark.usefixtures("provider")
class TestAMem(_Provided):
    package = "agentic_memory"
    system_name = "amem"
