"""Authors' prompts are read out of their programs' literals, and nothing of a program is run."""

from pathlib import Path

import pytest

from emend.agents.judging.prompt_file import read_prompts
from emend.agents.roles.instructions import read_instructions
from emend.evals.data.pull import make
from emend.memory.errors import BadData

CLASS = """
class {name}:
    def __init__(self, flag):
        if flag:
            self.path = "x"
        if self.flag:
            instruction = "First of {name}. "
            instruction += "More."
        else:
            instruction = "Second of {name}."

    def get_input(self, item, qa):
        if self.flag:
            input = f"Question: {{qa['question']}} {{qa['candidate']}} Answer:"
        else:
            input = f"Event: {{item['event']}} Question: {{qa['question']}} Answer:"
"""
JUDGE = """
raise SystemExit("nothing of this is run")
def construct():
    instruction = "Score {name}. "
    # instruction += "no longer said"
    instruction += "Only that."
"""
LISTS = """
examples = [{"event": "E", "question": "Q", "answer": "A", "label": "L",
  "score": {"accuracy": 5, "coherence": 4, "comprehensive": 3, "overall": 2}}]
local_examples = [{"answer1": "One", "answer2": "Two", "label": 1}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    names = ("FactDataProcessor", "TendencyDataProcessor", "TendencyLocalDataProcessor")
    programs = {
        "processor.py": "".join(CLASS.format(name=name) for name in names),
        "prompt.py": LISTS,
        "query_data.py": JUDGE.format(name="tendencies"),
        "query_data_locality.py": JUDGE.format(name="agreement"),
    }
    for name, text in programs.items():
        (tmp_path / "prompts" / name).write_text(text)
    return tmp_path


def test_instructions_with_and_without_an_event_become_a_file_for_a_run(folder: Path):
    make("elken_run", folder, folder / "run.json")
    tables = read_instructions(folder / "run.json")
    assert list(tables) == ["fact", "tendency_m", "tendency_open"]
    fact, choice = tables["fact"], tables["tendency_m"]
    assert fact.task == "Second of FactDataProcessor." and "{facts}" in fact.ask
    assert fact.alone is not None and fact.alone.task == "First of FactDataProcessor. More."
    assert choice.alone is not None and choice.alone.task == "First of TendencyLocalDataProcessor. More."
    assert choice.ask == "Question: {question} {options} Answer:"


def test_judges_prompts_have_their_demonstrations(folder: Path):
    make("elken_judges", folder, folder / "judges.json")
    tables = read_prompts(folder / "judges.json")
    assert tables["tendency"].task == "Score tendencies. Only that."
    assert tables["tendency"].examples[0]["reply"] == "Accuracy: 5; Coherence: 4; Comprehensive: 3; Overall: 2"
    assert tables["agreement"].examples == ({"one": "One", "other": "Two", "reply": "Score: 1"},)


@pytest.mark.parametrize("text", ["class FactDataProcessor: pass", "def (", "", "x = 1", "(" * 5_000])
def test_a_program_of_another_form_is_refused(folder: Path, text: str):
    (folder / "prompts" / "processor.py").write_text(text)
    with pytest.raises(BadData):
        make("elken_run", folder, folder / "run.json")
    assert not (folder / "run.json").exists()


@pytest.mark.parametrize("text", ["examples = []", "examples = f()", "examples = [{}]\nlocal_examples = []"])
def test_demonstrations_of_another_form_are_refused(folder: Path, text: str):
    (folder / "prompts" / "prompt.py").write_text(text)
    with pytest.raises(BadData, match="prompt.py"):
        make("elken_judges", folder, folder / "judges.json")
