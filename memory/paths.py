"""Cache folders."""

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of cached files, under `EMEND_CACHE` or else in the user's
    cache folder; it is not created.
    """
    import platformdirs

    root = os.environ.get("EMEND_CACHE")
    return (Path(root).expanduser() if root else platformdirs.user_cache_path("emend")) / kind
