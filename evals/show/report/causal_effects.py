"""Causal tracing as a table, and as heat maps like those of figure 1 of Meng et al. (2022)."""

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emend.editors.tracing.causal_trace import KINDS, window
from emend.editors.tracing.mean_effects import LAST_SUBJECT, ROLES, LayerChoice, MeanEffects
from emend.evals.show.report.plots.plotting import drawing
from emend.evals.show.report.tables.layout import dim, frame

TITLES = {"state": "one hidden state", "mlp": "MLPs of ten layers", "attention": "attention of ten layers"}
COLOURS = {"state": "Purples", "mlp": "Greens", "attention": "Reds"}


def effect_rows(effects: MeanEffects) -> list[dict[str, Any]]:
    """One row for each kind, role and layer; `effect` is None where no fact has a token of the role."""
    return [
        {"kind": kind, "token": role, "layer": layer, "effect": None if value != value else value, "n": effects.facts}
        for kind in KINDS
        for role, values in zip(ROLES, effects.indirect[kind].tolist(), strict=True)
        for layer, value in enumerate(values)
    ]


def render_effects(effects: MeanEffects, layers: LayerChoice, unknown: int) -> RenderableType:
    """The effects at the subject's last and the prompt's last token by layer, and the suggestion."""
    table = frame("layer", *(f"{kind}, {where}" for where in ("last subject", "last token") for kind in KINDS))
    for layer in range(effects.indirect["mlp"].shape[1]):
        places = (LAST_SUBJECT, len(ROLES) - 1)
        values = [float(effects.indirect[kind][place, layer]) for place in places for kind in KINDS]
        mark = " <" if layer == layers.rome else ""
        table.add(f"{layer}{mark}", *("" if value != value else f"{100 * value:z.1f}" for value in values))
    left_out = f"; {unknown} facts that the model does not know are left out" if unknown else ""
    notes = [
        f"n = {effects.facts} facts{left_out}; mean probability of the answer that comes back, in points, of the "
        f"{100 * effects.total:.1f} that a blurred subject costs.",
        "state: one hidden state is restored; mlp and attention: the outputs of ten layers together.",
    ]
    restored = window(layers.rome, effects.indirect["mlp"].shape[1])
    suggestion = (
        f"Most comes back by the MLPs of layers {restored[0]} to {restored[-1]} at the last subject token, round layer "
        f"{layers.rome}. Try rome.layers=[{layers.rome}] and memit.layers={list(layers.memit)}, and compare: edits "
        "need not take best there."
    )
    return Group(table, *dim(notes), Text(suggestion))


def plot_effects(effects: MeanEffects, file: Path) -> None:
    """Draw the mean indirect effects into a PNG or SVG file.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadSettings: the file's ending is another, or its folder is absent.
    """
    with drawing(file, 11, 2.6) as figure:
        panels = figure.subplots(1, len(KINDS), sharey=True)
        for panel, kind in zip(panels, KINDS, strict=True):
            image = panel.imshow(effects.indirect[kind].numpy(), aspect="auto", cmap=COLOURS[kind], vmin=0)
            panel.set_title(f"restored: {TITLES[kind]}")
            panel.set_xlabel("layer")
            figure.colorbar(image, ax=panel, label="mean indirect effect")
        panels[0].set_yticks(range(len(ROLES)), ROLES)
        figure.suptitle(f"probability of the answer that comes back, {effects.facts} facts", fontsize=9)
