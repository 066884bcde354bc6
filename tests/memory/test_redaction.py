"""Redaction of keys in text, whatever form it repeats them in."""

import json
from urllib.parse import quote

import pytest

from emend.memory import redaction
from emend.memory.redaction import add_secrets, hide_in_bytes, hide_keys

KEY = 'sk-"plant/ed"+0123456789'


@pytest.fixture(autouse=True)
def forget_added(monkeypatch):
    monkeypatch.setattr(redaction, "_added", set())


def by_setting(monkeypatch):
    add_secrets(KEY)


def by_sent_header(monkeypatch):
    add_secrets(f"Bearer {KEY}")


def by_environment(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", KEY)


def by_otlp_headers(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"tenant=a,authorization=Bearer%20{quote(KEY)}")


@pytest.mark.parametrize("source", [by_setting, by_sent_header, by_environment, by_otlp_headers])
@pytest.mark.parametrize("form", [str, json.dumps, lambda key: quote(key, safe=""), lambda key: f"Bearer {key}."])
def test_a_key_is_hidden_whatever_form_repeats_it(monkeypatch, source, form):
    source(monkeypatch)
    text = f"your key {form(KEY)} is not known, tenant a"
    assert "0123456789" not in hide_keys(text) and hide_keys(text).endswith("is not known, tenant a")
    assert hide_in_bytes(text.encode()) == hide_keys(text).encode()


def test_a_key_that_begins_another_leaves_no_rest_and_words_too_short_stay(monkeypatch):
    add_secrets("sk-planted", "sk-planted-longer")
    assert hide_keys("seen: sk-planted-longer, sk-planted") == "seen: <key>, <key>"
    add_secrets("none", "Bearer none")
    assert hide_keys("none of it") == "none of it"


def test_a_key_that_is_set_or_changed_after_the_first_text_is_hidden_too(monkeypatch):
    assert hide_keys(f"it is {KEY}") == f"it is {KEY}"
    for key in (KEY, "sk-another-0123456789"):
        monkeypatch.setenv("SOME_API_KEY", key)
        assert hide_keys(f"it is {key}") == "it is <SOME_API_KEY>"
    add_secrets("sk-third-0123456789")
    assert hide_keys("it is sk-third-0123456789") == "it is <key>"
