"""Commands on a server that drips, never ends or sends 50 MB: each ends in time, and in about as much memory."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.evals.command_line import python
from tests.evals.toys import BENCHMARK
from tests.provider.server import Provider
from tests.provider.speaking import believes

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")

CODE = """
import atexit, re, sys
from pathlib import Path
from emend.agents.providers.policy import Backoff
from emend.evals.cli.main import main
Backoff.wait, Backoff.stop = lambda self, state: 0.001, lambda self, state: state.attempt_number >= 2
status = Path("/proc/self/status")  # getrusage would count what the parent had when it forked
atexit.register(lambda: print(int(re.search("VmHWM:\\s+(\\d+)", status.read_text())[1]) // 1024, file=sys.stderr))
sys.argv = ["emend", *sys.argv[1:]]
main()
"""
BOUNDS = ("deadline=1", "timeout=0.5")
EMBEDDING = ("--embedding", "lexical")
SMALL = ("--benchmark-option", "cases=2", "--benchmark-option", "probes=0", "--concurrency", "1")
LABEL = {"kind": "coherence", "item": {"question": "Who?", "thoughts": "It is Ana.", "answer": "Ana"}, "label": "yes"}


def words_of(command: str, spec: str, out: str) -> list[str]:
    settings = [word for bound in BOUNDS for word in ("--set", f"{'judge' if 'judge' in command else 'model'}.{bound}")]
    words = {
        "run": ["run", "--benchmark", BENCHMARK, "--editor", "rag", *SMALL, *EMBEDDING, "--fail-on-error", "false"],
        "extract": ["extract", "--benchmark", "tinyworld", "--method", "llm", "--limit", "2", *EMBEDDING],
        "judge run": ["judge", "run", out, "--kind", "tendency"],
        "judge calibrate": ["judge", "calibrate", "labels.jsonl"],
    }[command]
    model = ["--judge", spec] if "judge" in command else ["--model", spec, "--out", out]
    return [*words, *model, *settings]


def spent(provider: Provider, command: str, out: str) -> tuple[float, int, str]:
    """Seconds, peak of resident memory in MB, and what the command printed."""
    if command == "judge run":
        shutil.copytree("elken", out)
    start = time.monotonic()
    child = python(CODE, *words_of(command, provider.spec("openai"), out))
    printed, errors = child.communicate(timeout=300)
    assert child.returncode in (0, 1, 2), errors
    return time.monotonic() - start, int(errors.splitlines()[-1]), printed + errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("command", ["run", "extract", "judge run", "judge calibrate"])
def test_a_server_that_drips_or_sends_too_much_costs_little_time_and_memory(
    command, keys, own_cache, elken, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("labels.jsonl").write_text(json.dumps(LABEL) + "\n", encoding="utf-8")
    fault = ""
    with Provider(believes, choose=lambda number: fault) as provider:
        usual_seconds, usual, _ = spent(provider, command, "usual")
        for fault in ("drip", "bomb", "huge", "hang"):
            before = provider.count
            seconds, memory, printed = spent(provider, command, f"under-{fault}")
            calls = provider.count - before
            assert "Traceback" not in printed and calls, fault
            assert seconds < usual_seconds * 2 + 10 + 1.5 * calls, (fault, seconds, calls)
            assert memory < usual + 100, (fault, memory, usual)
            print(f"{command}, {fault}: {calls} calls, {seconds:.1f} s ({usual_seconds:.1f}), {memory} MB ({usual})")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20_000_000
