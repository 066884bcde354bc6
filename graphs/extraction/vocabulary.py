"""Closed classes of English for the canonical form of triplets."""

BE = frozenset("is are was were be been being am".split())
HAVE = frozenset("has have had having".split())
OPEN = frozenset(
    "will would can could may might shall should must do does did not never cannot isn't wasn't aren't weren't "
    "doesn't didn't hasn't won't".split()
)
"""Statements with one of these are negated, possible or in the future."""
COPULAR = frozenset("become remain".split())
CURRENT = frozenset(
    "new newly current currently present next incoming incumbent latest newest sitting now newly-elected "
    "newly-appointed newly-named".split()
)
"""Words for how long something has held, which the time of an edit states."""
PAST = frozenset("former formerly previously erstwhile onetime one-time ex".split())
PAST_FIRST = frozenset("past previous late".split())
"""Words for the past only at the beginning of a role: 'the late mayor', but 'was born late'."""
ROLE_VERBS = frozenset(
    "serve act work function officiate reign continue begin start return succeed replace take".split()
)
"""'serves as R of S': O is the R."""
APPOINT = frozenset("appoint name elect choose select designate proclaim crown declare make hire install swear".split())
"""Verbs of appointing (Levin 1993, classes 29.1 and 29.3)."""
ENDED = frozenset("resign retire step quit remove dismiss oust".split())
SEVERAL = frozenset(
    "part piece half portion share majority minority kind type sort form variety one number lot result product cause "
    "example reminder symbol member citizen native resident inhabitant descendant supporter".split()
)
"""Nouns of parts and members: an owner has several, so they make no fact with one value."""
TAKE_OF = frozenset(
    "afraid ashamed aware capable certain characteristic confident conscious convinced critical deserving devoid "
    "envious fond free full guilty hopeful ignorant independent indicative jealous mindful proud reminiscent "
    "representative scared short shy sick sure suspicious symptomatic tired tolerant typical unaware weary wary "
    "worthy north south east west ahead inside outside because out".split()
)
"""Adjectives and adverbs before 'of' (Quirk et al. 1985, section 16.71): 'is proud of' is no role."""
PLACES = "city|town|village|state|country|nation|kingdom|republic|island|province|county|region|district"
"""'in the city of Oslo' is in Oslo."""
