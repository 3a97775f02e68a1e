"""Loads libtorch's CUDA half with all libraries of CUDA, where there is no GPU: `just test-cuda-load`.

    python3 tests/cuda/load.py WORKER PLACE

PLACE has the wheel of torch and those of its dependencies, unpacked. A simulated driver (driver.c) answers that
all is well, so the worker continues and loads everything. The dynamic linker reports (LD_DEBUG) what it loads, in which
order and from where. libtorch then asks the driver for devices, which the driver does not support.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile

# In the order of torch/__init__.py. libcupti and libcudart are loaded before, because libtorch_cpu needs them.
ORDER = """libcublasLt libcublas libcudnn libnvrtc libnvrtc-builtins libcufft libcurand libnvJitLink libcusparse
libcusparseLt libcusolver libnccl libnvshmem_host libcufile libtorch_cuda""".split()
UNSUPPORTED = 69


def without_version(path):
    return os.path.basename(path).split(".so")[0]


def ask(worker, libraries, **variables):
    """The exit code of `worker cuda`, its error, and the whole output of it and of the dynamic linker."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "CUDA", "STUB"))}
    environment.update(variables, LD_LIBRARY_PATH=":".join(libraries))
    ended = subprocess.run([worker, "cuda"], env=environment, stderr=subprocess.PIPE, text=True, errors="replace")
    message = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    return ended.returncode, message[-1] if message else "", ended.stderr


def opened(said):
    """The paths that the program itself opened, in order: not those that another library needs.

    >>> opened("7: file=/a/libx.so.1 [0];  dynamically loaded by /b/libtorch_cpu.so [0]\\n"
    ...        "7: file=libc.so.6 [0];  needed by /a/libx.so.1 [0]")
    ['/a/libx.so.1']
    """
    return re.findall(r"file=(\S+) \[0\];  dynamically loaded by \S*/(?:libtorch_cpu\.so|worker) ", said)


def errors(said):
    """The errors of the dynamic linker about libraries of CUDA. Other errors are ignored: a failed lookup in the whole
    program counts as an error of the program, and the simulated driver lacks most functions.

    >>> errors("7: /a/libcudnn.so.9: error: symbol lookup error: undefined symbol: f (fatal)\\n"
    ...        "7: /b/worker: error: symbol lookup error: undefined symbol: g (fatal)\\n8: file=b")
    ['/a/libcudnn.so.9: error: symbol lookup error: undefined symbol: f (fatal)']
    """
    lines = re.findall(r"\d+:\s+(\S+: error: .*)", said)
    others = ("/worker: error: symbol lookup error", "libcuda.so.1: error: symbol lookup error")
    return [line for line in lines if not any(other in line for other in others)]


def make_driver(directory):
    os.makedirs(directory)
    here = os.path.dirname(os.path.abspath(__file__))
    for source, name in (("driver.c", "libcuda.so.1"), ("library.c", "libnvidia-ml.so.1")):
        path = os.path.join(directory, name)
        subprocess.run(
            [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", f'-DNAME="{name}"', f"-Wl,-soname,{name}"]
            + ["-o", path, os.path.join(here, source)],
            check=True,
        )


def check(what, passes, said):
    print(f"{'passed' if passes else 'FAILED'}  {what}: {said}", flush=True)
    return passes


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def is_found_by_name(path):
    """Whether a library that was opened by its path is then found by its bare name, as cuDNN looks for it.

    In a separate process, so that it is not open already."""
    code = (
        "import ctypes, os, sys\n"
        "path = sys.argv[1]\n"
        "ctypes.CDLL(path, ctypes.RTLD_GLOBAL)\n"
        "ctypes.CDLL(os.path.basename(path))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    return subprocess.run([sys.executable, "-c", code, path], env=environment).returncode == 0


def main(worker, place):
    worker, place = os.path.abspath(worker), os.path.realpath(place)
    torch = os.path.join(place, "torch", "lib")
    good = []
    if has_driver():
        print("skipped: what is said without a driver, for this machine has one")
    else:
        code, message, _ = ask(worker, [torch])
        is_said = message.startswith("error: cuda is not available: no NVIDIA driver is installed: ")
        good.append(check("without a driver, that is said", code == UNSUPPORTED and is_said, message))
    with tempfile.TemporaryDirectory() as directory:
        stub = os.path.join(directory, "stub")
        make_driver(stub)
        code, message, said = ask(worker, [stub, torch], LD_DEBUG="libs,files", STUB_CUDA="13000")
    paths = [path for path in opened(said) if without_version(path) in ORDER]
    names = [without_version(path) for path in paths]
    good.append(check("all are opened, in the order of torch/__init__.py", names == ORDER, " ".join(names)))
    elsewhere = [path for path in paths if not os.path.realpath(path).startswith(place + os.sep)]
    good.append(check("each by its path in the wheels", not elsewhere, elsewhere or f"{len(paths)} paths"))
    good.append(check("no library of CUDA lacks another", not errors(said), errors(said)[:3] or "no error"))
    sees_none = message == "error: cuda is not available: libtorch sees no CUDA device"
    good.append(check("only the device is missing", code == UNSUPPORTED and sees_none, message))
    # Only the hooks of libtorch_cuda print this. Their placeholders answer silently.
    warnings = [line for line in said.splitlines() if "CUDA initialization" in line]
    good.append(check("libtorch asks through the hooks of libtorch_cuda", bool(warnings), warnings[:1]))
    for path in paths:
        if without_version(path) in ("libnvrtc", "libcublasLt"):
            good.append(check("it is found by its bare name from then on", is_found_by_name(path), path))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
