"""The contract over systems of others, with the real client against a model that writes down what it reads."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from emend.evals.stream.conformance import SystemContract
from emend.evals.stream.system import SYSTEMS, SystemContext, SystemFactory
from tests.provider.models import asked_model
from tests.provider.protocols import Asked, Said, ToolCall
from tests.provider.server import Provider


def write_down(asked: Asked) -> str | Said:
    """Every new message as a memory, in the form that LangMem or Mem0 asks for."""
    if asked.tools:
        lines = re.findall(r"\[\d{4}-\d\d-\d\d\] [^:\n]+: .*", asked.prompt)
        return Said(calls=[ToolCall("Memory", {"content": lines[-1]})]) if lines else Said("nothing")
    part = asked.prompt.rpartition("## New Messages")[2].partition("\n##")[0]
    texts = re.findall(r"(?:user|assistant): (.*)", part)
    return json.dumps({"memory": [{"id": str(number), "text": text} for number, text in enumerate(texts)]})


@pytest.fixture(scope="class")
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with Provider(write_down) as provider:
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
        pytest.importorskip(self.package, reason=f"{self.package} is not installed")
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
