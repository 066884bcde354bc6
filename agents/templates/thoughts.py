"""Marks of thoughts in chat templates, opened by the prompt or the model."""

import re
from typing import NamedTuple

# Opening and closing marks of thoughts.
MARKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
}
OPENED = re.compile(rf"({'|'.join(map(re.escape, MARKS))})(\s*)\Z")
# Mark of gpt-oss before the channel of a message: `analysis` for thoughts, `final` for the answer.
CHANNEL = "<|channel|>"
HEADER = re.compile(r"<\|start\|>assistant\Z")
FINAL = f"{CHANNEL}final<|message|>"
# Mark that Granite writes before the answer behind its thoughts.
RESPONSE = "<response>"


def thought_room(tokens: int, limit: int, window: int | None) -> int:
    """Return the additional new tokens for thoughts: at most half of the window."""
    return tokens if window is None else max(0, min(tokens, window // 2, window - 1 - limit))


class Thoughts(NamedTuple):
    """Thoughts that a model writes before its answer.

    Args:
        opening: the end of a prompt that opens thoughts; empty if the model itself opens them.
        skipping: text between the prompt and the position of the answer that skips the thoughts.
        closing: mark at the end of thoughts.
    """

    opening: str
    skipping: str
    closing: str

    def complete(self, reply: str) -> str:
        """Prepend the mark that the prompt opened to a reply, so that unterminated thoughts are
        recognised.
        """
        return f"{self.opening}{reply}" if self.opening and reply else reply

    def cut(self, reply: str, stop: tuple[str, ...]) -> str:
        """Return a reply up to the first stop text after its thoughts."""
        thoughts, mark, answer = reply.rpartition(self.closing)
        if not mark:
            return reply
        body = answer.lstrip().removeprefix(RESPONSE).lstrip()
        end = min((at for text in stop if (at := body.find(text)) >= 0), default=len(body))
        return f"{thoughts}{mark}{answer[: len(answer) - len(body)]}{body[:end]}"


def opened_thoughts(prompt: str) -> Thoughts | None:
    """Return the thoughts opened by the end of a prompt, or None."""
    match = OPENED.search(prompt)
    if match is None:
        return None
    mark, space = match.groups()
    lines = "\n" if space else ""
    return Thoughts(mark + space, f"{lines}{MARKS[mark]}{lines * 2}", MARKS[mark])


def closes_thoughts(prompt: str) -> bool:
    """Return whether a prompt ends with closed thoughts, as for hybrid models with thoughts
    switched off.
    """
    return prompt.rstrip().endswith(tuple(MARKS.values()))


def channel_thoughts(template: str, prompt: str) -> Thoughts | None:
    """Return the thoughts of a model that writes them in a separate channel, such as gpt-oss."""
    if CHANNEL in template and HEADER.search(prompt):
        return Thoughts("", FINAL, FINAL)
    return None


def written_thoughts(beginning: str) -> Thoughts | None:
    """Return the thoughts opened by the beginning of a model's reply, or None."""
    if beginning.lstrip().startswith(CHANNEL):
        return Thoughts("", FINAL, FINAL)
    mark = next((mark for mark in MARKS if beginning.lstrip().startswith(mark)), "")
    return Thoughts("", f"{mark}\n\n{MARKS[mark]}\n\n", MARKS[mark]) if mark else None
