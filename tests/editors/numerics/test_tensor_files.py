"""Files of tensors on a disk without room."""

import subprocess
import sys

CODE = """
import resource, sys, torch
from pathlib import Path
from emend.editors.numerics.tensor_files import save_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save_whole({"a": torch.zeros(10_000)}, Path(sys.argv[1]))
except OSError as error:
    print("refused:", error)
"""


def test_a_disk_without_room_is_an_error_of_the_file(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "a.safetensors")], capture_output=True, text=True)
    assert "refused:" in done.stdout and "File too large" in done.stdout, done.stderr
    assert not (tmp_path / "a.safetensors").exists()
