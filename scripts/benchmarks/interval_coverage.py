"""How often the 95 % intervals of shares, of harmonic means and of paired differences cover the truth.

    python scripts/benchmarks/interval_coverage.py
    python scripts/benchmarks/interval_coverage.py --draws 2000 --values shares

Each line has the coverage and the mean width, in percent, for one way in which cases are clustered: `probes` values a
case, of which two of one case are alike with probability `alike` beyond chance.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from emend.evals.metrics.estimate import bootstrap_means, estimate, harmonic, percentile_interval
from emend.evals.metrics.paired import Pair, compare_pairs

CASES = (12, 40, 100)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
CLUSTERS = ((1, 0.0), (3, 0.0), (3, 0.5), (10, 0.1), (10, 0.6))
"""Probes of a case, and how alike they are."""
RESAMPLES = 500
Floats = NDArray[np.float64]
Interval = tuple[float | None, float | None]


class Coverage(NamedTuple):
    """The part of the intervals that cover the truth, and their mean width."""

    covered: float
    width: float

    def __str__(self) -> str:
        return f"{100 * self.covered:.1f} ({100 * self.width:.1f})"


def coverage(intervals: Iterator[Interval], truth: float) -> Coverage:
    """Coverage of the truth by intervals, none of which may be missing."""
    ends = np.array([*intervals], dtype=np.float64)
    covered = (ends[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[:, 1])
    return Coverage(float(covered.mean()), float((ends[:, 1] - ends[:, 0]).mean()))


def right_or_wrong(rng: np.random.Generator, cases: int, share: float, probes: int, alike: float) -> Floats:
    """Values of 0 or 1, beta-binomial over cases; shape (cases, probes)."""
    of_case = np.full((cases, 1), share)
    if alike:
        spread = (1 - alike) / alike
        of_case = rng.beta(share * spread, (1 - share) * spread, size=(cases, 1))
    return (rng.random((cases, probes)) < of_case).astype(np.float64)


def between(rng: np.random.Generator, cases: int, share: float, probes: int, alike: float) -> Floats:
    """Values between 0 and 1 with that mean, such as ROUGE-L; those of a case are alike in part."""
    of_case, alone = (rng.beta(4 * share, 4 * (1 - share), size=(cases, size)) for size in (1, probes))
    return np.asarray(alike * of_case + (1 - alike) * alone)


def of_estimate(values: Floats) -> Interval:
    """The interval that reports have."""
    owners = np.repeat(np.arange(len(values)), values.shape[1])
    result = estimate(values.ravel(), owners, resamples=RESAMPLES)
    return result.low, result.high


def of_bootstrap(values: Floats) -> Interval:
    """The interval of the bootstrap alone."""
    counts = np.full(len(values), float(values.shape[1]))
    return percentile_interval(bootstrap_means(values.sum(axis=1), counts, 0, RESAMPLES))


def of_harmonic(values: Floats) -> Interval:
    """The interval of the harmonic mean of three shares, the columns of the values."""
    cases = range(len(values))
    result = harmonic([(column.tolist(), cases) for column in values.T], resamples=RESAMPLES)
    return result.low, result.high


def of_difference(values: Floats) -> Interval:
    """The interval of the difference between two systems, the halves of the columns."""
    size = values.shape[1] // 2
    pairs = [
        Pair(case, "", float(row[probe]), float(row[size + probe]))
        for case, row in enumerate(values)
        for probe in range(size)
    ]
    result = compare_pairs(pairs, resamples=RESAMPLES, flips=1)
    return result.low, result.high


def show_shares(console: Console, draws: int, make: Callable[..., Floats], title: str) -> None:
    """Print the coverage of a mean by the reported interval, and by the bootstrap alone."""
    table = Table("cases", "share", *(f"{probes} probes, alike {alike:g}" for probes, alike in CLUSTERS), title=title)
    lowest = 1.0
    for cases in CASES:
        for share in SHARES:
            cells = []
            for probes, alike in CLUSTERS:
                rng = np.random.default_rng(cases)
                samples = [make(rng, cases, share, probes, alike) for _ in range(draws)]
                reported = coverage(map(of_estimate, samples), share)
                lowest = min(lowest, reported.covered)
                cells.append(f"{reported}, {coverage(map(of_bootstrap, samples), share)}")
            table.add_row(str(cases), f"{share:g}", *cells)
    console.print(table, f"lowest coverage of the reported intervals: {100 * lowest:.1f}")


def show_harmonic(console: Console, draws: int) -> None:
    """Print the coverage of S, the harmonic mean of ES, PS and NS."""
    table = Table("cases", "ES", "PS", "NS", "covered (width)", title="harmonic means")
    for cases in CASES:
        for shares in ((0.99, 0.9, 0.7), (0.99, 0.95, 0.02), (0.5, 0.05, 0.9), (0.98, 0.98, 0.98), (0.1, 0.1, 0.9)):
            rng = np.random.default_rng(cases)
            samples = [(rng.random((cases, 3)) < shares).astype(np.float64) for _ in range(draws)]
            truth = 3 / sum(1 / share for share in shares)
            cells = [f"{share:g}" for share in shares]
            table.add_row(str(cases), *cells, str(coverage(map(of_harmonic, samples), truth)))
    console.print(table)


def show_differences(console: Console, draws: int) -> None:
    """Print the coverage of the difference of two systems on the same probes."""
    table = Table("cases", "better", "worse", "1 probe", "3 probes", title="paired differences, covered (width)")
    for cases in CASES:
        for better, worse in ((0.0, 0.0), (0.02, 0.0), (0.05, 0.0), (0.05, 0.05), (0.3, 0.02), (0.4, 0.0), (0.95, 0.0)):
            cells = []
            for probes in (1, 3):
                rng = np.random.default_rng(cases)
                samples = []
                for _ in range(draws):
                    chance = rng.random((cases, probes))
                    second = np.where(chance < better, 1.0, np.where(chance < better + worse, 0.0, 0.5))
                    samples.append(np.hstack([1 - second, second]).round())
                cells.append(str(coverage(map(of_difference, samples), better - worse)))
            table.add_row(str(cases), f"{better:g}", f"{worse:g}", *cells)
    console.print(table)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--values", choices=("shares", "between", "harmonic", "differences"), action="append")
    options = parser.parse_args()
    console, chosen = Console(width=200), options.values or ["shares", "between", "harmonic", "differences"]
    if "shares" in chosen:
        show_shares(console, options.draws, right_or_wrong, "values of 0 and 1: reported, bootstrap")
    if "between" in chosen:
        show_shares(console, options.draws, between, "values between 0 and 1: reported, bootstrap")
    if "harmonic" in chosen:
        show_harmonic(console, options.draws)
    if "differences" in chosen:
        show_differences(console, options.draws)


if __name__ == "__main__":
    main()
