"""Evaluation: benchmarks, metrics, the runner, traces, reports and the command line."""
