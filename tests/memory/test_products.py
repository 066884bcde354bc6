"""Rows that Emend's own products bring for registries."""

from collections.abc import Iterator

import pytest

from emend.memory import products
from emend.memory.products import OWN, own_products, product_rows
from emend.memory.registry import Registry


@pytest.fixture
def anew() -> Iterator[None]:
    own_products.cache_clear()
    yield
    own_products.cache_clear()


def test_rows_of_products_are_loaded_by_name_as_built_in_ones() -> None:
    commands: Registry[object] = Registry(kind="command", group="emend.commands")
    assert {"stream", "mcp", "reproduce", "papers"} <= set(commands.names())
    assert commands.load("stream").info.name == "stream"  # type: ignore[attr-defined]


def test_a_registry_of_another_group_gets_none() -> None:
    assert product_rows("emend.nothing") == {}


def test_a_product_that_is_not_here_is_passed_over(monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    monkeypatch.setattr(products, "OWN", ("evals/absent", *OWN))
    assert "stream" in product_rows("emend.commands")
    monkeypatch.setattr(products, "OWN", ("evals/absent",))
    own_products.cache_clear()
    assert product_rows("emend.commands") == {}
