"""Lets tests import `tests.fakes`; appended, so that no folder of the root hides an installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
