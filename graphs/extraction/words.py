"""The closed classes and verbs of English that the rules know; any other word counts as a noun or adjective."""

DETERMINERS = frozenset(
    "a an the this these those each every some any no another both his her its their my your our".split()
)
PREPOSITIONS = frozenset(
    "in on at by for from with as into during after before between through under over within against among about "
    "since until near across around along behind beyond despite inside outside onto upon towards toward via "
    "throughout alongside like without amid per than due".split()
)
BE = frozenset(
    "is are was were be been being am has have had having will would can could may might shall should must do does "
    "did isn't wasn't".split()
)
PRONOUNS = frozenset(
    "i he she it they we you him them us me himself herself itself themselves one there what everyone someone who's "
    "mine ours hers theirs".split()
)
RELATIVES = frozenset("who which whose whom that where when while if because although though whether how why".split())
CONJUNCTIONS = frozenset("and or but nor yet so".split())
ADVERBS = frozenset(
    "also then now later not never still often once ever even just always already soon again here today however "
    "instead rather perhaps indeed best well much very quite too more most yet yesterday formerly abroad ago moreover "
    "furthermore meanwhile nonetheless nevertheless overall otherwise besides first actually therefore thus hence "
    "together elsewhere up out off down back away".split()
)
KEPT = frozenset("not never formerly previously up out off down back away".split())
"""Adverbs that change the meaning of the verb."""
QUANTITIES = frozenset("many some other others most several all both such few more much none half".split())
NOT_ADVERBS = frozenset(
    "family early only italy july daily elderly likely friendly assembly monthly weekly supply reply ally rally "
    "lovely lively ugly holy lonely orderly scholarly monopoly anomaly fly apply rely comply imply butterfly "
    "homily".split()
)
JOINERS = frozenset("of de la le du der den von van di da del al el naar".split())

REPORTING = frozenset(
    "said says say told tells tell added adds explained explains noted notes stated states commented remarked "
    "reported reports announced announces revealed reveals shared exclaimed admitted claimed claims wrote asked "
    "replied stressed emphasized acknowledged concluded confirmed confirms recalled expressed discovered believe "
    "believes believed suggest suggests suggested agree agreed know think thinks".split()
)
"""Verbs of saying and thinking, which state nothing about the subject of a document."""

_REGULAR = (
    "accept achieve acquire act adapt address adopt affect affiliate aim air allow announce appear apply appoint "
    "arrive assign associate assume attend attract attribute award base bear become begin believe belong boast "
    "border borrow bring broadcast build call capture carry cause celebrate change choose claim classify coach "
    "collaborate combine come command compete complete compose conduct connect consider consist consult contain "
    "continue contribute convert cover create credit cross debut declare dedicate depict describe design "
    "determine develop die direct discover display divide draw drive duplicate earn edit educate elect embrace "
    "emerge employ enable end enjoy ensure enter establish evolve exist expand expire explain explore express "
    "extend face feature feel find flow follow form formulate found function gain gather give go govern graduate "
    "grow hail help highlight hire hold honor host house identify include incorporate influence inhabit inherit "
    "inspire introduce invent invest involve issue join keep kill know launch lay lead learn leave lie like link "
    "list live locate love maintain make manage manufacture mark marry mean meet mention mentor merge migrate mix "
    "move name need nominate note observe occupy offer officiate open operate originate oversee own paint "
    "participate pass pay perform pioneer place plan play portray position practice practise praise predate "
    "prefer premiere present preserve prevail proclaim produce profess promote prove provide publish pursue raise "
    "rank reach receive recognize record refer reflect reign reject relate release relocate rely remain replace "
    "represent require reside result retire return reveal rise rule run sail see seem sell serve set settle shape "
    "share shelve showcase sign sing sit situate solidify speak specialize spend sponsor spread stand star start "
    "state stay stem stretch study succeed supply support surround swear take teach tell think thrive trace train "
    "transfer translate travel turn understand unite use utilize view visit vote want wear wed win work worship "
    "write"
).split()
IRREGULAR = frozenset(
    "born bore borne became begun began bred brought built bought came chose chosen cast dealt died drew drawn drove "
    "driven fell fallen felt found fought flew flown gave given went gone got gotten grew grown held heard hid hit "
    "kept knew known laid led left lent lost made meant met paid put ran rang read risen rose sang sat saw seen sent "
    "set shot shown slept sold spent spoke spoken spread stood struck sung swore sworn swam taken taught thought "
    "threw thrown told took understood won wore worn wound wrote written wed shelved broadcast based located".split()
)
NOUN_LIKE = frozenset(
    "works shows plays states names leads claims reports moves plans aims hosts stars places lies marks features "
    "records houses ranks needs uses results forms changes supports visits views helps turns rules notes issues "
    "studies travels awards covers designs ends faces functions links lists loves offers positions practices presents "
    "releases returns runs sets shares signs starts stays stems takes wins drives directs studied base pass own found "
    "founding building meeting writing singing recording setting being feeling standing understanding training "
    "painting opening ending teaching wedding means acts addresses calls causes stands draws flows influences praises "
    "supplies thoughts thought left set cast spread lead".split()
)
"""Forms that are often nouns; they count as verbs only after a name, a pronoun, a relative word or an auxiliary."""


def third_person(base: str) -> str:
    """The third person singular of a regular verb: 'lives' of 'live'."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "ch", "sh", "o")) else "s")


THIRD_PERSON = frozenset(third_person(base) for base in _REGULAR)
BASES = frozenset(_REGULAR)
