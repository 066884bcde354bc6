"""Keys, proxies and certificates of the environment: used as they were meant, or refused by name."""

import importlib.util

import pytest

from emend.agents.llm import load_model
from emend.agents.providers.environment import clean_key, network_problem
from emend.evals.cli.commands.doctor import _installed
from emend.memory.errors import BadSettings, KeyRefused
from emend.memory.redaction import hide_keys
from tests.provider.models import quick_policy
from tests.provider.server import Provider

KEY = "sk-planted-9876543210"
COPIED = [f"{KEY}\n", f"  {KEY}", f"{KEY}\r\n", f'"{KEY}"', f"'{KEY}'", f"“{KEY}”", f"Bearer {KEY}", f"bearer  {KEY}\n",
          f'"Bearer {KEY}"', f"\ufeff{KEY}", f"{KEY}\u200b", f"{KEY}\u00a0"]  # fmt: skip
BROKEN = ["sk-planted-98765…43210", "sk-planted-98765 43210", "sk-planted-98765\n43210", "sk-plаnted-9876543210",
          f'"{KEY}', f"{KEY}”", "sk–planted-9876543210"]  # fmt: skip


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("copied", COPIED)
def test_a_key_is_sent_without_what_was_copied_with_it(copied):
    assert clean_key(copied, "OPENAI_API_KEY") == KEY
    assert KEY not in hide_keys(f"wrong key {KEY}")


@pytest.mark.parametrize("broken", BROKEN)
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(broken):
    with pytest.raises(KeyRefused, match="OPENAI_API_KEY holds") as caught:
        clean_key(broken, "OPENAI_API_KEY")
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["openai:m", "langchain:openai:m", "completions:m", "anthropic:m", "langchain:anthropic:m"]
)
@pytest.mark.parametrize("key", [f'"Bearer {KEY}"\n', "sk-planted-98765…43210"])
def test_every_provider_gets_a_clean_key_or_no_request(spec, key, monkeypatch):
    client = "anthropic" if "anthropic" in spec else "openai"
    pytest.importorskip(f"langchain_{client}", reason=f"the extra '{client}' is not installed")
    monkeypatch.setenv(f"{client.upper()}_API_KEY", key)
    with Provider(lambda asked: "Ostrim") as provider:
        address = provider.anthropic if client == "anthropic" else provider.openai
        if "…" in key:
            with pytest.raises(KeyRefused):
                load_model(f"{spec}@{address}", quick_policy())
            assert provider.count == 0
        elif not spec.startswith("completions"):
            load_model(f"{spec}@{address}", quick_policy()).invoke("Where?")
            sent = provider.requests[0].headers
            assert KEY in (sent.get("x-api-key"), sent.get("authorization", "").removeprefix("Bearer "))


def test_the_doctor_names_a_broken_key_and_a_broken_proxy(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-98765…43210")
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\n")
    monkeypatch.setenv("https_proxy", "socks://127.0.0.1:1")
    rows = {check: (status, detail) for _, check, status, detail, *_ in _installed()}
    assert rows["OPENAI_API_KEY"][0] == rows["environment"][0] == "broken"
    assert rows["ANTHROPIC_API_KEY"][0] == "ok" and "are removed" in rows["ANTHROPIC_API_KEY"][1]
    assert "https_proxy" in rows["environment"][1] and KEY not in str(rows)


PROBLEMS = [
    ("ALL_PROXY", "socks5://127.0.0.1:7890", "httpx"),
    ("all_proxy", "socks5h://127.0.0.1:7890", "httpx"),
    ("ALL_PROXY", "socks://127.0.0.1:7890", "socks5://"),
    ("HTTPS_PROXY", "socks4://127.0.0.1:7890", "socks5://"),
    ("http_proxy", "htpp://127.0.0.1:7890", "http://"),
    ("SSL_CERT_FILE", "/nonexistent/cacert.pem", "does not exist"),
    ("SSL_CERT_FILE", __file__, "no certificates"),
    ("SSL_CERT_DIR", "/nonexistent/certificates", "does not exist"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), PROBLEMS)
def test_a_variable_that_keeps_clients_from_being_made_is_named(name, value, remedy, monkeypatch):
    if remedy == "httpx" and importlib.util.find_spec("socksio"):
        pytest.skip("socksio is installed, so SOCKS proxies work")
    monkeypatch.setenv(name, value)
    assert name in network_problem() and remedy in network_problem()


@pytest.mark.parametrize("value", ["", "http://127.0.0.1:3128", "https://me:pw@proxy.example:1", "127.0.0.1:3128"])
def test_a_usable_proxy_is_no_problem(value, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", value)
    assert not network_problem()


@pytest.mark.parametrize("spec", ["openai:m", "langchain:openai:m", "vllm:m", "anthropic:m"])
@pytest.mark.parametrize(("name", "value"), [("ALL_PROXY", "socks://127.0.0.1:7890"), ("SSL_CERT_FILE", "/none/c.pem")])
def test_no_provider_is_asked_with_a_broken_environment(spec, name, value, monkeypatch):
    client = "anthropic" if "anthropic" in spec else "openai"
    pytest.importorskip(f"langchain_{client}", reason=f"the extra '{client}' is not installed")
    monkeypatch.setenv(f"{client.upper()}_API_KEY", KEY)
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings, match=name):
        load_model(f"{spec}@http://127.0.0.1:9/v1", quick_policy())


@pytest.mark.slow
def test_a_full_path_in_an_address_is_not_sent_doubled(monkeypatch):
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    paths = ("", "/", "/chat/completions", "/chat/completions/", "/completions", "/responses")
    with Provider(lambda asked: "Ostrim") as provider:
        for path in paths:
            load_model(f"openai:m@{provider.openai}{path}", quick_policy()).invoke("Where?")
    assert [request.path for request in provider.requests] == ["/v1/chat/completions"] * len(paths)


def test_the_version_in_an_address_of_anthropic_is_not_sent_twice(monkeypatch):
    pytest.importorskip("langchain_anthropic", reason="the extra 'anthropic' is not installed")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    paths = ("", "/v1", "/v1/", "/v1/messages")
    with Provider(lambda asked: "Ostrim") as provider:
        for path in paths:
            load_model(f"anthropic:m@{provider.anthropic}{path}", quick_policy()).invoke("Where?")
    assert [request.path for request in provider.requests] == ["/v1/messages"] * len(paths)
