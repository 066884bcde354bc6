"""Published datasets that are read as fact files, each recognised by its fields.

Formats, as in their repositories and loaders:

- UnKEBench (Deng et al. 2024), zsRE (Levy et al. 2017, in MEND's form), QAEdit (Yang et al. 2025);
- WikiBigEdit (Thede et al. 2025), github.com/ExplainableML/WikiBigEdit at 66b4285, `combine_qa.py`:
  `update`, `ans`, `rephrase`, `personas`, `mhop`, `mhop_ans`, `loc`, `loc_ans`;
- KnowEdit (Zhang et al. 2024), github.com/zjunlp/EasyEdit at 14cea82, `dataset/knowedit.py`:
  `subject`, `prompt`, `target_new`, `portability` and `locality` of WikiData_recent,
  WikiData_counterfact and ZsRE, and `text`, `labels`, `concept` of WikiBio; its own scores and its
  erasure set are in the benchmark `knowedit`;
- HalluEditBench (Huang et al. 2025), github.com/llm-editing/HalluEditBench at 6bbd333, its CSV
  files: questions for efficacy, generalization, portability of two to six hops, and locality; its
  robustness dialogues and multiple-choice questions are not asked. Use `--only-wrong-before` to
  restrict it to the model's hallucinations.
- UniEdit (Chen et al. 2025), github.com/qizhou000/UniEdit at 72ae7f8, README: an object of rows
  with `edit`, `generality` and `locality`. Its own scores, the target among the five most probable
  tokens, are in the benchmark `uniedit`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from emend.evals.data.facts.fact_rows import style_of
from emend.memory.errors import BadData

Fields = dict[str, Any]
# Numbers of hops of HalluEditBench's questions.
HOPS = range(2, 7)


class PublishedForm(NamedTuple):
    """A published row format: its name, the fields that identify it, and the function that converts
    a row to a fact row.
    """

    name: str
    fields: frozenset[str]
    convert: Callable[[Fields], Fields]


def from_published(row: Fields) -> Fields:
    """Convert a row in a published format to the fields of a fact row; return other rows unchanged.

    Raises:
        BadData: the row has the fields of a format, but values of other types.
    """
    form = next((form for form in FORMS if form.fields <= row.keys()), None)
    if form is None:
        return row
    try:
        return form.convert(row)
    except (TypeError, AttributeError, IndexError, KeyError, ValueError) as error:
        raise BadData(f"it has the fields of {form.name} with other values: {error}") from error


def is_left_out(row: Fields) -> bool:
    """Return True for a zsRE row without a new answer, which the published code skips too."""
    return {"src", "alt", "loc"} <= row.keys() and row["alt"] == ""


def rows_of_object(content: Any) -> Any:
    """Return the rows of UniEdit's object of rows; return other content unchanged."""
    if not isinstance(content, dict) or not content:
        return content
    rows = list(content.values())
    is_uniedit = all(isinstance(row, dict) and UNIEDIT_FIELDS <= row.keys() for row in rows)
    if is_uniedit:
        return rows
    return content


def _from_unkebench(row: Fields) -> Fields:
    """Convert a text that answers a question, its paraphrase, and questions about parts of the
    text.
    """
    parts = zip(row["sub_question"], row["sub_answer"], strict=True)
    return {
        "document": row["answer"],
        "question": row["question"],
        "answer": row["answer"],
        "paraphrases": [row["para_question"]],
        "sub_questions": [{"question": question, "answer": answer} for question, answer in parts],
    }


def _from_zsre(row: Fields) -> Fields:
    """Convert a question whose answer changes, and a question that must not be affected."""
    unrelated = as_question(row["loc"].removeprefix("nq question: "))
    fields = {
        "question": row["src"],
        "answer": row["alt"],
        "old_answer": row["answers"][0],
        "paraphrases": [row["rephrase"]],
        "locality": [{"question": unrelated, "answer": row["loc_ans"]}],
    }
    return fields | _fact(row["src"], row.get("subject") or "", row["alt"])


