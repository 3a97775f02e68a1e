"""The examples of the package in the manual run with the real PyTorch."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from test_orchestrate import ROOT
from test_pytorch import HAS_PYTORCH, REASON
from test_window import SOURCES


@unittest.skipUnless(HAS_PYTORCH or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), REASON)
class Manual(unittest.TestCase):
    """The page about Python workers."""

    def test_the_script_prints_the_output_in_the_manual(self):
        page = (ROOT / "docs" / "python.md").read_text()
        script = re.search(r"```python\n(# train\.py\n.*?)```", page, re.DOTALL)[1]
        command, *shown = re.search(r"\$ python (train\.py .*?)```", page, re.DOTALL)[1].splitlines()
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "train.py").write_text(script)
            environment = dict(os.environ, PYTHONPATH=SOURCES)
            words = [sys.executable, "-B", *command.split()]
            done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # Numbers and processors differ from machine to machine.
        plain = [re.sub(r"\(.*\)|[0-9.]{3,}|\s+", " ", line).split() for line in done.stdout.splitlines()]
        for line, printed in zip((line for line in shown if line != "…"), plain):
            self.assertEqual(re.sub(r"\(.*\)|[0-9.]{3,}|\s+", " ", line).split(), printed)
        lines = sum(f"# {number}\n" in script for number in range(1, 9))
        self.assertEqual(lines, 4, "the manual promises four lines")


if __name__ == "__main__":
    unittest.main()
