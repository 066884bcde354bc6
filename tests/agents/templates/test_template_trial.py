"""Chat templates that do not end, fill the memory or write megabytes are refused before they are used."""

import sys
from pathlib import Path

import pytest

from emend.agents.templates.chat_template import ChatTemplate
from emend.agents.templates.template_trial import MAX_CHARACTERS, render_samples, try_template
from emend.memory.errors import ModelError

FOLDER = Path(__file__).parents[2] / "data" / "templates"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLING = "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
LONG = "{{ 'x' * " + str(MAX_CHARACTERS + 1) + " }}"
limits = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process are those of Linux")


class Tokenizer:
    def __init__(self, template):
        self.chat_template = template


@limits
def test_a_template_that_does_not_end_is_refused_after_its_seconds():
    with pytest.raises(ModelError, match="more than 1 s"):
        try_template(ENDLESS, seconds=1)


@limits
@pytest.mark.parametrize("template", [DOUBLING, "{{ 'x' * 5000000000 }}"])
def test_a_template_that_fills_the_memory_is_refused(template):
    with pytest.raises(ModelError, match="memory"):
        try_template(template)


@pytest.mark.parametrize(
    "template",
    [
        LONG,
        "{% generation %}x{% endgeneration %}" + LONG,
        "{% if tools %}" + LONG + "{% endif %}",
        "{% if tools is none %}" + LONG + "{% endif %}",
        "{{ bos_token + eos_token }}" + LONG,
    ],
    ids=["plain", "with the tag of transformers", "only with tools", "only without tools", "with special tokens"],
)
def test_a_template_that_writes_megabytes_is_refused(template):
    with pytest.raises(ModelError, match="characters"):
        try_template(template)


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "{% for x", "{{ messages[7].content }}"])
def test_a_template_that_rejects_the_samples_is_left_to_its_use(template):
    assert render_samples(template) == ""
    assert try_template(template) is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jinja")), ids=lambda path: path.stem)
def test_templates_of_known_families_pass(path):
    assert render_samples(path.read_text(encoding="utf-8")) == ""


def test_each_template_of_a_tokenizer_is_tried():
    with pytest.raises(ModelError, match="characters"):
        ChatTemplate(Tokenizer({"default": "{{ messages[0].content }}", "tool_use": LONG}), {}, "hf:stranger")


@limits
def test_a_trial_that_cannot_start_is_reported(monkeypatch, caplog, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'No module named emend' >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    try_template("{{ messages[0].content }} not tried")
    assert "could not be tried: No module named emend" in caplog.text
