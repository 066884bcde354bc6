"""Outcomes of requirements and of a gate as a JUnit test suite, which build servers read."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from emend.evals.results.aggregate.gate import GateCheck
from emend.evals.results.aggregate.requirement_outcomes import RequirementOutcome
from emend.memory.files import write_export


def write_junit(outcomes: Sequence[RequirementOutcome | GateCheck], name: str, path: Path) -> None:
    """Write a JUnit test suite with the given name and a test case per outcome.

    Raises:
        BadSettings: the file cannot be written.
    """
    failures = str(sum(not each.met for each in outcomes))
    suite = ElementTree.Element(
        "testsuite", name=_plain(name), tests=str(len(outcomes)), failures=failures
    )
    for each in outcomes:
        element = ElementTree.SubElement(
            suite, "testcase", classname=_plain(each.editor), name=_plain(each.name)
        )
        if not each.met:
            ElementTree.SubElement(element, "failure", message=_plain(each.message))
        ElementTree.SubElement(element, "system-out").text = _plain(each.message)
    text = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    write_export(path, text, "Give another --junit FILE.")


def _plain(text: str) -> str:
    """Return the text without control characters, which XML cannot contain."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
