"""Plan of a run's progress: the units that each editor has left, and how their work compares before it is measured."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from langchain_core.messages.utils import count_tokens_approximately

from emend.evals.case import Case
from emend.evals.log.manifest import Manifest
from emend.evals.run.results import Progress
from emend.evals.run.setup.run_setup import RunSetup
from emend.evals.run.units import EditorPass

TRAINING = 3
"""A forward and a backward pass, in forward passes."""
SEARCHED = 0.2
"""The part of its steps and contexts that a value search reads: it stops at a loss, and begins at the edited layer.

ROME on SmolLM2-135M-Instruct read 1,675 and 2,059 tokens an edit, of 9,700 that all steps would."""
TRAINED = 0.6
"""The part of its steps that training takes: it stops at a loss.

On SmolLM2-135M-Instruct `lora` took 35 to 50 of 70 steps, and `ft` 22 of 25."""
LAST_LAYERS = 1 / 3
"""The part of a model that steps pass through where chosen layers are trained: those before them are read once."""
SAMPLE = 3
"""Cases whose work is counted."""
WRITTEN = 10.0
"""Time of a written token, in tokens that are read."""
REPLY = 5
"""Tokens of a reply."""


def plan_progress(progress: Progress, setup: RunSetup, manifest: Manifest, finished: int) -> None:
    """Tell the progress what is left; passes come one after the other, so the first units are the finished ones."""
    units: dict[str, float] = defaultdict(float)
    tokens: dict[str, float] = {}
    counts = [manifest.cases[each.setting].cases + manifest.cases[each.setting].again for each in setup.share_passes]
    share = manifest.units / max(1, sum(counts))
    before = float(finished)
    samples = {setting: tuple(islice(setup.source.cases(setting), SAMPLE)) for setting in setup.source.settings}
    for editor_pass, count in zip(setup.share_passes, counts, strict=True):
        behind = min(before, count * share)
        before -= behind
        units[editor_pass.name] += count * share - behind
        if editor_pass.name not in tokens:
            tokens[editor_pass.name] = _unit_tokens(setup, editor_pass, samples[editor_pass.setting])
    progress.plan(units, tokens)


def _unit_tokens(setup: RunSetup, editor_pass: EditorPass, cases: Sequence[Case]) -> float:
    """Tokens that a unit passes through a local model, in tokens that are read; 1 for a model elsewhere."""
    if setup.calls_providers:
        return 1.0
    prompts = count_tokens_approximately([probe.prompt for case in cases for probe in case.probes])
    tokens = prompts + WRITTEN * REPLY * sum(len(case.probes) for case in cases)
    settings = getattr(editor_pass.editor, "settings", None)
    if editor_pass.editor.needs_weights and settings is not None:
        edits = [edit.text for case in cases for edit in case.edits]
        tokens += TRAINING * len(edits) * edit_tokens(asdict(settings), count_tokens_approximately(edits) / len(edits))
    return max(1.0, tokens / max(1, len(cases)))


def edit_tokens(settings: Mapping[str, Any], tokens: float) -> float:
    """Tokens that solving for one edit reads: in each step its prompts, behind contexts where the editor has such."""
    contexts = settings.get("context_template_length_params", ())
    if "v_num_grad_steps" in settings:
        prompts = 2 * tokens + sum(count * (length + tokens) for length, count in contexts)
        return float(SEARCHED * settings["v_num_grad_steps"] * prompts)
    part = LAST_LAYERS if settings.get("layers") else 1.0
    # Weights are read once a step, which takes as long for a prompt's few tokens as for the one that is written.
    return float(TRAINED * settings.get("num_steps", 1) * part * (tokens + WRITTEN))
