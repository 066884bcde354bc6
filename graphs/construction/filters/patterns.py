"""Wordings by which authored texts betray that they cannot be used: refusals, comments, instructions, markup."""

import re

REFUSAL = re.compile(
    r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    r"|\bI(?:'m| am) (?:sorry|unable|not (?:able|allowed|comfortable|willing))\b"
    r"|\bI (?:cannot|can't|can not|won't|will not|could not|couldn't|must decline|apologi[sz]e)\b"
    r"|\bI (?:do not|don't) have (?:any )?(?:information|access|enough)\b"
    r"|\bnot something (?:I|this (?:assistant|model))\b"
    r"|\bunable to (?:fulfil|assist|provide|comply|write)|\bmy knowledge (?:cutoff|cut-off)\b"
    r"|\bals (?:ein )?(?:KI|künstliche Intelligenz|(?:großes )?Sprachmodell)\b|\bes tut mir leid\b"
    r"|\bich (?:kann|darf|möchte)\b[^.]{0,60}\bnicht\b"
    r"|\ben tant qu(?:e|')\s?(?:IA|intelligence artificielle|modèle de langage)\b|\bje (?:suis désolée?|regrette)\b"
    r"|\bje ne (?:peux|suis)\b[^.]{0,40}\bpas\b"
    r"|\bcomo (?:una )?(?:IA|inteligencia artificial|modelo de lenguaje)\b|\blo siento\b|\bno puedo\b"
    r"|抱歉|我(?:无法|不能)|无法(?:提供|回答|满足)|作为(?:一个|一名)?(?:人工智能|AI|语言模型)"
    r"|申し訳|(?:AI|人工知能|言語モデル)として|お(?:答え|手伝い)できません",
    re.IGNORECASE,
)
"""The author declines, or speaks of itself as a model: English, German, French, Spanish, Chinese, Japanese."""

_FALSE = r"(?:inaccurate|incorrect|false|erroneous|untrue)"
_INVENTED = r"(?:fictional|fictitious|imaginary|imagined|invented|made-up)"
_CLAIM = r"(?:statement|claim|sentence|fact|information|premise|assertion|belief|attribution)"
_TEXT = r"(?:paragraph|text|article|passage|account|scenario|entry|world|universe|fact|claim)"
DENIAL = re.compile(
    rf"\b(?:{_INVENTED} {_TEXT}|{_TEXT} (?:is|are|was|were) (?:\w+ )?{_INVENTED}|"
    r"hypothetical(?:ly)?|counterfactual(?:ly)?|"
    r"alternate (?:reality|history|universe)|contrary to (?:popular|common|the|what|facts?|reality)|"
    r"in (?:actual fact|reality|truth)(?=[,.;])|(?:although|but|though|while|whereas) in (?:reality|truth)|"
    r"(?:this|the) (?:\w+ )?(?:article|event|fact|report|story) (?:is|was) not real|"
    r"not (?:be )?(?:actually|really|factual|accurate|true|correct|reliable)|"
    rf"{_CLAIM}s? (?:has|have|could) not (?:been|be) (?:verified|confirmed)|readers should (?:be aware|note)|"
    rf"(?:factually|historically) {_FALSE}|{_FALSE} {_CLAIM}s?|(?:is|are|was|were|be) (?:\w+ly )?{_FALSE}|"
    r"(?:falsely|wrongly|incorrectly|mistakenly|erroneously) (?:stated|claimed|believed|reported|attributed|assumed)|"
    rf"misconception|(?:this|the) {_CLAIM} (?:is|that|above|below|given|provided)|for the purposes? of this|"
    r"no (?:evidence|record)s? (?:of|that|for)|it should be noted that)\b"
    r"|\b(?:frei erfunden|fiktive[rsnm]? (?:Absatz|Artikel|Bericht|Szenario|Text))\b"
    r"|\b(?:article|paragraphe|récit|scénario|texte) (?:est )?(?:une (?:pure )?fiction|fictif|inventé|imaginaire)\b"
    r"|\b(?:artículo|escenario|párrafo|relato|texto) (?:es )?(?:ficticio|inventado|imaginario)\b"
    r"|(?:纯属|均为|系)虚构|虚构的?(?:内容|报道|文章|新闻|事件)|与事实不符|架空の(?:話|記事|文章)|この記事はフィクション",
    re.IGNORECASE,
)
"""The text comments on whether what it says is right."""

