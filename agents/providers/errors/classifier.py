"""Classification of provider errors by status, codes, words and numbers."""

from emend.agents.providers.errors import words
from emend.agents.providers.errors.rejection import Rejection
from emend.agents.providers.errors.remedies import (
    AWAY,
    BAD_REPLY,
    BLOCKED,
    COUNTRY,
    DAILY,
    EMPTY,
    LIMITED,
    LONG,
    NO_KEY,
    NO_MODEL,
    PAUSED,
    REFUSED,
    TOO_EXPENSIVE,
    TOO_LARGE_AT_ONCE,
    TOO_MANY,
    UNCLEAR,
    WRONG,
    Row,
)
from emend.agents.providers.errors.words import meet, number

# HTTP statuses for a request that is too large.
SIZED = (400, 413, 422, 429)


def classify(rejection: Rejection) -> Row:
    """Return the table row for an error with a status, or for one inside a stream, which has
    none.
    """
    for find in (_of_credit, _of_reply, _of_place, _of_size, _of_status):
        row = find(rejection)
        if row is not None:
            return row
    return _of_words(rejection)


def _of_credit(rejection: Rejection) -> Row | None:
    """Row for an account that cannot pay."""
    if amounts := words.AFFORD.search(rejection.text):
        return TOO_EXPENSIVE if number(amounts[2]) else EMPTY
    if meet(rejection.sentences, words.NO_FREE_USE):
        return EMPTY
    is_empty = rejection.status == 402 or bool(rejection.codes & words.CREDIT_CODES)
    paid = [text for text in rejection.sentences if not words.PLAN.search(text)]
    is_empty |= meet(paid, words.MONEY, words.SPENT) or meet(paid, words.ACCOUNT, words.SUSPENDED)
    if not is_empty and meet(rejection.sentences, words.PLAN):
        passes = rejection.pause is not None or words.PASSES.search(rejection.text)
        is_empty = rejection.status != 429 or not (
            passes or words.LONG_PERIOD.search(rejection.text)
        )
    if not is_empty or rejection.status >= 500:
        return None
    return PAUSED if meet(rejection.sentences, words.REGAINED) else EMPTY


def _of_reply(rejection: Rejection) -> Row | None:
    """Row for a reply of the model that the provider itself rejected."""
    is_bad = rejection.codes & words.BAD_REPLY_CODES or meet(rejection.sentences, words.BAD_REPLY)
    return BAD_REPLY if is_bad and rejection.status in (0, 400, 422) else None


def _of_place(rejection: Rejection) -> Row | None:
    """Row for a request that is blocked because of its origin."""
    if rejection.status and not 400 <= rejection.status < 500:
        return None
    if "unsupported_country_region_territory" in rejection.codes:
        return COUNTRY
    if rejection.status in (400, 403, 451) and meet(
        rejection.sentences, words.PLACE, words.NOT_SERVED
    ):
        return COUNTRY
    if rejection.status == 451 or (rejection.status == 403 and rejection.is_page):
        return BLOCKED
    return BLOCKED if rejection.status == 403 and meet(rejection.sentences, words.WALL) else None


def _of_size(rejection: Rejection) -> Row | None:
    """Row for a request that is too large, temporarily or permanently."""
    if rejection.status in (0, *SIZED) and (row := _of_rate_and_size(rejection.text)) is not None:
        return row
    if rejection.status == 413:
        return LONG
    if rejection.status == 500:
        return LONG if meet(rejection.sentences, words.WHOLE_WINDOW, words.EXCESS) else None
    if rejection.status not in (0, 400, 422):
        return None
    if meet(rejection.sentences, words.OTHER_LENGTH):
        return WRONG
    return _of_reply_limit(rejection) or _of_window(rejection)


def _of_rate_and_size(text: str) -> Row | None:
    """Row for an error that states the request's size: above the limit it can never pass, below it
    can after a wait.
    """
    numbers = words.REQUESTED.search(text) if words.A_MINUTE.search(text) else None
    if numbers:
        limit, requested = map(number, numbers.groups())
        return TOO_LARGE_AT_ONCE if requested > limit else LIMITED
    return TOO_LARGE_AT_ONCE if words.OVERSIZED.search(text) else None


def _of_reply_limit(rejection: Rejection) -> Row | None:
    """Row for a limit of new tokens that is too high, unless the prompt itself leaves no room."""
    text = rejection.text
    if words.NO_ROOM.search(text):
        return LONG
    if amounts := words.SHARES.search(text) or words.SUM.search(text):
        prompt, reply = number(amounts[1]), number(amounts[2])
        return TOO_MANY if reply > prompt else LONG
    if not meet(rejection.sentences, words.REPLY_LIMIT, words.TOO_LARGE):
        return None
    if "inputs` tokens +" in text or "input length and" in text:
        return LONG
    window, prompt_size = words.WINDOW.search(text), words.INPUT.search(text)
    if window and prompt_size and number(prompt_size[1]) >= number(window[1]):
        return LONG
    return TOO_MANY


def _of_window(rejection: Rejection) -> Row | None:
    """Row for a full context window: words for size and excess, or two numbers of tokens, in one
    sentence.
    """
    if rejection.codes & words.WINDOW_CODES or meet(rejection.sentences, words.SIZE, words.EXCESS):
        return LONG
    sized = [
        text for text in rejection.sentences if words.SIZE.search(text) and words.ASKED.search(text)
    ]
    return LONG if any(len(words.NUMBERS.findall(text)) > 1 for text in sized) else None


def _of_status(rejection: Rejection) -> Row | None:
    """Row that follows from the status together with its words."""
    status, sentences = rejection.status, rejection.sentences
    if status in (400, 401, 403) and words.BAD_KEY.search(rejection.text):
        return NO_KEY
    if status == 401:
        return NO_KEY
    if status == 403:
        if rejection.codes & words.FILTER_CODES or meet(sentences, words.FILTERED):
            return REFUSED
        return NO_KEY if words.ACCESS.search(rejection.text) else UNCLEAR
    if status == 429:
        return DAILY if _is_of_a_long_period(rejection) else LIMITED
    if status == 500 and meet(sentences, words.NO_TOOLS):
        return WRONG
    if status in (408, 409, 425) or status >= 500:
        return AWAY
    return NO_MODEL if status in (404, 405, 410) else None


def _is_of_a_long_period(rejection: Rejection) -> bool:
    """Return whether a daily or longer quota is exhausted; a stated pause takes precedence, except
    Gemini's, which is always a minute.
    """
    if any("perday" in code for code in rejection.codes):
        return True
    return rejection.pause is None and meet(rejection.sentences, words.LONG_PERIOD, words.LIMIT)


def _of_words(rejection: Rejection) -> Row:
    """Row for a rejected request with an unspecific status, or for an error inside a stream."""
    sentences = rejection.sentences
    if rejection.codes & words.FILTER_CODES or meet(sentences, words.FILTERED):
        return REFUSED
    if words.FILTERED.search(" ".join(rejection.codes)):
        return REFUSED
    if not rejection.status:
        limited = words.PASSES.search(rejection.text)
        return LIMITED if limited else AWAY
    if rejection.codes & words.MODEL_CODES:
        return NO_MODEL
    if any("model" in text and words.NO_SUCH.search(text) for text in sentences):
        return NO_MODEL
    if rejection.codes & words.PARAMETER_CODES or meet(sentences, words.PARAMETER):
        return WRONG
    return UNCLEAR
