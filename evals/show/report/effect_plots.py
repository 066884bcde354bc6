"""Table and plot of the mean indirect effects of causal tracing."""

import math
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emend.editors.tracing.causal_trace import KINDS, window
from emend.editors.tracing.mean_effects import LAST_SUBJECT, ROLES, LayerChoice, MeanEffects
from emend.evals.show.report.layout import dim, frame
from emend.evals.show.report.plots import drawing

TITLES = {
    "state": "one hidden state",
    "mlp": "MLPs of ten layers",
    "attention": "attention of ten layers",
}
COLOUR_MAPS = {"state": "Purples", "mlp": "Greens", "attention": "Reds"}


def effect_rows(effects: MeanEffects) -> list[dict[str, Any]]:
    """Return one row for each kind, role and layer.

    `effect` is None if no fact has a token with the role.
    """
    rows = list[dict[str, Any]]()
    for kind in KINDS:
        for role, values in zip(ROLES, effects.indirect[kind].tolist(), strict=True):
            for layer, value in enumerate(values):
                row = {"kind": kind, "token": role, "layer": layer, "effect": value}
                if math.isnan(value):
                    row["effect"] = None
                rows.append(row | {"n": effects.facts})
    return rows


def _percent(value: float) -> str:
    """Format a share in percent; empty for NaN, that is if no fact has a token with the role."""
    if math.isnan(value):
        return ""
    return f"{100 * value:z.1f}"


def render_effects(effects: MeanEffects, layers: LayerChoice, unknown: int) -> RenderableType:
    """Render the effects by layer at the last subject and last prompt token, and suggest layers."""
    table = frame(
        "layer", *(f"{kind}, {where}" for where in ("last subject", "last token") for kind in KINDS)
    )
    for layer in range(effects.indirect["mlp"].shape[1]):
        positions = (LAST_SUBJECT, len(ROLES) - 1)
        values = [
            float(effects.indirect[kind][position, layer])
            for position in positions
            for kind in KINDS
        ]
        mark = ""
        if layer == layers.rome:
            mark = " <"
        table.add(f"{layer}{mark}", *map(_percent, values))
    left_out = ""
    if unknown:
        left_out = f"; {unknown} facts that the model does not know are excluded"
    notes = [
        f"n = {effects.facts} facts{left_out}; mean probability of the answer that is restored, "
        f"in points, out of the {100 * effects.total:.1f} lost by adding noise to the subject.",
        "state: one hidden state is restored; mlp and attention: the outputs of ten layers "
        "together.",
    ]
    restored = window(layers.rome, effects.indirect["mlp"].shape[1])
    suggestion = (
        f"The largest effect comes from the MLPs of layers {restored[0]} to {restored[-1]} at the "
        f"last subject token, around layer {layers.rome}. Try rome.layers=[{layers.rome}] and "
        f"memit.layers={list(layers.memit)}, and compare: edits do not necessarily work best "
        "there."
    )
    return Group(table, *dim(notes), Text(suggestion))


def plot_effects(effects: MeanEffects, file: Path) -> None:
    """Draw the mean indirect effects into a PNG or SVG file.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadSettings: the file does not end in .png or .svg, or its folder does not exist.
    """
    with drawing(file, 11, 2.6) as figure:
        panels = figure.subplots(1, len(KINDS), sharey=True)
        for panel, kind in zip(panels, KINDS, strict=True):
            image = panel.imshow(
                effects.indirect[kind].numpy(), aspect="auto", cmap=COLOUR_MAPS[kind], vmin=0
            )
            panel.set_title(f"restored: {TITLES[kind]}")
            panel.set_xlabel("layer")
            figure.colorbar(image, ax=panel, label="mean indirect effect")
        panels[0].set_yticks(range(len(ROLES)), ROLES)
        figure.suptitle(f"restored probability of the answer, {effects.facts} facts", fontsize=9)
