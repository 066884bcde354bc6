"""Remaining work of a run for its progress display: units and tokens per unit by editor."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice

from langchain_core.messages.utils import count_tokens_approximately

from emend.editors.edit_estimate import DECODE_COST, PASSES_PER_STEP, estimate_edit_tokens
from emend.evals.case import Case
from emend.evals.evaluate.setup.run_setup import RunSetup
from emend.evals.evaluate.units import EditorPass
from emend.evals.jobs.progress import Progress
from emend.evals.log.manifest import Manifest

# Number of cases per setting whose tokens are counted.
SAMPLE = 3
# Assumed number of tokens of a reply.
REPLY = 5


def plan_progress(progress: Progress, setup: RunSetup, manifest: Manifest, finished: int) -> None:
    """Plan the progress with the remaining units by editor.

    Passes are evaluated one after the other, so the finished units are those of the first passes.
    """
    units: dict[str, float] = defaultdict(float)
    tokens: dict[str, float] = {}
    counts = [
        manifest.cases[each.setting].cases + manifest.cases[each.setting].again
        for each in setup.share_passes
    ]
    share = manifest.units / max(1, sum(counts))
    before = float(finished)
    samples = {
        setting: tuple(islice(setup.source.cases(setting), SAMPLE))
        for setting in setup.source.settings
    }
    for editor_pass, count in zip(setup.share_passes, counts, strict=True):
        behind = min(before, count * share)
        before -= behind
        units[editor_pass.name] += count * share - behind
        if editor_pass.name not in tokens:
            tokens[editor_pass.name] = _unit_tokens(
                setup, editor_pass, samples[editor_pass.setting]
            )
    progress.plan(units, tokens)


def _unit_tokens(setup: RunSetup, editor_pass: EditorPass, cases: Sequence[Case]) -> float:
    """Return the tokens per unit of a local model, with generated tokens weighted by cost.

    The result is 1 for a model behind an API.
    """
    if setup.calls_providers:
        return 1.0
    prompts = count_tokens_approximately([probe.prompt for case in cases for probe in case.probes])
    tokens = prompts + DECODE_COST * REPLY * sum(len(case.probes) for case in cases)
    settings = getattr(editor_pass.editor, "settings", None)
    if editor_pass.editor.needs_weights and settings is not None:
        edits = [edit.text for case in cases for edit in case.edits]
        mean = count_tokens_approximately(edits) / len(edits)
        tokens += PASSES_PER_STEP * len(edits) * estimate_edit_tokens(asdict(settings), mean)
    return max(1.0, tokens / max(1, len(cases)))