def _from_qaedit(row: Fields) -> Fields:
    """Convert a question with its new answer, and questions that must not be affected."""
    question = as_question(row["prompt"])
    fields = {
        "question": question,
        "answer": row["target"],
        "paraphrases": [as_question(row["rephrase"])],
        "locality": [
            {"question": as_question(other["loc"]), "answer": other["loc_ans"]}
            for other in row["locality"]
        ],
    }
    return fields | _fact(question, row["subject"], row["target"])


def _from_wikibigedit(row: Fields) -> Fields:
    """Convert a question, its paraphrases by rule and by personas, a two-hop question, and a
    locality question.
    """
    personas = [text for name, text in row.items() if name.startswith("personas") and text]
    fields: Fields = {
        "question": row["update"],
        "answer": row["ans"],
        "paraphrases": [row["rephrase"], *personas],
        "locality": [{"question": row["loc"], "answer": row["loc_ans"]}],
        "tags": {"tag": row["tag"]} if row.get("tag") else {},
    }
    if row.get("mhop"):
        fields["multihop"] = [{"question": row["mhop"], "answer": row["mhop_ans"]}]
    return fields | _fact(row["update"], row["subject"], row["ans"])


def _from_knowedit(row: Fields) -> Fields:
    """Convert a question or cloze, its portability questions, and its locality questions, by
    kind.
    """
    subject, prompt, target = row["subject"], row["prompt"], row["target_new"]
    fields: Fields = {"answer": target, "multihop": [], "locality": []}
    for kind, items in (row.get("portability") or {}).items():
        fields["multihop"] += _knowedit_questions(items, "portability", kind)
    for kind, items in (row["locality"] or {}).items():
        fields["locality"] += _knowedit_questions(items, "locality", kind)
    if rephrase := row.get("rephrase_prompt") or row.get("rephrase"):
        fields["paraphrases"] = [rephrase]
    old = _answers(row.get("ground_truth") or [])
    if old and old[0] != target:
        fields["old_answer"] = old[0]
    if style_of(prompt) == "question":
        return fields | {"question": prompt} | _fact(prompt, subject, target)
    if prompt.count(subject) != 1:
        return fields | {"question": prompt, "document": f"{prompt} {target}"}
    template = prompt.replace(subject, "{}")
    relation = " ".join(template.replace("{}", " ").split())
    return fields | {"subject": subject, "relation": relation, "object": target, "prompt": template}


def _from_wikibio(row: Fields) -> Fields:
    """Convert the beginning of a biography and the sentence that should follow instead of the
    hallucinated one.
    """
    questions: list[Fields] = []
    for kind, items in (row["locality"] or {}).items():
        questions += _knowedit_questions(items, "locality", kind)
    text, sentence = row["text"].strip(), row["labels"].strip()
    return {
        "document": f"{text} {sentence}",
        "question": text,
        "answer": sentence,
        "locality": questions,
        "tags": {"concept": row["concept"]},
    }


def _knowedit_questions(items: Any, tag: str, kind: str) -> list[Fields]:
    """Return the questions of a kind with their answers; those without an answer are left out, as
    in the published code.
    """
    questions = []
    for item in items or ():
        answers = _answers(item["ground_truth"])
        prompts = _answers(item["prompt"])
        if answers and prompts:
            first, *aliases = answers
            question = {"question": prompts[0], "answer": first, "tags": {tag: kind}}
            questions.append(question | ({"aliases": aliases} if aliases else {}))
    return questions


def _answers(value: Any) -> list[str]:
    """Return the distinct non-blank texts of a text or of nested lists; those after the first are
    aliases.
    """
    if isinstance(value, str):
        if value.strip():
            return [value]
        return []
    texts: list[str] = []
    for part in value:
        texts += [text for text in _answers(part) if text not in texts]
    return texts


