"""The whole campaign: random faults for half of the time, then crash points for the other half.

    python3 tests/torture ORCHESTRATE [--seconds 60] [--seed S]

The parts are described in `campaign.py` and `crash_points.py`. If all crash points fit into the time, all are tried.
Otherwise as many as fit are tried, in a random order by the seed. Exits with 1 if a promise was broken, and with 2 if
strace cannot trace here and the random faults broke no promise.
"""

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def play(part, options):
    print(f"== {part}", flush=True)
    words = [f"{HERE}/{part}.py", options.orchestrate, "--seconds", str(options.seconds / 2), "--seed", options.seed]
    return subprocess.run([sys.executable, "-B", *words]).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", help="its binary")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    codes = [play("campaign", options), play("crash_points", options)]
    sys.exit(1 if 1 in codes else max(codes))


if __name__ == "__main__":
    main()
