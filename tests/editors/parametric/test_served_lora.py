"""Adapters that are trained here and loaded by a server give what the same deltas in local weights give."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import emend
from emend.agents.llm import load_model, load_tiny
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.parametric.lora import Lora
from emend.editors.parametric.served_lora import training_model
from emend.memory.errors import BadSettings
from scripts.benchmarks.bench_served import LIMIT, compare
from tests.params import mostly_slow
from tests.provider.completions import NAME, CompletionsServer
from tests.provider.models import quick_policy

PeftModel: Any = pytest.importorskip("peft", reason="pip install 'emend-eval[lora]'").PeftModel
QUICK = {"num_steps": 3}
TARGETS = (CAPITAL.target_new, "Paris")


@pytest.fixture(scope="module")
def server() -> Iterator[CompletionsServer]:
    model: Any = load_tiny()
    with CompletionsServer(model.lm) as server:
        yield server
    model.close()
    training_model.cache_clear()


def load(server: CompletionsServer, dialect: str = "vllm", **settings: Any) -> Any:
    return load_model(server.spec(dialect), quick_policy(), tokenizer=str(server.lm.folder), **settings)


def build(server: CompletionsServer, folder: Any, dialect: str = "vllm", base: Any = None) -> Any:
    model = load(server, dialect, lora_folder=str(folder), lora_base=str(base or server.lm.folder))
    return Lora(EditorContext(model=model, settings=QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("dialect", mostly_slow(("vllm", "sglang"), "vllm"))
def test_an_edit_on_a_server_is_that_of_local_weights_and_leaves_nothing(server, tmp_path, dialect):
    local_model: Any = load_tiny()
    local: Any = Lora(EditorContext(model=local_model, settings=QUICK))
    editor = build(server, tmp_path, dialect)
    prompt = CAPITAL.cloze
    before = editor.server.model.score(prompt, TARGETS)
    with local.edit([CAPITAL, CURRENCY]) as answerer:
        expected = local_model.score(prompt, TARGETS).log_probs
        cost, local_text = answerer.cost, local_model.invoke(prompt).text
    with editor.edit([CAPITAL, CURRENCY]) as answerer:
        (name,) = server.adapters
        assert [path.name for path in tmp_path.iterdir()] == [name]
        adapted = editor.server.model.adapted(name)
        peft = PeftModel.from_pretrained(copy.deepcopy(server.lm.model), str(tmp_path / name)).eval()
        ids = torch.tensor([server.lm.encode(prompt)])
        assert torch.allclose(peft(ids).logits, server.models[name](ids).logits, atol=1e-4)
        assert adapted.score(prompt, TARGETS).log_probs == pytest.approx(expected, abs=1e-4)
        assert adapted.invoke(prompt).text == local_text and answerer.cost == cost
        assert editor.server.model.score(prompt, TARGETS) == before  # the model itself is served beside it
        adapted.close()
    assert abs(before.log_probs[0] - expected[0]) > 0.5
    assert not server.adapters and not list(tmp_path.iterdir()) and set(server.models) == {NAME}
    assert not editor.needs_weights and local.needs_weights and Lora.needs_weights
    assert editor.fingerprint == local.fingerprint | {"trained_on": local.lm.fingerprint}
    local_model.close()


@pytest.mark.slow
def test_what_fails_inside_leaves_nothing_and_a_refusal_names_the_remedy(server, tmp_path, caplog):
    editor = build(server, tmp_path)
    with pytest.raises(InterruptedError), editor.edit([CAPITAL]):
        raise InterruptedError
    assert not server.adapters and not list(tmp_path.iterdir())
    try:
        for status in ("400", "500"):  # vLLM's for an adapter of too large a rank
            server.choose = lambda number, path, body, status=status: status if "/load" in path else ""
            with (
                pytest.raises(BadSettings, match="cannot load an adapter.*VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
                editor.edit([CAPITAL]),
            ):
                raise AssertionError
            assert not list(tmp_path.iterdir())
        server.choose = lambda number, path, body: "400" if "unload" in path else ""
        with editor.edit([CAPITAL]):
            pass
    finally:
        server.choose = lambda number, path, body: ""
        server.adapters.clear()
    assert "stays on the server" in caplog.text and not list(tmp_path.iterdir())


def test_a_server_without_the_settings_or_with_other_weights_is_refused(server, tmp_path):
    with pytest.raises(BadSettings, match="--set model.lora_base=FOLDER-OR-ID"):
        Lora(EditorContext(model=load(server)))
    with pytest.raises(BadSettings, match="mode sequential.*needs local weights"):
        build(server, tmp_path).sequence()
    other = copy.deepcopy(server.lm.model)
    for parameter in other.parameters():
        parameter.data.mul_(0.5)
    other.save_pretrained(tmp_path / "other")
    server.lm.tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(BadSettings, match="lora_base: .* has other weights"):
        build(server, tmp_path, base=tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["single", "all"])
def test_a_run_gives_the_records_of_local_weights(server, tmp_path, mode):
    """In mode single, units are asked side by side, each with an adapter of its own."""
    options: dict[str, Any] = {"limit": 4, "mode": mode, "embedding": "lexical", "progress": False}
    served = {"tokenizer": str(server.lm.folder), "lora_base": str(server.lm.folder)}
    overrides: dict[str, Any] = {"lora": QUICK, "model": served | {"lora_folder": str(tmp_path / "adapters")}}
    local = emend.run("tinyworld", "lora", "tiny", out=tmp_path / "local", overrides={"lora": QUICK}, **options)
    other = emend.run("tinyworld", "lora", server.spec(), out=tmp_path / "other", overrides=overrides, **options)
    found = compare(local.records(), other.records())
    assert found.records > 20 and found.log_prob < LIMIT and found.value < LIMIT and not found.answers and not found.cut
    assert not server.adapters and not list((tmp_path / "adapters").iterdir())
