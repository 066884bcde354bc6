"""Where Emend keeps what can be made again."""

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder for one kind of kept thing: under `EMEND_CACHE`, or else the user's cache folder; not created."""
    import platformdirs

    root = os.environ.get("EMEND_CACHE")
    return (Path(root).expanduser() if root else platformdirs.user_cache_path("emend")) / kind
