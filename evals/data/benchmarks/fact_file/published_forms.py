"""Published rows in the fields of a file of facts: UnKEBench (Deng et al. 2024) and zsRE (Mitchell et al. 2022)."""

from typing import Any

Fields = dict[str, Any]


def from_published(row: Fields) -> Fields:
    """The fields of a row that has one of the forms; another row as it is."""
    if {"question", "answer", "para_question", "sub_question", "sub_answer"} <= row.keys():
        return _from_unkebench(row)
    if {"src", "alt", "answers", "rephrase", "loc", "loc_ans"} <= row.keys():
        return _from_zsre(row)
    return row


def is_left_out(row: Fields) -> bool:
    """True for a row of zsRE that has no new answer, which the published code skips too."""
    return {"src", "alt", "loc"} <= row.keys() and row["alt"] == ""


def _from_unkebench(row: Fields) -> Fields:
    """A text that answers a question, the question in other words, and questions about parts of the text."""
    parts = zip(row["sub_question"], row["sub_answer"], strict=True)
    return {
        "document": row["answer"],
        "question": row["question"],
        "answer": row["answer"],
        "paraphrases": [row["para_question"]],
        "sub_questions": [{"question": question, "answer": answer} for question, answer in parts],
    }


def _from_zsre(row: Fields) -> Fields:
    """A question whose answer changes; the question that must be left alone lost its question mark when published."""
    question, subject = row["src"], row.get("subject") or ""
    aside = {"question": row["loc"].removeprefix("nq question: ").strip() + "?", "answer": row["loc_ans"]}
    fields: Fields = {
        "question": question,
        "answer": row["alt"],
        "old_answer": row["answers"][0],
        "paraphrases": [row["rephrase"]],
        "locality": [aside],
    }
    if subject and question.count(subject) == 1:
        prompt = question.replace(subject, "{}")
        relation = " ".join(question.replace(subject, " ").split())
        return fields | {"subject": subject, "relation": relation, "object": row["alt"], "prompt": prompt}
    return fields | {"document": f"{question} {row['alt']}"}
