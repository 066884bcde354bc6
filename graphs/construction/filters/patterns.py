"""Patterns for unusable authored texts: refusals, comments, instructions and markup."""

import re

# Refusals, and statements of the author about itself as a model, in English, German, French,
# Spanish, Chinese and Japanese.
REFUSAL = re.compile(
    r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    r"|\bI(?:'m| am) (?:sorry|unable|not (?:able|allowed|comfortable|willing))\b"
    r"|\bI (?:cannot|can't|can not|won't|will not|could not|couldn't|must decline|apologi[sz]e)\b"
    r"|\bI (?:do not|don't) have (?:any )?(?:information|access|enough)\b"
    r"|\bnot something (?:I|this (?:assistant|model))\b"
    r"|\bunable to (?:fulfil|assist|provide|comply|write)|\bmy knowledge (?:cutoff|cut-off)\b"
    r"|\bals (?:ein )?(?:KI|künstliche Intelligenz|(?:großes )?Sprachmodell)\b|\bes tut mir leid\b"
    r"|\bich (?:kann|darf|möchte)\b[^.]{0,60}\bnicht\b"
    r"|\ben tant qu(?:e|')\s?(?:IA|intelligence artificielle|modèle de langage)\b|\bje (?:suis "
    r"désolée?|regrette)\b"
    r"|\bje ne (?:peux|suis)\b[^.]{0,40}\bpas\b"
    r"|\bcomo (?:una )?(?:IA|inteligencia artificial|modelo de lenguaje)\b|\blo siento\b|\bno "
    r"puedo\b"
    r"|抱歉|我(?:无法|不能)|无法(?:提供|回答|满足)|作为(?:一个|一名)?(?:人工智能|AI|语言模型)"
    r"|申し訳|(?:AI|人工知能|言語モデル)として|お(?:答え|手伝い)できません",
    re.IGNORECASE,
)

_FALSE = r"(?:inaccurate|incorrect|false|erroneous|untrue)"
_INVENTED = r"(?:fictional|fictitious|imaginary|imagined|invented|made-up)"
_CLAIM = r"(?:statement|claim|sentence|fact|information|premise|assertion|belief|attribution)"
_TEXT = r"(?:paragraph|text|article|passage|account|scenario|entry|world|universe|fact|claim)"
# Comments of the text on whether its content is true.
DENIAL = re.compile(
    rf"\b(?:{_INVENTED} {_TEXT}|{_TEXT} (?:is|are|was|were) (?:\w+ )?{_INVENTED}|"
    r"hypothetical(?:ly)?|counterfactual(?:ly)?|"
    r"alternate (?:reality|history|universe)|contrary to "
    r"(?:popular|common|the|what|facts?|reality)|"
    r"in (?:actual fact|reality|truth)(?=[,.;])|(?:although|but|though|while|whereas) in "
    r"(?:reality|truth)|"
    r"(?:this|the) (?:\w+ )?(?:article|event|fact|report|story) (?:is|was) not real|"
    r"not (?:be )?(?:actually|really|factual|accurate|true|correct|reliable)|"
    rf"{_CLAIM}s? (?:has|have|could) not (?:been|be) (?:verified|confirmed)|readers should (?:be "
    r"aware|note)|"
    rf"(?:factually|historically) {_FALSE}|{_FALSE} {_CLAIM}s?|(?:is|are|was|were|be) (?:\w+ly "
    rf")?{_FALSE}|"
    r"(?:falsely|wrongly|incorrectly|mistakenly|erroneously) "
    r"(?:stated|claimed|believed|reported|attributed|assumed)|"
    rf"misconception|(?:this|the) {_CLAIM} (?:is|that|above|below|given|provided)|for the "
    r"purposes? of this|"
    r"no (?:evidence|record)s? (?:of|that|for)|it should be noted that)\b"
    r"|\b(?:frei erfunden|fiktive[rsnm]? (?:Absatz|Artikel|Bericht|Szenario|Text))\b"
    r"|\b(?:article|paragraphe|récit|scénario|texte) (?:est )?(?:une (?:pure "
    r")?fiction|fictif|inventé|imaginaire)\b"
    r"|\b(?:artículo|escenario|párrafo|relato|texto) (?:es )?(?:ficticio|inventado|imaginario)\b"
    r"|(?:纯属|均为|系)虚构|虚构的?(?:内容|报道|文章|新闻|事件)|与事实不符|架空の(?:話|記事|文章)|この記事はフィクション",
    re.IGNORECASE,
)

