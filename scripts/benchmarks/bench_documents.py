"""Documents written into a local model: how much of each it then writes out, at what cost, and what else changes.

    python scripts/benchmarks/bench_documents.py measure --model hf:FOLDER --data AKEW/mquake_cf.json --editors unke,ft
    python scripts/benchmarks/bench_documents.py search --model hf:FOLDER --data AKEW/mquake_cf.json --editors unke

Each unstructured text of AKEW's MQuAKE-CF, the shortest first, is edited alone, bare (the model is asked its lead) or
behind the question of its fact (`--form question`). ROUGE-L (F1 over words) compares what the model then writes with
the target; the target's perplexity and that of texts of The World Factbook, the latter over the unedited model's,
are given too. `search` tries the settings of the table `[search]` of the editor's file, in random order, on the longest
documents.
"""

import argparse
import json
import math
import random
import time
from itertools import islice, product
from pathlib import Path
from statistics import mean
from typing import Any

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.cost import Meter
from emend.editors.hyperparameters import layers_at_depth, search_space
from emend.editors.numerics.apply_delta import applied
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.registry import EDITORS
from emend.evals.measure.text_corpora import read_corpus
from emend.evals.metrics.text.exact import rouge_l
from emend.memory.edit import Edit

HELD_OUT, LENGTH = 4, 400
"""Texts of which the perplexity is taken, and their letters."""


def read_documents(path: Path, form: str) -> list[Edit]:
    """The edits, one for each case's first rewrite, the shortest first."""
    edits: dict[str, Edit] = {}
    for case in json.loads(path.read_text()):
        rewrite = case["requested_rewrite"][0]
        text = rewrite["fact_new_uns"]
        asked = {"question": rewrite["question"], "target_new": text} if form == "question" else {}
        edits[text] = Edit(form="document", text=text, **asked)
    return sorted(edits.values(), key=lambda edit: len(edit.text))


def perplexity(lm: Any, texts: list[str]) -> float:
    """That of all tokens of the texts."""
    scores = lm.log_probs([("", text) for text in texts])
    return math.exp(-sum(score.log_prob for score in scores) / sum(score.target_tokens for score in scores))


def edit_and_ask(lm: Any, editor: Any, edit: Edit, texts: list[str]) -> dict[str, float]:
    """One edit, with the figures of the module's docstring; the editor `unedited` changes nothing."""
    (target, *_) = long_targets(lm, [edit], "new_fact")
    prompt, gold = (
        lm.tokenizer.decode(ids, skip_special_tokens=True)
        for ids in (target.ids[: target.start], target.ids[target.start :])
    )
    unedited = perplexity(lm, texts)
    with Meter(alone=True, lm=lm) as meter:
        deltas = editor.solve([edit]) if hasattr(editor, "solve") else {}
    with applied(lm.model, deltas, lm.lock):
        (written,) = lm.generate([prompt], len(target.ids) - target.start + 8, stop=())
        score = lm.log_probs([(prompt, gold)])[0]
        return {
            "rouge_l": rouge_l(written.text, gold),
            "target_perplexity": math.exp(-score.log_prob / score.target_tokens),
            "perplexity": perplexity(lm, texts) / unedited,
            "cpu_seconds": meter.cpu_seconds,
        }


def settings_to_try(name: str, number: int, layers: int) -> list[dict[str, Any]]:
    """The shipped settings, then those of the table `[search]` in random order."""
    space = search_space(name)
    every = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    random.Random(0).shuffle(every)
    for each in every:
        each["layers"] = layers_at_depth(each.pop("depth"), 1, layers)
    return [{}, *every][:number]


def print_row(**fields: Any) -> None:
    """Print one JSON object, numbers rounded."""
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in fields.items()}), flush=True)


def measure(model: Any, names: list[str], edits: list[Edit], texts: list[str], until: float) -> None:
    """Print a row for each document and editor, then the means, until the time is over."""
    editors = {name: EDITORS.load(name)(EditorContext(model)) for name in names}
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for edit in edits:
        if time.monotonic() > until:
            break
        for name, editor in editors.items():
            rows[name].append(edit_and_ask(model.lm, editor, edit, texts))
            print_row(editor=name, document=edit.id, **rows[name][-1])
    for name, measured in rows.items():
        print_row(editor=name, n=len(measured), **{key: mean(row[key] for row in measured) for key in measured[0]})


def search(model: Any, names: list[str], edits: list[Edit], texts: list[str], trials: int, until: float) -> None:
    """Print the means of each of an editor's settings, until the time is over."""
    for name in names:
        for settings in settings_to_try(name, trials, model.lm.model.config.num_hidden_layers):
            if time.monotonic() > until:
                return
            editor = EDITORS.load(name)(EditorContext(model, settings=settings))
            rows = [edit_and_ask(model.lm, editor, edit, texts) for edit in edits]
            print_row(editor=name, n=len(rows), **settings, **{key: mean(row[key] for row in rows) for key in rows[0]})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("measure", "search"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--editors", default="unke,anyedit,ft,lora")
    parser.add_argument("--form", choices=("bare", "question"), default="bare")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=7.0)
    chosen = parser.parse_args()
    model: Any = load_model(chosen.model, device="cpu")
    every, until = read_documents(chosen.data, chosen.form), time.monotonic() + 60 * chosen.minutes
    texts, names = [text[:LENGTH] for text in islice(read_corpus(["factbook"]), HELD_OUT)], chosen.editors.split(",")
    if chosen.mode == "measure":
        measure(model, names, every[chosen.skip : chosen.skip + chosen.documents], texts, until)
    else:
        search(model, names, every[-chosen.documents :], texts, chosen.trials, until)


if __name__ == "__main__":
    main()
