"""Columns of tables."""

from emend.evals.log.table_sources import column_type


def test_types_of_columns_are_those_of_the_fields() -> None:
    assert column_type(str | None) == "VARCHAR"
    assert column_type(tuple[float, ...]) == "DOUBLE[]"
    assert column_type(dict[str, float]) == "MAP(VARCHAR, DOUBLE)"
    assert column_type(dict[str, str | int]) == "JSON"
