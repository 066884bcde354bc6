"""Splitting of long texts in any script, lossless and in linear time."""

import re
import unicodedata

# Characters with Unicode's property Sentence_Terminal that always end a sentence, and Tibetan
# marks, which the property lacks. Latin `.`, `!` and `?` must be followed by a space.
SENTENCE_ENDS = (
    "։؝؞؟۔܀܁܂߹࠷࠹࠽࠾।॥།༎၊။።፧፨᙮᜵᜶។៕᠃᠉᥄᥅᪨᪩᪪᪫᭎᭏᭚᭛᭞᭟᭽᭾᭿᰻᰼᱾᱿"
    "‼‽⁇⁈⁉⳹⳺⳻⸮⸼⹓⹔⹠⹡。꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫︒︕︖﹒﹖﹗！．？｡"
)
# Quotation marks and brackets that may stand between a sentence's end and the next sentence.
CLOSERS = "\"'”’»)\\]」』）】"
# Positions at which a text is cut, best first: after a paragraph, line, sentence, clause or word.
_CUTS = tuple(
    map(
        re.compile,
        (
            r"\n[^\S\n]*\n\s*",
            r"\n\s*",
            rf"[.!?…][{CLOSERS}]*\s+|[{SENTENCE_ENDS}][{CLOSERS}]*\s*",
            r"[;:,]\s+|[，；：、،؛፤፣]\s*",
            r"\s+",
        ),
    )
)
# Number of characters to go back from a cut by length, to keep characters and their combining marks
# together.
_LOOK_BACK = 64
_JOINERS = "\u200d\u200c"


def cut_text(text: str, longest: int) -> list[str]:
    r"""Cut a text into pieces of at most `longest` characters that join to the text again.

    A piece ends after a paragraph, or else a line, a sentence of any script, a clause or a word,
    preferably in its second half; without any of these it is cut by length.

    >>> cut_text("First one. Second one. ", 14)
    ['First one. ', 'Second one. ']
    >>> cut_text("पहला वाक्य। दूसरा", 14)
    ['पहला वाक्य। ', 'दूसरा']

    Raises:
        ValueError: `longest` is less than one.
    """
    if longest < 1:
        raise ValueError(f"a piece must have at least one character, got {longest}")
    pieces, start = [], 0
    while len(text) - start > longest:
        end = _last_cut(text, start, start + longest)
        pieces.append(text[start:end])
        start = end
    pieces.append(text[start:])
    assert "".join(pieces) == text, "pieces do not join to their text"
    return pieces


def _last_cut(text: str, start: int, limit: int) -> int:
    """Return the best position to cut in a window, preferably in its second half."""
    window = text[start:limit]
    for least in (len(window) // 2, 0):
        for pattern in _CUTS:
            ends = [match.end() for match in pattern.finditer(window)]
            if ends and ends[-1] > least:
                return start + ends[-1]
    return _unmarked(text, start, limit)


def _unmarked(text: str, start: int, limit: int) -> int:
    """Return the last position up to the limit that does not separate a character from its
    combining marks.
    """
    for position in range(limit, max(start, limit - _LOOK_BACK), -1):
        is_joined = text[position - 1] in _JOINERS or text[position] in _JOINERS
        if not is_joined and not unicodedata.category(text[position]).startswith("M"):
            return position
    return limit
