"""Marks that models and their servers leave in replies: delimited reasoning, channels, headers and end tokens."""

import re

_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|seed:think"
REASONING = (
    (rf"<(?:{_TAGS})>", rf"</(?:{_TAGS})>"),  # Qwen, DeepSeek, EXAONE, Seed
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # Sky-T1
    (r"<\|channel>thought\b", r"<channel\|>"),  # Gemma 4
)
"""Patterns of the first and the last mark of delimited reasoning."""
CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
"""Beginning of a message of gpt-oss; only that of the channel `final` is for the user."""
PLAIN_CHANNEL = re.compile(r"\Aanalysis(?=[A-Z]|\s*[\"'])(?:.*?assistant\s?final|.*)", re.DOTALL)
"""The same where a server has dropped the special tokens and left their texts."""
HEADERS = re.compile(
    r"\A(?:\s*(?:<\|im_start\|>\s*assistant|<start_of_turn>\s*model|<\|start_header_id\|>\s*assistant\s*"
    r"<\|end_header_id\|>|<\|start\|>\s*assistant|<\|(?:assistant|begin_of_text|START_RESPONSE)\|>|<bos>|<s>))+",
    re.IGNORECASE,
)
"""Marks of the turn's beginning."""
ENDS = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|eot|end|return|call|start|end_of_text|endoftext|end_of_turn|endofturn|"
    r"END_OF_TURN_TOKEN|END_RESPONSE|start_header_id|user|endofprompt)\|>"
    r"|</s>|<eos>|<end_of_turn>|<start_of_turn>|<turn\|>|<｜end▁of▁sentence｜>|<｜User｜>|\[EOS\]|\[/INST\]",
    re.IGNORECASE,
)
"""Marks at which a reply ends; a model that is not stopped there goes on with turns that it invents."""
WRAPPERS = re.compile(r"</?(?:answer|response)>", re.IGNORECASE)
"""Tags around the answer itself."""

_PAIRS = re.compile("|".join(rf"{first}.*?{last}" for first, last in REASONING), re.DOTALL | re.IGNORECASE)
_FIRST = re.compile("|".join(first for first, _ in REASONING), re.IGNORECASE)
_LAST = re.compile("|".join(last for _, last in REASONING), re.IGNORECASE)


def strip_marks(reply: str) -> str:
    r"""Return the reply without its reasoning and other marks; for reasoning without an end, only what is before it.

    The first mark of the reasoning may be in the chat template, and so not in the reply.

    >>> strip_marks("<think>\nOslo?\n</think>\nNorway"), strip_marks("Oslo?\n</think>Norway<|im_end|>")
    ('\nNorway', 'Norway')
    >>> strip_marks("<think>Oslo?"), strip_marks("<|channel|>analysis<|message|>Oslo?")
    ('', '')
    """
    text = PLAIN_CHANNEL.sub("", _PAIRS.sub("", HEADERS.sub("", _final_channel(reply))))
    if last := [*_LAST.finditer(text)]:
        text = text[last[-1].end() :]
    text = HEADERS.sub("", _FIRST.split(text, maxsplit=1)[0])
    return WRAPPERS.sub("", ENDS.split(text, maxsplit=1)[0])


def has_reasoning(reply: str) -> bool:
    """Return whether a reply holds reasoning in marks, with an end or without."""
    return bool(_FIRST.search(reply) or _LAST.search(reply) or CHANNEL.search(reply) or PLAIN_CHANNEL.search(reply))


def has_open_reasoning(reply: str) -> bool:
    """Return whether a reply's reasoning has no end, so that nothing after it can be its answer."""
    channels = [match[1] for match in CHANNEL.finditer(reply)]
    plain = PLAIN_CHANNEL.search(reply)
    return (
        bool(_FIRST.search(_PAIRS.sub("", reply)))
        or bool(channels and "final" not in channels)
        or bool(plain and not re.search(r"assistant\s?final\Z", plain[0]))
    )


def _final_channel(reply: str) -> str:
    """Text of the last `final` message; the reply itself where it has no channels, "" where it has others only."""
    messages = [*CHANNEL.finditer(reply)]
    if not messages:
        return reply
    return next((reply[message.end() :] for message in reversed(messages) if message[1] == "final"), "")
