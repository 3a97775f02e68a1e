"""Runs the test modules of this directory, one per processor at a time, each in a separate process.

    python python/tests/parallel.py

Most of the time of a module is spent on importing PyTorch and on waiting for workers. Prints the output of each module
when it ends, and exits with 1 if a test fails.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(module):
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-B", "-m", "unittest", module]
    return subprocess.run(words, env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True)


def main():
    # The longest first, judged by the length of the file.
    files = sorted(HERE.glob("test_*.py"), key=lambda file: -file.stat().st_size)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = {pool.submit(run, file.stem): file.stem for file in files}
        for future in concurrent.futures.as_completed(ended):
            result = future.result()
            print(f"== {ended[future]}\n{result.stdout}{result.stderr}", flush=True)
            failed += [ended[future]] * (result.returncode != 0)
    if not files or failed:
        sys.exit(f"failed: {', '.join(failed) or 'there is no test'}")


if __name__ == "__main__":
    main()
