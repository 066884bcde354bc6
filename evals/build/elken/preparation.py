"""Events composed of a table of facts and a table of impacts, before any model is asked."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from emend.evals.build.chains.fact_table import read_fact_table
from emend.evals.build.chains.templates import TemplateBook
from emend.evals.build.composed.stored_items import store_items
from emend.evals.build.composed.turns import take_turns
from emend.evals.build.elken.event_types import SHIPPED, read_event_types
from emend.evals.build.elken.events import EventBuilder, facts_left_alone
from emend.evals.build.elken.files import event_item
from emend.evals.config.build_config import BuildConfig
from emend.memory.errors import BadData


def prepare_events(config: BuildConfig, out: Path) -> Path:
    """Compose the events into the benchmark's folder, and return their file; the same call again changes nothing.

    Raises:
        BadSettings: the source is no file of facts.
        BadData: a row or an event type is wrong, or the facts give no event.
        RunRefused: the folder holds other events.
    """
    path = Path(config.relations).expanduser() if config.relations else SHIPPED
    types, table, rng = read_event_types(path), read_fact_table(config.source), random.Random(config.seed)
    book, builder = TemplateBook(from_table=table.templates), EventBuilder(table.graph, rng)
    count = config.cases if config.limit is None else min(config.cases, config.limit)
    events = take_turns((builder.events(name, each, count) for name, each in types.items()), count)
    if not events:
        roles = [role for each in types.values() for role in each.roles.values()]
        relations = sorted({role.subject_of or role.object_of for role in roles} - {""})
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no event of {', '.join(types)}: their roles need "
            f"the relations {', '.join(relations)}; or give event types of your own with --relations."
        )
    items = []
    for event in events:
        entities = [event.players[role] for role in types[event.type].named_roles]
        left_alone = facts_left_alone(table.graph, entities, builder.changed, rng)
        items.append(event_item(event, types[event.type], table.graph, book, left_alone))
    counts = ", ".join(f"{name} {number}" for name, number in Counter(event.type for event in events).items())
    return store_items(items, replace(table.notes, name=f"{config.source}: {len(table.graph)} facts, {counts}"), out)
