"""Rules of a stress case are those of which it has both texts."""

import pytest
from pydantic import ValidationError

from emend.evals.judging.calibration.stress import StressCase


def test_a_case_of_two_texts_has_the_rules_between_them_and_of_one_is_refused():
    case = StressCase(kind="equivalence", varies="other", variants={"gold": "Paris", "empty": ""})
    assert case.rules == [("gold", ">", "empty")]
    with pytest.raises(ValidationError, match="gold and unedited"):
        StressCase(kind="equivalence", varies="other", variants={"gold": "Paris"})
