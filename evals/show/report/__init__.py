"""Reports of records: tables, plots and progress, on terminals and in files."""
