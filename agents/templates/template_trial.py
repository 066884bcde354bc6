"""Trial of a chat template in a subprocess, before it is used in this one.

Templates come with models, may loop for ever or fill the memory, and cannot be interrupted while
they are rendered. A template that does so only in certain conversations is not noticed.
"""

import json
import logging
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any

from emend.memory.errors import ModelError
from emend.memory.escape import one_line

# CPU seconds and address space in bytes that the trial may use. Templates of ten families take
# less than 0.2 s, of which starting Python takes nearly all.
SECONDS, MEMORY = 5, 2**30
# Wall-clock limit in seconds, since the machine may be busy.
CLOCK_SECONDS = 60
# Largest rendering of a conversation of the trial, in characters; those of ten families
# write up to 3,000.
MAX_CHARACTERS = 1_000_000
TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the facts.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
SHORT = [{"role": "user", "content": "Hello"}]
LONG = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is Ostrim? " * 100},
    {"role": "assistant", "content": "In Vouna."},
    {"role": "user", "content": "And Meburg?"},
]
# What a template has in use besides the conversation; one that lacks it ends before it is tried.
USUAL: dict[str, Any] = {"tools": None, "documents": None} | {
    f"{name}_token": f"<{name}>" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
}
TRIALS: list[dict[str, Any]] = [
    {"messages": SHORT, "add_generation_prompt": True},
    {"messages": LONG, "add_generation_prompt": True},
    {"messages": LONG[1:], "add_generation_prompt": True},  # some refuse system messages
    {"messages": LONG[:3]},
    {"messages": SHORT, "add_generation_prompt": True, "tools": [TOOL]},
    {"messages": SHORT, "add_generation_prompt": True, "enable_thinking": False},
]


@lru_cache(maxsize=256)
def try_template(template: str, seconds: int = SECONDS) -> None:
    """Render sample conversations with a chat template in a subprocess with limits.

    Errors of the template itself are ignored: it may reject a sample, and raises them in use.

    Args:
        template: the text of the template.
        seconds: CPU seconds that the subprocess may use.

    Raises:
        ModelError: the template exceeds a limit of time, memory or length.
    """
    try:
        trial = subprocess.run(
            [sys.executable, "-P", "-m", __name__, str(seconds)],
            input=template.encode(errors="replace"),
            capture_output=True,
            timeout=CLOCK_SECONDS,
        )
        fault = trial.stdout.decode()
        if trial.returncode < 0:
            fault = _fault_of_signal(-trial.returncode, seconds)
        elif trial.returncode:
            reason = one_line(
                trial.stderr.decode(errors="replace").strip().rpartition("\n")[2], 200
            )
            logging.getLogger(__name__).warning("a chat template could not be tried: %s", reason)
    except subprocess.TimeoutExpired:
        fault = f"needs more than {CLOCK_SECONDS} s"
    if fault:
        raise ModelError(
            f"the model's chat template {fault} for a short conversation: do not use this model, "
            "or give its folder the template of the model that it was made from."
        )


def _fault_of_signal(number: int, seconds: int) -> str:
    """Return what a template did whose trial a signal of that number ended."""
    if number in (getattr(signal, "SIGXCPU", 0), getattr(signal, "SIGKILL", 0)):
        return f"needs more than {seconds} s"
    return "crashes the program that renders it"


def render_samples(template: str) -> str:
    """Return what is wrong with a template's renderings of sample conversations; "" if nothing
    is.
    """
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):
        """Tag of transformers around an assistant's message."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda _: "2025-01-01"
    for variables in TRIALS:
        try:
            text = environment.from_string(template).render(**USUAL | variables)
        except MemoryError:
            return f"needs more than {MEMORY >> 20:,} MiB of memory"
        except Exception:  # noqa: BLE001  an error of the template, which it raises in use
            continue
        if len(text) > MAX_CHARACTERS:
            return f"writes more than {MAX_CHARACTERS:,} characters"
    return ""


def limit_resources(seconds: int) -> None:
    """Limit CPU time and memory of this process, if the system supports it."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such module
        import resource

        for name, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, MEMORY)):
            _, hard = resource.getrlimit(name)
            resource.setrlimit(name, (limit, hard))


def main() -> None:
    """Read a template from the standard input and write what is wrong with it."""
    limit_resources(int(sys.argv[1]))
    sys.stdout.buffer.write(render_samples(sys.stdin.buffer.read().decode()).encode())


if __name__ == "__main__":
    main()
