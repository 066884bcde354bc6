"""Questions that are asked through a chain of thought, in the form that MQuAKE and ReCoE print."""

from typing import Any

COT_PROMPT = "Question: {question}\nThoughts:"


def chain_fields(question: str, examples: str) -> dict[str, Any]:
    """The fields of a probe that asks for a chain of thought after solved examples; without any, it asks directly."""
    if not examples:
        return {"prompt": question, "style": "question"}
    prompt = COT_PROMPT.format(question=question)
    return {"prompt": prompt, "style": "raw", "query": question, "examples": examples, "reading": "thoughts"}
