"""Heat maps of causal tracing, as in figure 1 of Meng et al. (2022): tokens by role, layers, and a panel a kind."""

from pathlib import Path

from emend.editors.tracing.causal_trace import KINDS
from emend.editors.tracing.mean_effects import ROLES, MeanEffects
from emend.evals.show.report.plots.plotting import drawing

TITLES = {"state": "one hidden state", "mlp": "MLPs of ten layers", "attention": "attention of ten layers"}
COLOURS = {"state": "Purples", "mlp": "Greens", "attention": "Reds"}


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
