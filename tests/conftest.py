"""Environment, limits and models that all tests share.

What of the environment and of the machine decides how a test ends is put aside here, before anything reads it.
"""

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

# Appended, so that no folder of the root hides an installed package.
sys.path.append(str(Path(__file__).parents[1]))

for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)  # typer and rich colour what they print by these
# Read when torch, chromadb and huggingface_hub are imported: no network, no telemetry, one thread a matrix product, as
# processes share the cores, and no compiler, which bitsandbytes would import (half a second) and nothing uses.
os.environ.update(
    HF_HUB_OFFLINE="1", ANONYMIZED_TELEMETRY="False", TOKENIZERS_PARALLELISM="false", OMP_WAIT_POLICY="passive",
    OMP_NUM_THREADS="1", TORCHDYNAMO_DISABLE="1",
)  # fmt: skip
# Modules are compiled once for all processes of all runs, also where the environment (an image's, say) forbids it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # as on the command line, which says why
# An empty folder of certificates: servers of tests speak plain HTTP, and to read a full one takes each client 25 ms.
os.environ.pop("SSL_CERT_FILE", None)  # clients read it first
os.environ["SSL_CERT_DIR"] = os.path.join(os.path.dirname(__file__), "data")
gc.disable()  # until all tests are collected: what is imported stays, and to look through it takes a fifth of that time
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

from tests.paths import SHARED  # noqa: E402 - found through the path above

if TYPE_CHECKING:
    from tests.shared_models import SharedModels


LONGEST = (
    "editors/test_contract.py", "cli/test_memory.py", "cli/test_session.py", "benchmarks/test_benchmark_contract.py",
    "run/test_run.py", "view/test_pages.py", "parametric/test_finetune.py", "agents/providers/test_chat_model.py",
    "retrieval/test_contract.py",
)  # fmt: skip
"""Files that take longest; they are run first, so that no process of `make test` is left with one of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; pytest-xdist by itself goes by the number of tests."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep full garbage collections, which take a second among thousands of tests, out of tests with a clock."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # of what is left few objects are in cycles
    for name in logging.root.manager.loggerDict:
        # pytest attaches its handlers three times a test to the root and to each of torch's that stand alone.
        logging.getLogger(name).propagate |= name.startswith("torch")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for leaks once; pytest then collects garbage five times over."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """API keys of both providers, unmistakably false."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted-0123456789")


@pytest.fixture(scope="session")
def shared_models() -> "Iterator[SharedModels]":
    """The models of `random_lm`, `random_model` and `trained_model`, made once for all tests of a process."""
    from tests.shared_models import SharedModels

    models = SharedModels()
    yield models
    for model in models:
        if hasattr(model, "close"):
            model.close()


@pytest.fixture(autouse=True)
def unchanged_shared_models(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that changes a shared model, instead of a later one in the same process."""
    models = request.getfixturevalue("shared_models") if "shared_models" in request.fixturenames else None
    yield
    if models is not None:
        models.check()


class TestsTrust(dict[str, bool]):
    """The names that may be imported in a test: what its own code names counts as typed."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or str(name).startswith("tests.")

    def __missing__(self, name: str) -> bool:
        return False


@pytest.fixture(scope="session", autouse=True)
def trust_of_tests() -> None:
    """Let tests name code of their own; what the command line may import is in `tests.evals.command_line`."""
    from emend.memory import registry

    registry._trusted = TestsTrust(registry._trusted)


@pytest.fixture(autouse=True)
def trust_of_a_test(trust_of_tests: None) -> Iterator[None]:
    """What a test trusts is trusted by no later one."""
    from emend.memory import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_trusted", TestsTrust(registry._trusted))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Let writing go on before the disk has it, 20 ms a run: the process of the tests ends, the power does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_encoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read the packaged encoder, which most commands load where none is named, once for all quick tests of a process.

    Slow tests train it, each of them a copy that it has to itself.
    """
    if request.config.getoption("markexpr") != "not slow":
        yield
        return
    from emend.memory.embeddings import embed
    from emend.memory.embeddings.vector_cache import VectorCache

    load: Any = embed.SentenceEmbedding.__init__
    loaded: dict[str, embed.SentenceEmbedding] = {}

    def load_once(
        self: embed.SentenceEmbedding,
        model: str | Path,
        name: str | None = None,
        cache: Path | None = None,
        **more: Any,
    ) -> None:
        if name is None or any(more.values()):  # a folder of the test's own, or an adapter, which changes the weights
            load(self, model, name, cache=cache, **more)
            return
        if name not in loaded:
            loaded[name] = embed.SentenceEmbedding.__new__(embed.SentenceEmbedding)
            load(loaded[name], model, name)
        vars(self).update(vars(loaded[name]))
        self._cache = VectorCache(cache, self.identity) if cache else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed.SentenceEmbedding, "__init__", load_once)
        yield
    for shared in loaded.values():
        assert shared.identity.endswith(embed._digest(shared.model)), "a test changed the shared encoder"


@pytest.fixture(scope="session")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function from a model type (`"gpt2 tied"`: with tied embeddings) and settings to a random model's folder."""
    from tests.fakes import tiny_random_lm

    folders: dict[Any, Path] = {}

    def make(architecture: str = "llama", **config: Any) -> Path:
        kind, _, tied = architecture.partition(" ")
        if tied:
            config["tie_word_embeddings"] = True
        key = (kind, *sorted(config.items()))
        if key not in folders:
            folders[key] = tiny_random_lm(kind, tmp_path_factory.mktemp("models"), **config)
        return folders[key]

    return make


@pytest.fixture(scope="session")
def random_lm(random_folder: Callable[..., Path], shared_models: "SharedModels") -> Callable[..., Any]:
    """A function from a model type and settings to a random `CausalLM`, the same for all tests."""
    from emend.agents.local.causal_lm import CausalLM

    def make(architecture: str = "llama", **config: Any) -> Any:
        key = (architecture, *sorted(config.items()))
        return shared_models.get(key, lambda: CausalLM(random_folder(architecture, **config), device="cpu"))

    return make


@pytest.fixture(scope="session")
def random_model(random_folder: Callable[..., Path], shared_models: "SharedModels") -> Callable[..., Any]:
    """A function from a model type to a random local chat model, the same for all tests."""

    from tests.fakes import read_model

    def make(architecture: str = "llama") -> Any:
        folder = random_folder(architecture, window=96)
        return shared_models.get(("chat", architecture), lambda: read_model(folder, 4))

    return make


@pytest.fixture
def own_model(random_folder: Callable[..., Path]) -> Iterator[Any]:
    """A random local chat model that the test may change."""
    from tests.fakes import read_model

    model = read_model(random_folder(window=96), 4)
    yield model
    model.close()


@pytest.fixture(scope="session")
def trained_folder() -> Path:
    """The folder of a trained model with the embedded one's architecture and prompt forms, about another world."""
    folder = SHARED / "experiments/tinyworld/model"
    if not folder.is_dir():
        pytest.skip(f"no trained model at {folder}; EMEND_SHARED names another folder")
    return folder


@pytest.fixture(scope="session")
def trained_model(trained_folder: Path, shared_models: "SharedModels") -> Any:
    """The model of `trained_folder` as a chat model, the same for all tests."""
    from tests.fakes import read_model

    return shared_models.get("trained", lambda: read_model(trained_folder, 8))