def _from_hallueditbench(row: Fields) -> Fields:
    """Convert a question that a model answers wrongly, with paraphrases, yes/no, multi-hop,
    reversed and locality questions.
    """
    question, target = row["question"], row["object"]
    fields: Fields = {"question": question, "answer": target, "multihop": [], "reasoning": []}
    if paraphrase := row.get("paraphrased_question"):
        fields["paraphrases"] = [paraphrase]
    for name, answer in (("yes_question", "yes"), ("no_question", "no")):
        if text := row.get(name):
            fields["reasoning"].append(
                {"question": text, "answer": answer, "tags": {"asked": name}}
            )
    for hops in HOPS:
        hop_question, hop_answer = row.get(f"question_{hops}hop"), row.get(f"answer_{hops}hop")
        if hop_question and hop_answer:
            fields["multihop"].append(
                {"question": hop_question, "answer": hop_answer, "tags": {"hops": hops}}
            )
    if reverse := row.get("reversed_relation_question"):
        back = {"question": reverse, "answer": row["subject"], "tags": {"asked": "reversed"}}
        fields["multihop"].append(back)
    if unrelated := row.get("locality_question"):
        fields["locality"] = [{"question": unrelated}]
    if topic := row.get("topic"):
        fields["tags"] = {"topic": topic}
    return fields | _fact(question, row["subject"], target)


def _from_uniedit(row: Fields) -> Fields:
    """Convert a cloze, multi-hop questions that follow from it, and locality questions."""
    edit = row["edit"]
    prompt, subject, target = edit["prompt"], edit["subject"], edit["target"]
    fields: Fields = {"answer": target, "multihop": [], "reasoning": [], "locality": []}
    for item in row["generality"].values():
        question = {"question": item["prompt"], "answer": item["target"]}
        question["tags"] = {"path": item["path_type"]}
        is_choice = item["target"].strip().lower() in ("yes", "no")
        fields["reasoning" if is_choice else "multihop"].append(question)
    for item in row["locality"].values():
        question = {"question": item["prompt"], "answer": item["target"]}
        fields["locality"].append(question | {"tags": {"path": item["path_type"]}})
    if prompt.count(subject) != 1:
        return fields | {"question": prompt, "document": f"{prompt} {target}"}
    template = prompt.replace(subject, "{}")
    relation = edit.get("property", {}).get("label") or template.replace("{}", " ").strip()
    return fields | {"subject": subject, "relation": relation, "object": target, "prompt": template}


def as_question(text: str) -> str:
    """Return the text with a question mark, which many texts lost when they were published."""
    text = text.strip()
    if text.endswith("?"):
        return text
    return text.rstrip(" .") + "?"


def _fact(question: str, subject: str, answer: str) -> Fields:
    """Return the question as the relation of its subject to the answer; a document unless it names
    the subject exactly once.
    """
    if not subject or question.count(subject) != 1:
        return {"document": f"{question} {answer}"}
    relation = " ".join(question.replace(subject, " ").split())
    template = question.replace(subject, "{}")
    return {"subject": subject, "relation": relation, "object": answer, "prompt": template}


UNIEDIT_FIELDS = frozenset({"edit", "generality", "locality"})
# The first format that fits is used.
FORMS = (
    PublishedForm(
        "UnKEBench",
        frozenset({"question", "answer", "para_question", "sub_question", "sub_answer"}),
        _from_unkebench,
    ),
    PublishedForm(
        "zsRE", frozenset({"src", "alt", "answers", "rephrase", "loc", "loc_ans"}), _from_zsre
    ),
    PublishedForm(
        "QAEdit", frozenset({"prompt", "target", "subject", "rephrase", "locality"}), _from_qaedit
    ),
    PublishedForm(
        "WikiBigEdit",
        frozenset({"subject", "update", "ans", "rephrase", "loc", "loc_ans"}),
        _from_wikibigedit,
    ),
    PublishedForm(
        "KnowEdit", frozenset({"subject", "prompt", "target_new", "locality"}), _from_knowedit
    ),
    PublishedForm("WikiBio", frozenset({"text", "labels", "concept", "locality"}), _from_wikibio),
    PublishedForm(
        "HalluEditBench",
        frozenset({"subject", "object", "question", "yes_question", "locality_question"}),
        _from_hallueditbench,
    ),
    PublishedForm("UniEdit", UNIEDIT_FIELDS, _from_uniedit),
)
