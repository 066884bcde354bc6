"""SQL statements that index and query the answers of a run; values are passed as parameters.

The `CREATE` statements read the lines of a run (`record_lines`, `case_lines`, `error_lines`) and
run in the order in which they are listed here; the others read the tables created by them. A
statement that reads `fitting` is appended to `FITTING`.
"""

from emend.evals.metrics.scores import NO_PROBABILITIES

TAG_JSONS = """
SELECT tags::VARCHAR FROM case_lines WHERE tags::VARCHAR != '{}'
UNION SELECT tags::VARCHAR FROM record_lines WHERE tags::VARCHAR != '{}'
"""
# Tables that are filled before the other tables are created; `deciding` holds, by kind, the names
# of the scores that decide the verdict.
PREPARE = (
    "CREATE TABLE tag_texts (tag_json VARCHAR, tag_lines VARCHAR)",
    "CREATE TABLE deciding (kind VARCHAR, names VARCHAR[])",
    "CREATE TABLE matches (needle VARCHAR, line BIGINT)",
    # DuckDB's lower() does not fold ß and ς as Python's casefold() does. Searching 200,000 records
    # takes 54 ms for a text without ss and σ, 61 ms for one with them.
    """
CREATE MACRO folded(texts, needle) AS CASE
    WHEN contains(needle, 'ss') AND contains(needle, 'σ')
        THEN replace(replace(lower(texts), 'ß', 'ss'), 'ς', 'σ')
    WHEN contains(needle, 'ss') THEN replace(lower(texts), 'ß', 'ss')
    WHEN contains(needle, 'σ') THEN replace(lower(texts), 'ς', 'σ')
    ELSE lower(texts) END
""",
)
KINDS = "SELECT DISTINCT kind FROM record_lines"
ADD_DECIDING = "INSERT INTO deciding VALUES (?, ?)"
ADD_TAGS = "INSERT INTO tag_texts SELECT json, lines FROM new_tags"
CREATE_CASES = """
CREATE TABLE cases AS
SELECT row_number() OVER (ORDER BY setting_number, number, line) - 1 AS position, * FROM (
    SELECT coalesce(list_position($settings, setting) - 1, len($settings)) AS setting_number,
        number, line, line_start, case_id, setting, tag_lines
    FROM case_lines LEFT JOIN tag_texts ON tags::VARCHAR = tag_json)
"""
CREATE_POSITIONS = """
CREATE VIEW positions AS
SELECT setting, case_id, min(position) AS position FROM cases GROUP BY ALL
"""
# `lacks_score` of a record as a condition.
LACKS_SCORE = f"""
(cardinality(unscored) > 0 AND (cardinality("values") = 0 OR len(list_filter(
    map_values(unscored), lambda why: NOT starts_with(why, '{NO_PROBABILITIES}'))) > 0))
"""
# A verdict is stored as its index in `VERDICTS`; `question` is equal for all editors that were
# asked the same probe.
CREATE_ANSWERS = f"""
CREATE TABLE answers AS
WITH decided AS (
    SELECT records.*, list_filter(
        names, lambda name: "values"[name] IS NOT NULL OR unscored[name] IS NOT NULL)[1] AS decider
    FROM record_lines records LEFT JOIN deciding USING (kind))
SELECT line, line_start, hash(unit) AS unit, position, editor, kind, repeat, checkpoint,
    hash(setting, case_id, probe, repeat) AS question, seconds,
    greatest(0, least($max_tokens, usage_input_tokens::HUGEINT + usage_output_tokens))::BIGINT
        AS tokens,
    coalesce(("values"[decider] < 1)::INTEGER, $unscored)::UTINYINT AS verdict,
    {LACKS_SCORE} AS is_unscored, usage_retries > 0 AS is_retried,
    "values"['hit@1'] AS hit, tag_lines
FROM decided LEFT JOIN tag_texts ON tags::VARCHAR = tag_json
LEFT JOIN positions USING (setting, case_id) ORDER BY line
"""
CREATE_FAILURES = """
CREATE TABLE failures AS SELECT * FROM (
    SELECT *, min(line) OVER (PARTITION BY unit) AS first FROM error_lines
    WHERE line <= $max_failures
    QUALIFY row_number() OVER (PARTITION BY unit ORDER BY line DESC) = 1)
WHERE hash(unit) NOT IN (SELECT unit FROM answers)
"""

