"""Factory of a run's editors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from emend.editors.base import Editor, EditorContext
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.editors.unsupported_editors import RefusedEditor
from emend.evals.evaluate.setup.case_source import CaseSource
from emend.memory.errors import BadSettings, EditorUnusable, EmendError, MissingData


@dataclass(frozen=True)
class EditorFactory:
    """Makes the editors of a run.

    Attributes:
        context: model, memory and retriever; demonstrations and settings are added for each editor.
        classes: factories of editors by name, called with a context.
        overrides: settings by editor.
        source: source of the settings' edits and demonstrations.
    """

    context: EditorContext
    classes: Mapping[str, Callable[[EditorContext], Editor]]
    overrides: Mapping[str, dict[str, Any]]
    source: CaseSource

    def unedited(self) -> Editor:
        """Return the editor that applies no edits to the model."""
        return Unedited(self.context)

    def all(self) -> dict[tuple[str, str], Editor]:
        """Return the editors by setting and name, with stand-ins for unusable ones.

        An editor is unusable if it does not work with the model or with the setting's edits.

        Raises:
            EmendError: an editor works in no setting, or has wrong settings.
        """
        editors = self._usable()
        return editors | self._refused(editors)

    def _usable(self) -> dict[tuple[str, str], Editor]:
        """Return the editors by setting and name, with stand-ins for those unfit for the model.

        Raises:
            EmendError: no editor fits the model, or an editor has wrong settings.
        """
        editors: dict[tuple[str, str], Editor] = {}
        errors: list[EmendError] = []
        for setting, name in (
            (setting, name) for setting in self.source.settings for name in self.classes
        ):
            try:
                editors[setting, name] = self.editor(name, setting)
            except (EditorUnusable, MissingData) as error:
                errors.append(error)
                editors[setting, name] = RefusedEditor(None, str(error))
        if len(errors) == len(editors):
            raise errors[0]
        return editors

    def _refused(self, editors: Mapping[tuple[str, str], Editor]) -> dict[tuple[str, str], Editor]:
        """Return stand-ins for editors in settings whose edits they cannot apply.

        Raises:
            BadSettings: an editor cannot apply the edits of any setting.
        """
        writing = {
            name for (_, name), editor in editors.items() if getattr(editor, "needs_subject", False)
        }
        nameless = [
            setting
            for setting in self.source.settings
            if writing and not self.source.names_subjects(setting)
        ]
        refused: dict[tuple[str, str], Editor] = {}
        for name in (name for name in self.classes if name in writing):
            if len(nameless) == len(self.source.settings):
                raise BadSettings(
                    f"editor '{name}' writes at an edit's subject, and the edits of setting "
                    f"'{nameless[0]}' have no subject: choose another of "
                    f"{', '.join(self.source.benchmark.settings)} (--setting), or read triplets "
                    "out of the texts (`emend extract`) and give them with --benchmark-option "
                    "triples=FILE --setting extract."
                )
            for setting in nameless:
                reason = (
                    f"{name} writes at an edit's subject, but the edits of setting '{setting}' "
                    "have none"
                )
                refused[setting, name] = RefusedEditor(editors[setting, name], reason)
        return refused

    def editor(self, name: str, setting: str) -> Editor:
        """Make the editor of that name for a setting.

        Raises:
            BadSettings: the factory made something other than an editor.
        """
        demonstrations = self.source.benchmark.demonstrations(setting, self.context.seed)
        context = replace(
            self.context, demonstrations=demonstrations, settings=self.overrides.get(name, {})
        )
        with EDITORS.plugin_errors(name):
            editor = self.classes[name](context)
        if lacking := [
            part for part in ("needs_weights", "fingerprint", "edit") if not hasattr(editor, part)
        ]:
            raise BadSettings(
                f"editor '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for "
                "the interface of an editor."
            )
        return editor