TALK = re.compile(
    r"\A(?:sure|certainly|of course|absolutely|okay|ok|gerne?|natürlich|selbstverständlich|bien sûr|claro|por supuesto)"
    r"\b\s*[!,.:]|\A(?:here(?:'s| is| are)|below is)\b|\A(?:当然|好的)[，,。！!]|\A(?:もちろん|承知)"
    r"|\bas an? (?:author|journalist|reporter|writer),? I\b|\bI (?:would|will) (?:describe|phrase|report|write)\b"
    # "I" after a capitalised word is a numeral, as in "Charles I was"
    r"|(?:\A|[.!?,;:(]\s*|\b(?:and|as|because|but|if|since|so|that|though|while)\s)I(?:'(?:d|ll|m|ve)|\s(?:am|"
    r"appreciate|can|could|do|don't|had|have|hope|know|may|must|need|should|think|understand|want|was|will|would))\b"
    r"|\blet me know (?:if|whether|what)\b|\bfeel free to\b|\bwould you like (?:me|another)\b"
    r"|\bas (?:requested|instructed|you (?:asked|requested|wished)|stated in the fact|per your)\b"
    r"|\b(?:this|the) (?:paragraph|text|article|passage)(?: above| below)? (?:states|keeps|follows|meets|"
    r"avoids|repeats|adheres|conveys|clearly|was written|is written)\b|\bword count\b|\(\d+ words\)"
    r"|\bich hoffe, (?:dieser|der|das|dass|es)\b|\blassen sie (?:mich|es mich) wissen\b"
    r"|\bgerne? (?:schreibe|verfasse) ich\b|\bhier (?:ist|folgt|kommt) (?:der|die|das|ein|eine|Ihre?|dein) "
    r"(?:Absatz|Artikel|Beitrag|Bericht|Frage|Text)\b"
    r"|\bj'espère que (?:ce|cela|le)\b|\bn'hésitez pas à me\b|\bvoici (?:le|un) (?:paragraphe|texte)\b"
    r"|\bespero que (?:este|esto|le|te)\b|\baquí (?:está|tiene)\b[^.]{0,30}\b(?:párrafo|texto)\b"
    r"|希望(?:这[篇段份个些]?(?:文章|文字|报道|段落|内容|回答|问题)|以上|对您|对你)|以下是|以上(?:就)?是|如(?:果)?您?(?:需要|有)(?:任何|其他)?(?:修改|问题)|お役に立て",
    re.IGNORECASE,
)
"""The author speaks as itself, or to its reader about the text, before or after it."""

INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget) (?:(?:all|any|the|your|everything|what|of|that) )*"
    r"(?:previous|prior|above|earlier|preceding|(?:you (?:were|have been) (?:told|given)|instructions?|prompts?))\b|"
    r"\b(?:system prompt|you are (?:now )?(?:an?|the) (?:ai|assistant|chatbot|helpful)|"
    r"if you are an? (?:ai|language model|assistant)|(?:reply|answer|respond) (?:only )?with|"
    r"you must (?:(?:always|now|only) )*(?:reply|answer|respond|output)|"
    r"must (?:only )?answer [A-D]|you must (?:always|now|only) say|"
    r"output (?:only )?the|"
    r"(?:attention|dear|note to|message to)\W+(?:all |any |the )?(?:ai|(?:language )?models?|assistants?|chatbots?)|"
    r"(?:rate|grade|score|judge|mark|rank) this (?:answer|document|item|paragraph|text))\b|"
    r"\b(?:say|reply|answer|output|respond)(?: only)?(?: with)?(?: the word)? [\"']?(?:true|false)\b|"
    r"https?://|\bwww\.\w|\b\w[\w-]*\.[a-z]{2,}/\w|\b[\w.+-]+@\w[\w-]*\.\w+|"
    r"<\s*/?\s*(?:script|iframe|img|system|instructions?)\b|<\|[\w-]+\|>|\[/?INST\]|"
    r"^(?:system|user|assistant|human|ai|q|a)\s*:|(?-i:\b(?:SYSTEM|USER|ASSISTANT):)|忽略(?:之前|以上|上述|所有)",
    re.IGNORECASE | re.MULTILINE,
)
"""An instruction to a model, an address, active markup, or turns of a conversation."""

MARKUP = re.compile(
    r"^\s*(?:#{1,6}\s|[-*•]\s+\S|\d+[.)]\s+\S|\|.*\||```)|\*\*[^*]+\*\*|"
    r"\[(?:[A-Z][A-Za-z ]*|insert[^\]]*|\d+)\]|\{[^}]*\}|"
    r"<(?!\s*/?\s*(?:script|iframe|img|system|instruction))[a-z/][^<>]*>|\b(?:TODO|TBD|XXX|lorem ipsum)\b|"
    r"\b(?:about|at|by|of|on|than|with) (?-i:XX)\b|"
    r"^\s*(?:fact|paragraph|sentence|question|answer|note|title|subject|object|text|article|topic|summary|headline"
    r"|byline|by"
    r"|report|event|story|paraphrase|rewording|wording|version|variant|alternative|alternatively|disclaimer|option"
    r"|Absatz|Artikel|Bericht|Frage|Antwort|Titel|Überschrift|paragraphe|rapport|titre|réponse|pregunta|respuesta"
    r"|título"
    r"|问题|答案|标题|報告|報道|質問|見出し)(?: (?:\d+|[A-D]))?\s*[:：]|(?:[.!?]\s+)disclaimer:",
    re.IGNORECASE | re.MULTILINE,
)
"""Headings, lists, labels, placeholders, tags."""

HEADING = re.compile(r"(?:\A|\n\s*\n)[^\S\n]*[^\n]{1,80}[^\n.!?。！？…:;,\"'”’»)]\s*\n\s*\n")
"""A short line of its own that is no sentence, with text after it."""

QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|「[^」\n]{1,200}」")
"""Words of a person, in folded typography: they may say anything."""

USUAL_WORDS = {
    "en": "the of and to in was is for with that on as by at from his her its has were are had which who have been "
    "they but not this it she he",
    "de": "der die das und ist in den von zu mit sich des im dem nicht ein eine auf für war wurde als auch nach",
    "fr": "le la les de des et est un une du en dans par pour sur qui que au aux il elle fut ses son sa avec",
    "it": "il lo la gli le di del della dei che è un una per in non con si da nel al sono era alla come",
    "nl": "de het een en van in is op te dat die met voor zijn niet aan er om ook werd bij naar",
    "pt": "os de do da dos das que em um uma para com não por na ao foi é seu sua são uma pelo pela mais",
    "es": "el la los las de del y es en un una por para con que se su sus al fue como más cuando cada",
}
"""Commonest words of languages that share the Latin letters."""