CASE_COLUMNS = "SELECT setting_number, number, line_start FROM cases ORDER BY position"
TOTALS = """
SELECT count(*), count(*) FILTER (is_unscored), count(DISTINCT unit),
    count(*) FILTER (is_retried), sum(tokens), (SELECT count(*) FROM failures)
FROM answers
"""
FIND_CASE = "SELECT position FROM positions WHERE setting = ? AND case_id = ?"
LINE_STARTS = "SELECT line, line_start, position FROM answers WHERE list_contains(?, line)"
UNITS = "SELECT editor, count(DISTINCT unit) FROM answers GROUP BY editor"
TAGS = "SELECT tag_lines FROM tag_texts"
COUNTS = {
    "editor": "SELECT editor, count(*) FROM answers GROUP BY editor ORDER BY min(line)",
    "kind": "SELECT kind, count(*) FROM answers GROUP BY kind ORDER BY min(line)",
    "verdict": "SELECT verdict, count(*) FROM answers GROUP BY verdict",
}
COUNT_TAGS = """
SELECT answers.tag_lines, cases.tag_lines, count(*)
FROM answers LEFT JOIN cases USING (position) GROUP BY ALL
"""
LAST_LINES = "SELECT line FROM answers WHERE position IS NOT NULL ORDER BY line DESC LIMIT ?"
MISSES = """
SELECT line FROM answers
WHERE hit < 1 AND position IS NOT NULL AND line > ? AND (editor = ? OR ? = '')
ORDER BY line LIMIT ?
"""
MISS_COUNTS = """
SELECT editor, count(*) FROM answers WHERE hit < 1 AND position IS NOT NULL GROUP BY editor
"""
FAILURES = """
SELECT coalesce(unit, ''), coalesce(case_id, ''), coalesce(setting, ''), coalesce(editor, ''),
    coalesce(probe, ''), coalesce(error, ''), coalesce(message, ''), coalesce("at", '')
FROM failures ORDER BY first
"""
FAILED_CASES = """
SELECT position, editor, count(*)
FROM failures JOIN positions USING (setting, case_id) GROUP BY ALL
"""
FIRST_ANSWERS = """
SELECT question, line, position, verdict, list_position(?, kind) - 1 AS kind FROM answers
WHERE editor = ? AND checkpoint = 0 AND position IS NOT NULL ORDER BY line
"""
# Positions of the cases chosen for an export.
CHOSEN = {
    "wrong": """
SELECT DISTINCT position FROM answers WHERE position IS NOT NULL AND verdict != 0 ORDER BY position
""",
    "flipped": """
SELECT DISTINCT position FROM answers WHERE position IS NOT NULL AND (question, checkpoint) IN (
    SELECT question, checkpoint FROM answers
    GROUP BY ALL HAVING bool_or(verdict = 0) AND bool_or(verdict = 1))
ORDER BY position
""",
}

FITTING = "WITH fitting AS (SELECT * FROM answers WHERE {condition})"
COUNT_FITTING = "SELECT count(*) FROM fitting"
SORT_CASES = """
SELECT position FROM (
    SELECT position, CASE ?
        WHEN 'wrong' THEN count(*) FILTER (verdict = 1)::DOUBLE
        WHEN 'unscored' THEN count(*) FILTER (verdict = 2)::DOUBLE
        WHEN 'slow' THEN sum(seconds)
        WHEN 'tokens' THEN sum(tokens)::DOUBLE
        ELSE 0 END AS value
    FROM fitting GROUP BY position
    UNION ALL SELECT unnest(?::BIGINT[]), 0
) GROUP BY position ORDER BY coalesce(max(value), 0) DESC, position
"""
TALLIES = """
SELECT position, editor, verdict, count(*) FROM fitting
WHERE list_contains(?, position) GROUP BY ALL
"""
# A wrong answer under an edit tells most of a case, one before any edit least.
EXAMPLE_LINES = """
SELECT position, line FROM fitting WHERE list_contains(?, position) QUALIFY row_number() OVER (
    PARTITION BY position ORDER BY editor = 'unedited', verdict != 1, line) = 1
"""

# Conditions on answers, from which filters are composed.
HAS_CASE = "position IS NOT NULL"
OF_EDITOR = "editor = ?"
OF_KIND = "kind = ?"
OF_VERDICT = "verdict = ?"
OF_EDITORS = "list_contains(?, editor)"
HAS_TROUBLE = "(is_unscored OR is_retried)"
HAS_TAG = """
(contains(tag_lines, ?) OR position IN (SELECT position FROM cases WHERE contains(tag_lines, ?)))
"""
WITH_VERDICT_OF_EDITOR = """
(question, checkpoint) IN (
    SELECT question, checkpoint FROM answers WHERE editor = ? AND verdict = ?)
"""
HAS_TEXT = "line IN (SELECT line FROM matches WHERE needle = ?)"

SEARCH = """
INSERT INTO matches SELECT $needle, line FROM record_lines
WHERE contains(folded(concat_ws(chr(10), prompt, array_to_string(gold, chr(10)), rival, answer,
    reply, array_to_string(map_values(unscored), chr(10))), $folded), $folded)
UNION SELECT $needle, line FROM answers
WHERE position IN (
    SELECT position FROM cases JOIN case_lines USING (line)
    WHERE contains(folded(
        array_to_string(list_transform(edits, lambda edit: edit.text), ' '), $folded), $folded))
"""
FORGET_SEARCH = "DELETE FROM matches WHERE needle = ?"
