"""The page about other tools: each recipe reaches a collector with the tool's path, headers and attributes."""

import re
import shlex
import subprocess
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

from emend.evals.cli.main import app
from tests.evals.toy_runs import go
from tests.paths import ROOT
from tests.provider.models import asked_model
from tests.provider.server import Provider
from tests.provider.speaking import believes

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")

from tests.evals.collector import Collector, attributes  # noqa: E402  (needs the extra)

PAGE = (ROOT / "docs" / "how-to" / "integrations.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
KEYS = {"LANGSMITH_API_KEY": "ls-1", "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "WANDB_API_KEY": "wb-1"}
WANTED = {
    "Phoenix": ("/v1/traces", {}),
    "LangSmith": ("/otel/v1/traces", {"x-api-key": "ls-1", "langsmith-project": "emend"}),
    "Langfuse": ("/api/public/otel/v1/traces", {"authorization": "Basic cGs6c2s="}),
    "MLflow": ("/v1/traces", {"x-mlflow-experiment-id": "1"}),
    "Weights & Biases": ("/otel/v1/traces", {"wandb-api-key": "wb-1"}),
}


class AnyPath(Collector):
    """A collector at any path."""

    def take(self, path, headers, body):
        """One request; its path is kept."""
        status = super().take("/v1/traces", headers, body)
        self.requests[-1] = (path, headers)
        return status


def exported(section: str) -> dict[str, str]:
    """The variables that a recipe exports, as a shell gives them."""
    lines = [line for line in section.splitlines() if line.startswith("export OTEL_")]
    script = "\n".join([*lines, 'printf "%s\\n%s" "$OTEL_EXPORTER_OTLP_HEADERS" "$OTEL_RESOURCE_ATTRIBUTES"'])
    shown = subprocess.run(["bash", "-c", script], env=KEYS | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    headers, _, resource = shown.stdout.partition("\n")
    return {"OTEL_EXPORTER_OTLP_HEADERS": headers, "OTEL_RESOURCE_ATTRIBUTES": resource}


def test_every_section_is_tested():
    assert SECTIONS.keys() == WANTED.keys()


@pytest.mark.parametrize("tool", WANTED)
def test_a_recipe_reaches_its_tool(smooth, tool, monkeypatch):
    (command,) = (line for line in SECTIONS[tool].splitlines() if line.startswith("emend trace"))
    for name, value in exported(SECTIONS[tool]).items():
        monkeypatch.setenv(name, value)
    words = shlex.split(command)[1:]
    place = words.index("--otlp") + 1
    with AnyPath() as collector:
        words[1], words[place] = str(smooth), collector.address + urlsplit(words[place]).path
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    path, headers = WANTED[tool]
    received = {name.lower(): unquote(value) for name, value in collector.requests[-1][1].items()}
    assert collector.requests[-1][0] == path and headers.items() <= received.items()
    assert collector.spans and any(
        "gen_ai.input.messages" in attributes(s) or "input.value" in attributes(s) for s in collector.spans.values()
    )
    if tool == "Weights & Biases":
        assert {"wandb.entity": "my-team", "wandb.project": "emend"}.items() <= collector.resources[0].items()


@pytest.mark.slow
def test_langsmith_watches_a_run_while_it_goes_on(tmp_path, keys, monkeypatch):
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    import langsmith.utils

    variables: Any = langsmith.utils.get_env_var

    with AnyPath(status=404) as collector, Provider(believes) as provider:
        for name, value in {"TRACING": "true", "ENDPOINT": collector.address, "API_KEY": "ls-1"}.items():
            monkeypatch.setenv(f"LANGSMITH_{name}", value)
        variables.cache_clear()
        summary = go(tmp_path / "run", asked_model(provider), editors=("mello",), embedding="lexical", limit=1)
        from langchain_core.tracers.langchain import wait_for_all_tracers

        wait_for_all_tracers()
    variables.cache_clear()
    assert summary.finished == 1
    assert any("/runs" in path for path, _ in collector.requests)
