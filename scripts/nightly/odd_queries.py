"""Asks a run folder by SQL that wants more than to read its tables: nothing is read, written or fetched besides.

python -m scripts.nightly.odd_queries
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.database import open_database
from emend.memory.errors import EmendError
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel

SECRET = "a-secret-of-the-user"
# `{file}` is a file outside the run, `{new}` a file that must not be created.
READS = (
    "read_csv('{file}')", "read_csv_auto('{file}')", "read_text('{file}')", "read_blob('{file}')", "'{file}'",
    "read_json('{file}')", "read_json_auto('{file}')", "read_ndjson('{file}')", "read_parquet('{file}')",
    "sniff_csv('{file}')", "glob('{folder}/*')", "parquet_scan('{file}')", "parquet_metadata('{file}')",
    "parquet_schema('{file}')", "sqlite_scan('{file}', 'x')", "postgres_scan('host=127.0.0.1', 'a', 'b')",
    "mysql_scan('a', 'b', 'c')", "st_read('{file}')", "read_xlsx('{file}')", "delta_scan('{folder}')",
    "iceberg_scan('{folder}')", "read_csv('/etc/passwd')", "read_text('/proc/self/environ')",
    "read_text('http://127.0.0.1:1/x')", "read_csv('https://127.0.0.1:1/x')", "read_parquet('s3://bucket/x')",
    "read_text('../../../../etc/passwd')", "read_text('file:///etc/passwd')", "read_text('hf://datasets/a/b')",
    "duckdb_extensions()", "duckdb_secrets()", "which_secret('s3://x', 's3')", "duckdb_temporary_files()",
)  # fmt: skip
STATEMENTS = (
    "COPY records TO '{new}'", "COPY (SELECT 1) TO '{new}' (FORMAT parquet)", "COPY records FROM '{file}'",
    "EXPORT DATABASE '{new}'", "IMPORT DATABASE '{folder}'", "ATTACH '{new}' AS other", "ATTACH '{file}' (TYPE sqlite)",
    "INSTALL httpfs", "LOAD httpfs", "LOAD '{file}'", "FORCE INSTALL spatial", "UPDATE EXTENSIONS",
    "SET enable_external_access = true", "SET lock_configuration = false", "SET allowed_paths = ['/']",
    "SET allowed_directories = ['/']", "RESET enable_external_access", "SET GLOBAL threads = 64",
    "SET memory_limit = '100GB'", "SET temp_directory = '{folder}'", "SET home_directory = '{folder}'",
    "SET allow_unsigned_extensions = true", "SET custom_extension_repository = 'http://127.0.0.1:1'",
    "SET log_query_path = '{new}'", "SET profiling_output = '{new}'", "SET autoload_known_extensions = true",
    "PRAGMA enable_profiling = 'json'", "PRAGMA database_list", "PRAGMA import_database('{folder}')",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')", "CREATE PERSISTENT SECRET s (TYPE s3)",
    "CREATE TABLE t AS SELECT * FROM '{file}'", "CREATE MACRO m() AS TABLE SELECT * FROM read_text('{file}')",
    "CREATE VIEW v AS SELECT * FROM read_text('{file}')", "DROP VIEW records", "DELETE FROM records", "CHECKPOINT",
    "INSERT INTO records SELECT * FROM records", "UPDATE records SET answer = 'x'", "ALTER TABLE records RENAME TO y",
    "CALL pragma_version()", "EXPLAIN ANALYZE COPY records TO '{new}'", "BEGIN", "VACUUM", "USE memory",
    "SELECT 1; COPY records TO '{new}'", "SELECT 1; SELECT * FROM read_text('{file}')", "", ";", "--", "SELECT",
    "SELECT getenv('HOME')", "SELECT current_setting('allowed_paths')",
    "SELECT * FROM query('COPY records TO ''{new}''')",
    "SELECT * FROM query_table('{file}')", "FROM read_text('{file}')", "VALUES (1)", "TABLE records",
    "WITH x AS (SELECT * FROM read_text('{file}')) SELECT * FROM x", "DESCRIBE SELECT * FROM '{file}'",
    "SUMMARIZE '{file}'", "PREPARE p AS SELECT * FROM read_text('{file}')", "EXECUTE p", "SHOW ALL TABLES",
)  # fmt: skip
SECONDS = 20


def problem_of(folder: Path, sql: str, new: Path) -> tuple[str, str]:
    """Return how a query ends, and the problem with that; empty if there is none."""
    begin = time.monotonic()
    try:
        with open_database(folder) as tables:
            end = "rows"
            shown = str(tables.query(sql).rows)
    except EmendError as error:
        end, shown = type(error).__name__, "" if "\n" not in str(error) else "several lines"
    except Exception as error:  # an unexpected error, which is reported
        return type(error).__name__, f"{type(error).__name__}: {error}"
    if end == "rows" and (SECRET in shown or "root:" in shown):
        return end, "the file was read"
    if new.exists():
        return end, "a file was written"
    return end, "too long" if time.monotonic() - begin > SECONDS else ""


def main() -> int:
    """Print the counts; return 1 if anything was read, written or not caught."""
    ends, problems = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as root:
        secret, new, folder = Path(root, "secret.csv"), Path(root, "new.csv"), Path(root, "run")
        secret.write_text(f"name\n{SECRET}\n")
        config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="scripted")
        run(config, folder, model=ScriptedModel())
        before = (folder / "records.jsonl").read_bytes()
        for form in (*(f"SELECT * FROM {call}" for call in READS), *STATEMENTS):
            sql = form.replace("{file}", str(secret)).replace("{new}", str(new)).replace("{folder}", root)
            end, problem = problem_of(folder, sql, new)
            ends[end] += 1
            if problem or (folder / "records.jsonl").read_bytes() != before:
                problems.append(f"{form}: {problem or 'records were changed'}")
    sys.stdout.writelines(f"    {problem}\n" for problem in problems)
    sys.stdout.write(f"{ends.total()} statements: {dict(ends)}; {len(problems)} problems\n")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
