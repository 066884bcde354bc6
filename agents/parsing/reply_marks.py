"""Removal of marks in replies: delimited reasoning, channels, headers and end tokens."""

import re

_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|seed:think"
# Patterns of the first and the last mark of delimited reasoning.
REASONING = (
    (rf"<(?:{_TAGS})>", rf"</(?:{_TAGS})>"),  # Qwen, DeepSeek, EXAONE, Seed
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # Sky-T1
    (r"<\|channel>thought\b", r"<channel\|>"),  # Gemma 4
)
# Beginning of a message of gpt-oss; only the channel `final` is for the user.
CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
# The same if a server dropped the special tokens and left their texts.
PLAIN_CHANNEL = re.compile(r"\Aanalysis(?=[A-Z]|\s*[\"'])(?:.*?assistant\s?final|.*)", re.DOTALL)
# Marks at the beginning of a turn.
HEADERS = re.compile(
    r"\A(?:\s*(?:<\|im_start\|>\s*assistant|<start_of_turn>\s*model|"
    r"<\|start_header_id\|>\s*assistant\s*"
    r"<\|end_header_id\|>|<\|start\|>\s*assistant|<\|(?:assistant|begin_of_text|START_RESPONSE)\|>|"
    r"<bos>|<s>))+",
    re.IGNORECASE,
)
# Marks at which a reply ends; a model that is not stopped there invents further turns.
ENDS = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|eot|end|return|call|start|end_of_text|endoftext|"
    r"end_of_turn|endofturn|"
    r"END_OF_TURN_TOKEN|END_RESPONSE|start_header_id|user|endofprompt)\|>"
    r"|</s>|<eos>|<end_of_turn>|<start_of_turn>|<turn\|>|<｜end▁of▁sentence｜>|<｜User｜>|\[EOS\]|"
    r"\[/INST\]",
    re.IGNORECASE,
)
# Tags around the answer itself.
WRAPPERS = re.compile(r"</?(?:answer|response)>", re.IGNORECASE)

_PAIRS = re.compile(
    "|".join(rf"{first}.*?{last}" for first, last in REASONING), re.DOTALL | re.IGNORECASE
)
_FIRST = re.compile("|".join(first for first, _ in REASONING), re.IGNORECASE)
_LAST = re.compile("|".join(last for _, last in REASONING), re.IGNORECASE)


def strip_marks(reply: str) -> str:
    r"""Return the reply without reasoning and other marks; unterminated reasoning is removed up to
    the end.

    The opening mark of the reasoning may be part of the chat template, and so missing in the reply.

    >>> strip_marks("<think>\nOslo?\n</think>\nNorway")
    '\nNorway'
    >>> strip_marks("Oslo?\n</think>Norway<|im_end|>")
    'Norway'
    >>> strip_marks("<think>Oslo?"), strip_marks("<|channel|>analysis<|message|>Oslo?")
    ('', '')
    """
    text = PLAIN_CHANNEL.sub("", _PAIRS.sub("", HEADERS.sub("", _final_channel(reply))))
    if last := [*_LAST.finditer(text)]:
        text = text[last[-1].end() :]
    text = HEADERS.sub("", _FIRST.split(text, maxsplit=1)[0])
    return WRAPPERS.sub("", ENDS.split(text, maxsplit=1)[0])


def has_reasoning(reply: str) -> bool:
    """Return whether a reply contains marked reasoning, terminated or not."""
    return bool(
        _FIRST.search(reply)
        or _LAST.search(reply)
        or CHANNEL.search(reply)
        or PLAIN_CHANNEL.search(reply)
    )


def has_open_reasoning(reply: str) -> bool:
    """Return whether a reply's reasoning is unterminated, so that the reply has no answer."""
    channels = [match[1] for match in CHANNEL.finditer(reply)]
    plain = PLAIN_CHANNEL.search(reply)
    return (
        bool(_FIRST.search(_PAIRS.sub("", reply)))
        or bool(channels and "final" not in channels)
        or bool(plain and not re.search(r"assistant\s?final\Z", plain[0]))
    )


def _final_channel(reply: str) -> str:
    """Return the text of the last `final` message, the whole reply if it has no channels, or "" if
    it has only others.
    """
    messages = [*CHANNEL.finditer(reply)]
    if not messages:
        return reply
    return next(
        (reply[message.end() :] for message in reversed(messages) if message[1] == "final"), ""
    )
