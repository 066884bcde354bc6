"""Detection of replies that state that the answer is not known and give no value."""

import re

from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_typography

_SAID = (
    r"(?:stated|mentioned|specified|given|provided|said|disclosed|described|included|recorded|"
    r"available|reported|named|"
    r"clear|indicated|found|documented|revealed|listed|told|answered|known|covered|discussed|"
    r"explained|identified)"
)
_SAYS = (
    r"(?:states?|mentions?|specif(?:y|ies)|says?|tells?|gives?|provides?|contains?|includes?|"
    r"indicates?|answers?|"
    r"discloses?|reveals?|names?|describes?|explains?|lists?|address(?:es)?|covers?|discuss(?:es)?|"
    r"identif(?:y|ies))"
)
_ENGLISH = (
    r"\b(?:I|we|one) (?:\w+ )?(?:do not|don't|cannot|can't|can not|could not|couldn't|am unable "
    r"to|am not able to) "
    r"(?:\w+ ){0,2}(?:know|say|tell|answer|determine|find|see|recall|remember|have)\b",
    r"\b(?:do not|don't) know\b",
    r"\bI(?:'m| am) (?:not sure|unsure|not certain|uncertain|unaware|not aware)\b",
    r"\b(?:have not|haven't|don't have) (?:a|any) (?:clue|idea)\b|\bno clue\b",
    r"\b(?:hard|difficult) to (?:say|tell|know)\b",
    r"\bneed(?:ed)? more (?:information|context|details)\b|\bmore (?:information|context) "
    r"(?:is|would be) needed\b",
    r"\b(?:information|answer|detail|name|date|number) (?:is|was) "
    r"(?:missing|lacking|absent)\b|\bnot something\b",
    r"\b(?:documents?|texts?|passages?|contexts?|articles?|sources?) "
    r"(?:is|are|was|remains?|stays?) silent\b",
    r"\b(?:information|answer|detail)s? (?:is not|isn't|are not|aren't) (?:\w+ "
    r")?(?:in|there|present)\b",
    rf"\bno (?:\w+ ){{1,3}}(?:is|are|was|were) (?:\w+ly )?{_SAID}\b|\black(?:s|ing)? (?:\w+ "
    rf"){{0,2}}information\b",
    r"\b(?:provides?|gives?|contains?|includes?|states?|mentions?|offers?|lists?) no \w+\b",
    r"\bleft (?:unsaid|open|unstated)\b",
    r"\b(?:is not|isn't|are not|aren't) any (?:\w+ "
    r")?(?:information|mention|answer|details?|data)\b",
    r"\bleaves? (?:that|this|it|the question) (?:open|unanswered)\b",
    r"\bnothing (?:is |was )?(?:about|on|said|written|stated|mentioned|known|to (?:say|tell))\b",
    r"\A\W*not in (?:the|this) (?:document|text|passage|context|article|source)\b",
    r"\bno idea\b|\bI have no (?:information|knowledge|data|record)",
    rf"\b(?:not|never|nowhere)(?: been)?(?: \w+ly)? {_SAID}\b(?! (?:as|after|for|by)\b)|n't(?: "
    rf"been)? {_SAID}\b",
    r"\b(?:not possible|impossible|no way) to (?:\w+ "
    r")?(?:determine|answer|infer|tell|say|know|establish)\b",
    r"\b(?:nobody|no one) knows\b",
    r"\b(?:cannot|can't|can not|could not|couldn't) (?:\w+ ){0,2}(?:be )?"
    r"(?:determined?|answer(?:ed)?|said|told|inferred?|established|deduced?|known?|concluded?|"
    r"found)\b",
    rf"\b(?:(?:does|do|did) not|doesn't|don't|didn't|never) (?:\w+ )?{_SAYS}\b",
    r"\b(?:is|are|was|were|'s|contains?|provides?|has|gives?|offers?) no (?:\w+ )?"
    r"(?:information|mention|answer|evidence|data|records?|details?|indication|way (?:of|to))\b",
    rf"\bno (?:\w+ )?(?:information|answer|mention|details?|data|records?) (?:\w+ )?"
    rf"(?:{_SAID}|about|on|in|for|regarding|of)\b",
    r"\b(?:insufficient|not enough|too little|lack of|lacks) (?:\w+ "
    r")?(?:information|data|context|details?)\b",
    r"(?:\b(?:is|are|was|were|remains?)|'s) (?:\w+ "
    r")?(?:unknown|unclear|un(?:specified|determined|disclosed|stated))\b",
    r"\A\W*(?:unknown|unclear|unspecified|unanswerable|undetermined|undisclosed|n/a|none given|no "
    r"answer|"
    r"no information|not applicable)\W*\Z",
)
_GERMAN = (
    r"\b(?:ich|wir) wei(?:ß|ss|ssen?|ßen?) (?:\w+ ){0,3}nicht\b|\bwei(?:ß|ss) ich (?:\w+ )?nicht\b",
    r"\bkeine (?:\w+ )?(?:Ahnung|Angaben?|Information(?:en)?|Antwort|Daten|Aussage)\b",
    r"\bnicht (?:\w+ "
    r"){0,3}(?:bekannt|angegeben|genannt|erwähnt|ersichtlich|klar|gesagt|vermerkt|aufgeführt|"
    r"feststellbar|bestimmbar|sicher|sagen|bestimmen|beantworten|beantwortet|feststellen|ermitteln|"
    r"entnehmen|hervor)\b",
    r"\bsteht nichts?\b|\bnichts (?:darüber|dazu|davon)\b|\b(?:dazu|darüber|davon) (?:\w+ "
    r"){0,3}nichts\b",
    r"\b(?:nennt|erwähnt|sagt|verrät) (?:\w+ ){0,4}nicht\b|\b(?:unbekannt|unklar)\b",
)
_FRENCH = (
    r"\bje (?:ne )?(?:le )?sais pas\b|\bj(?:e l)?'ignore\b|\baucune "
    r"(?:information|idée|réponse|mention|donnée)\b",
    r"\bpas (?:été )?(?:\w+ment "
    r")?(?:précisée?|mentionnée?|indiquée?|connue?|spécifiée?|donnée?|fournie?|disponible|"
    r"claire?|déterminée?)s?\b",
    r"\bnon (?:précisée?|mentionnée?|spécifiée?|indiquée?)\b",
    r"\bn'en (?:parle|dit|fait) (?:pas|rien)\b|\bn'ai pas (?:\w+ "
    r"|d'|l')?(?:information|réponse)s?\b",
    r"\baucune? \w+ n'(?:est|a)\b",
    r"\bne (?:le |la )?(?:parle|précise|mentionne|dit|donne|permet|contient|fournit|indique) pas\b",
    r"\b(?:impossible (?:de|à)|ne p(?:eut|eux) (?:pas )?(?:être )?)(?: ?(?:le|la|y) )? ?"
    r"(?:dire|savoir|déterminer|déterminée?|répondre)\b|\best inconnue?\b|\A\W*inconnue?\W*\Z",
)
_SPANISH = (
    r"\bno (?:lo )?sé\b|\bdesconozco\b|\bno consta\b",
    r"\bno (?:tengo|hay|existe)(?: \w+){0,2} (?:información|idea|datos|respuesta)\b",
    r"\bno (?:(?:se|lo|la|está|es|fue|ha sido|viene) "
    r")*(?:sabe|menciona|indica|especifica|dice|precisa|conoce|contiene|"
    r"proporciona|mencionad[oa]|indicad[oa]|especificad[oa]|conocid[oa]|clar[oa])\b",
    r"\bno (?:se )?puede (?:determinar|saber|responder|decir)(?:se)?\b|\bdesconocid[oa]\b",
)
_CHINESE = (
    r"不知道|不清楚|不确定|不详|未知|未(?:提及|说明|提到|指明|注明|给出|提供|披露|记载)|并未",
    r"没有(?:提及|提到|说明|提供|给出|相关|足够)|没有.{0,6}信息|无法(?:确定|回答|得知|判断|获知)|无从(?:得知|知晓)",
)
_JAPANESE = (
    r"(?:分か|わか)り?(?:りません|らない)|知り?(?:りません|らない|ません)|不明|情報(?:が|は)?(?:ありません|ない|なし)",
    r"(?:記載|言及|記述)(?:が|は|されて)?(?:い)?(?:ありません|ません|ない|なし)|(?:述べ|書か|示さ|触れ)(?:れ|られ)?て(?:い)?(?:ません|ない)",
    r"(?:判断|特定|確認|お?答え?)(?:でき|られ)(?:ません|ない)",
)
# Statements that the model or its source has no answer.
_UNKNOWN = re.compile(
    "|".join((*_ENGLISH, *_GERMAN, *_FRENCH, *_SPANISH, *_CHINESE, *_JAPANESE)),
    re.IGNORECASE | re.MULTILINE,
)
# Phrases after or before which a hedged value is given.
_GUESS = re.compile(
    r"\b(?:probably|perhaps|maybe|likely|possibly|presumably|supposedly|apparently|guess(?:ing)?|"
    r"I(?:'d| would)? (?:think|believe|suppose|assume|say)|(?:might|may|could|must|should) (?:well "
    r")?be|"
    r"it(?:'s| is| was))\b"
    r"|\b(?:wahrscheinlich|vermutlich|vielleicht|wohl|möglicherweise|ich "
    r"(?:glaube|denke|schätze|vermute))\b"
    r"|\b(?:probablement|peut-être|sans doute|je (?:pense|crois|suppose|dirais))\b"
    r"|\b(?:probablemente|quizás?|tal vez|posiblemente|creo|supongo|diría)\b"
    r"|可能|大概|也许|或许|应该是|我猜|我认为|たぶん|多分|おそらく|かもしれ|でしょう|と思い",
    re.IGNORECASE,
)
# Statements about other content of the source, which are not an answer.
_SOURCE = re.compile(
    r"\b(?:documents?|texts?|passages?|contexts?|articles?|sources?|facts?|information|it|they) "
    r"(?:\w+ly |just |also )?"
    rf"{_SAYS}\b|\A\W*(?:based on|according to|as of|in the|from the|given the)\b"
    r"|\b(?:Dokument|Text|document|texte|documento|texto)\b|文件|文章|文書|文中",
    re.IGNORECASE,
)
_COURTESY = frozenset(
    "sorry unfortunately please thanks thank you no yes well honestly i am i'm m afraid answer the "
    "leider entschuldigung tut mir leid désolé désolée malheureusement lo siento perdón "
    "desafortunadamente a".split()
)
_COURTESY_CJK = re.compile(r"抱歉|对不起|很遗憾|申し訳|すみません|残念")
_SENTENCE = re.compile(
    r"[.;!?](?=\s|\Z)|[。！？；\n]"
    r"|[,，]?\s?\b(?:but|however|though|although|yet|aber|jedoch|mais|pero|sino)\b|但是?|不过|しかし|ですが"
)
_COMMA = re.compile(r"\s*[,，、:：—–()]\s*|\s-\s")
# Maximum words (or characters, in scripts without spaces) of a clause that can only be a value.
SHORT, SHORT_CHARACTERS = 3, 8