# Remarks of the author about itself, or to the reader about the text.
TALK = re.compile(
    r"\A(?:sure|certainly|of course|absolutely|okay|ok|gerne?|natürlich|selbstverständlich|bien "
    r"sûr|claro|por supuesto)"
    r"\b\s*[!,.:]|\A(?:here(?:'s| is| are)|below is)\b|\A(?:当然|好的)[，,。！!]"
    r"|\A(?:もちろん|承知)"
    r"|\bas an? (?:author|journalist|reporter|writer),? I\b|\bI (?:would|will) "
    r"(?:describe|phrase|report|write)\b"
    # "I" after a capitalised word is a numeral, as in "Charles I was"
    r"|(?:\A|[.!?,;:(]\s*|\b(?:and|as|because|but|if|since|so|that|though|while)\s)I(?:'(?:d|ll|m|"
    r"ve)|\s(?:am|"
    r"appreciate|can|could|do|don't|had|have|hope|know|may|must|need|should|think|understand|want|"
    r"was|will|would))\b"
    r"|\blet me know (?:if|whether|what)\b|\bfeel free to\b|\bwould you like (?:me|another)\b"
    r"|\bas (?:requested|instructed|you (?:asked|requested|wished)|stated in the fact|per your)\b"
    r"|\b(?:this|the) (?:paragraph|text|article|passage)(?: above| below)? "
    r"(?:states|keeps|follows|meets|"
    r"avoids|repeats|adheres|conveys|clearly|was written|is written)\b|\bword count\b|\(\d+ words\)"
    r"|\bich hoffe, (?:dieser|der|das|dass|es)\b|\blassen sie (?:mich|es mich) wissen\b"
    r"|\bgerne? (?:schreibe|verfasse) ich\b|\bhier (?:ist|folgt|kommt) "
    r"(?:der|die|das|ein|eine|Ihre?|dein) "
    r"(?:Absatz|Artikel|Beitrag|Bericht|Frage|Text)\b"
    r"|\bj'espère que (?:ce|cela|le)\b|\bn'hésitez pas à me\b|\bvoici (?:le|un) "
    r"(?:paragraphe|texte)\b"
    r"|\bespero que (?:este|esto|le|te)\b|\baquí (?:está|tiene)\b[^.]{0,30}\b(?:párrafo|texto)\b"
    r"|希望(?:这[篇段份个些]?(?:文章|文字|报道|段落|内容|回答|问题)|以上|对您|对你)|以下是|以上(?:就)?是|如(?:果)?您?(?:需要|有)(?:任何|"
    r"其他)?(?:修改|问题)|お役に立て",
    re.IGNORECASE,
)

# Instructions to a model, URLs and e-mail addresses, active markup, and turns of a conversation.
INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget) (?:(?:all|any|the|your|everything|what|of|that) )*"
    r"(?:previous|prior|above|earlier|preceding|(?:you (?:were|have been) "
    r"(?:told|given)|instructions?|prompts?))\b|"
    r"\b(?:system prompt|you are (?:now )?(?:an?|the) (?:ai|assistant|chatbot|helpful)|"
    r"if you are an? (?:ai|language model|assistant)|(?:reply|answer|respond) (?:only )?with|"
    r"you must (?:(?:always|now|only) )*(?:reply|answer|respond|output)|"
    r"must (?:only )?answer [A-D]|you must (?:always|now|only) say|"
    r"output (?:only )?the|"
    r"(?:attention|dear|note to|message to)\W+(?:all |any |the )?(?:ai|(?:language "
    r")?models?|assistants?|chatbots?)|"
    r"(?:rate|grade|score|judge|mark|rank) this (?:answer|document|item|paragraph|text))\b|"
    r"\b(?:say|reply|answer|output|respond)(?: only)?(?: with)?(?: the word)? "
    r"[\"']?(?:true|false)\b|"
    r"https?://|\bwww\.\w|\b\w[\w-]*\.[a-z]{2,}/\w|\b[\w.+-]+@\w[\w-]*\.\w+|"
    r"<\s*/?\s*(?:script|iframe|img|system|instructions?)\b|<\|[\w-]+\|>|\[/?INST\]|"
    r"^(?:system|user|assistant|human|ai|q|a)\s*:|(?-i:\b(?:SYSTEM|USER|ASSISTANT):)|忽略(?:之前|以上|上述|"
    r"所有)",
    re.IGNORECASE | re.MULTILINE,
)

# Headings, lists, labels, placeholders, tags.
MARKUP = re.compile(
    r"^\s*(?:#{1,6}\s|[-*•]\s+\S|\d+[.)]\s+\S|\|.*\||```)|\*\*[^*]+\*\*|"
    r"\[(?:[A-Z][A-Za-z ]*|insert[^\]]*|\d+)\]|\{[^}]*\}|"
    r"<(?!\s*/?\s*(?:script|iframe|img|system|instruction))[a-z/][^<>]*>|\b(?:TODO|TBD|XXX|lorem "
    r"ipsum)\b|"
    r"\b(?:about|at|by|of|on|than|with) (?-i:XX)\b|"
    r"^\s*(?:fact|paragraph|sentence|question|answer|note|title|subject|object|text|article|topic|"
    r"summary|headline"
    r"|byline|by"
    r"|report|event|story|paraphrase|rewording|wording|version|variant|alternative|alternatively|"
    r"disclaimer|option"
    r"|Absatz|Artikel|Bericht|Frage|Antwort|Titel|Überschrift|paragraphe|rapport|titre|réponse|"
    r"pregunta|respuesta"
    r"|título"
    r"|问题|答案|标题|報告|報道|質問|見出し)(?: (?:\d+|[A-D]))?\s*[:：]|(?:[.!?]\s+)disclaimer:",
    re.IGNORECASE | re.MULTILINE,
)

# Headings: a short line by itself that is not a sentence, followed by text.
HEADING = re.compile(r"(?:\A|\n\s*\n)[^\S\n]*[^\n]{1,80}[^\n.!?。！？…:;,\"'”’»)]\s*\n\s*\n")

# Quotations, in folded typography; their content is not checked.
QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|「[^」\n]{1,200}」")

# Most frequent words of languages with Latin letters.
USUAL_WORDS = {
    "en": "the of and to in was is for with that on as by at from his her its has were are had "
    "which who have been they but not this it she he",
    "de": "der die das und ist in den von zu mit sich des im dem nicht ein eine auf für war wurde "
    "als auch nach",
    "fr": "le la les de des et est un une du en dans par pour sur qui que au aux il elle fut ses "
    "son sa avec",
    "it": "il lo la gli le di del della dei che è un una per in non con si da nel al sono era alla "
    "come",
    "nl": "de het een en van in is op te dat die met voor zijn niet aan er om ook werd bij naar",
    "pt": "os de do da dos das que em um uma para com não por na ao foi é seu sua são uma pelo "
    "pela mais",
    "es": "el la los las de del y es en un una por para con que se su sus al fue como más cuando "
    "cada",
}
