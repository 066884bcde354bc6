"""Metrics of a stream: accuracy by question kind, wrong answers by reason, and cost."""

from emend.evals.data.benchmarks.base import Definition

DEFINITION = Definition.beside(__file__)