def abstains(text: str, question: str = "") -> bool:
    """Return whether a reply states that the answer is not known or not given, and names no value.

    >>> abstains("The document does not say who built it.", "Who built Pell Lock?")
    True
    >>> abstains("I don't know, but it was probably Ana Rojo.", "Who built Pell Lock?")
    False

    Args:
        text: the reply, or its passage that answers the question.
        question: the question; names in it do not count as values.
    """
    plain, known = fold_typography(text), frozenset(words(question))
    parts = [part.strip() for part in _SENTENCE.split(plain) if part and part.strip()]
    if not any(_UNKNOWN.search(part) for part in parts):
        return False
    return not any(_gives_value(part, known) for part in parts)


def _gives_value(part: str, known: frozenset[str]) -> bool:
    """Return whether a sentence, or a clause next to an abstaining one, gives a value."""
    if not _UNKNOWN.search(part):
        return _is_value(part, known, _names_something(part, known))
    clauses = [
        clause for clause in _COMMA.split(part) if clause.strip() and not _UNKNOWN.search(clause)
    ]
    return any(
        _is_value(clause, known, _names_something(clause, known, r"\d\w*")) for clause in clauses
    )


def _is_value(clause: str, known: frozenset[str], names_something: bool) -> bool:
    tokens = words(clause)
    if (
        not tokens
        or set(tokens) <= known | _COURTESY
        or _SOURCE.search(clause)
        or _COURTESY_CJK.search(clause)
    ):
        return False
    if clause.isascii() or " " in clause:
        is_short = len(tokens) <= SHORT
    else:
        is_short = len(clause) <= SHORT_CHARACTERS
    return names_something or is_short or _GUESS.search(clause) is not None


def _names_something(
    part: str, known: frozenset[str], form: str = r"(?<=\s)[A-ZÀ-Þ]\w+|\d\w*"
) -> bool:
    """Return whether a text has a number, or a capitalised word after the first word, that the
    question does not contain.
    """
    names = re.findall(form, part)
    return any(word not in known for name in names for word in words(name))
