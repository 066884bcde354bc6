"""Counts the facts that a model stores by the tools of a memory of facts, of ten messages that state one each.

    python scripts/benchmarks/store_messages.py hf:FOLDER

A fact is stored if one that holds has its object, and nothing else in it. The calls of each message are printed
below it.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.agents.llm import load_model  # noqa: E402
from emend.editors.memory_based.fact_agent import FactAgent  # noqa: E402
from emend.memory.facts.fact import Provenance  # noqa: E402
from emend.memory.facts.fact_memory import FactMemory  # noqa: E402

MESSAGES = (
    ("My sister Ana lives in Oslo.", "Oslo"),
    ("Ana works for Calder Mills.", "Calder Mills"),
    ("The capital of Ostrim is Velburg.", "Velburg"),
    ("Tobin Hale was born in Kestrel Bay.", "Kestrel Bay"),
    ("The headquarters of Aske Works is Port Lunden.", "Port Lunden"),
    ("My dog's name is Rufus.", "Rufus"),
    ("The spouse of Mira Tolvane is Jon Vesk.", "Jon Vesk"),
    ("I am allergic to peanuts.", "peanuts"),
    ("Ana's boss is Petra Lind.", "Petra Lind"),
    ("The author of The Salt Road is Ilse Marn.", "Ilse Marn"),
)


def main() -> None:
    """Print each message with whether its fact is stored, and the number of those that are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    with FactMemory(None) as memory:
        agent, stored = FactAgent(load_model(parser.parse_args().model), memory), 0
        for day, (text, value) in enumerate(MESSAGES, 3):
            begin, date = time.monotonic(), f"2025-01-{day:02}"
            reading = agent.read(f"[{date}] user: {text}", Provenance(user="user", source=date, recorded_at=date))
            holds = any(value.lower() == fact.object.lower() for fact in memory.as_of("9999", user="user"))
            stored += holds
            print(f"{'stored' if holds else 'not stored'}, {time.monotonic() - begin:.0f} s: {text}", flush=True)
            last = [step.update["messages"] for step in reading.steps if "messages" in step.update][-1:]
            for message in last[0] if last else ():
                for call in message["data"].get("tool_calls") or ():
                    print(f"    {call['name']} {call['args']}")
        print(f"{stored} of {len(MESSAGES)} stored")


if __name__ == "__main__":
    main()
