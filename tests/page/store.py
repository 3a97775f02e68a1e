"""Makes three reports for tests of the page: a large one of 28 configs with all kinds of failures, a small one, and a
wide one with 144 configs of four networks on three fake GPUs.

    store.py ORCHESTRATE DIRECTORY

The reports are DIRECTORY/report/large, small and wide, and the store is DIRECTORY/runs. Existing results are kept, so a
second call only renders the reports.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = ("model", "batch", "precision", "compile", "repeat", "out")

LARGE = """\
description: Three networks, with <angle brackets>, "quotes" & an ampersand
models: [resnet18, mobilenet_v2, vgg16]
batches: [8, 16, 32, 64]
precisions: [fp32, amp]
axes: { compile: [false, true] }
envs:
  cpu: { device: cpu, usd_per_hour: 0.5 }
  other: { device: cpu, batches: [8, 16], precisions: [fp32] }
"""

SMALL = """\
description: Two networks on this machine's processor
models: [resnet18, mobilenet_v2]
batches: [4, 8, 16]
params: { compile: false }
profile: { ops: {} }
envs:
  cpu: { device: cpu }
"""

WIDE = """\
description: Four networks on three fake GPUs
models: [resnet50, bert_base, gpt2_small, vit_b16]
batches: [4, 8, 16, 32, 64]
precisions: [fp32, bf16]
params: { compile: false }
envs:
  a100: { device: cpu, variables: { GPU: a100 }, usd_per_hour: 1.8 }
  h100: { device: cpu, variables: { GPU: h100 }, usd_per_hour: 3.2 }
  t4: { device: cpu, variables: { GPU: t4 }, usd_per_hour: 0.4 }
include:
""" + "".join(
    f"  - {{ env: h100, model: {model}, batch: {batch}, precision: {precision}, compile: true }}\n"
    for model in ("resnet50", "bert_base", "gpt2_small", "vit_b16")
    for batch in (16, 32, 64)
    for precision in ("fp32", "bf16"))


def matrix(name, text):
    command = [sys.executable, str(HERE / "worker.py")]
    for flag in FLAGS:
        command += [f"--{flag}", f"{{{flag}}}"]
    return (f"name: {name}\n{text}repeats: 3\nlimits: {{ timeout: 60s, retries: 0 }}\n"
            f"worker: {{ command: {command!r}, result: json }}\n")


def main(orchestrate, directory):
    orchestrate = str(pathlib.Path(orchestrate).resolve())
    directory = pathlib.Path(directory).resolve()
    locks = directory / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"ORCHESTRATE_LOCK_DIR": str(locks)}

    def call(*words, allowed=(0,)):
        ended = subprocess.run([orchestrate, "-q", *words], cwd=directory, env=environment,
                               stdout=subprocess.DEVNULL, check=False)
        if ended.returncode not in allowed:
            sys.exit(f"orchestrate {' '.join(words)} exited with {ended.returncode}")

    call("peaks", "measure", "--if-missing", "--worker", str(HERE.parent / "reporting" / "fake_peaks.sh"))
    templates = ["--templates", str(HERE.parents[1] / "templates")]
    for name, text in (("large", LARGE), ("small", SMALL), ("wide", WIDE)):
        (directory / f"{name}.yaml").write_text(matrix(name, text))
        # Jobs that run out of memory fail and are not retried. The others are done after the first call.
        if not (directory / f"{name}.done").exists():
            call("run", f"{name}.yaml", allowed=(0, 10))
            (directory / f"{name}.done").touch()
        call("report", name, *templates)


if __name__ == "__main__":
    main(*sys.argv[1:])
