"""Makes an environment in which Python can use the PyTorch of `.venv`, which is only there for its libtorch.

    .venv/bin/python -B python/tests/environment.py .venv-python

That PyTorch was installed without what Python's half of it needs: some small packages, which are fetched, and, on
Linux, 3 GB of CUDA libraries, which it loads even where there is no GPU. In their place, this makes libraries of the
same names. Each of their functions ends the program, and on the processor none is ever called. Where the real ones are
installed, nothing is replaced. A second call does nothing.
"""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import venv

# The imports of Python's half of PyTorch, of the tests and of the example.
PACKAGES = ("typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "numpy", "pillow", "packaging",
            "pyyaml", "tqdm", "pandas")
# These would fetch PyTorch again, with all that it needs.
WITHOUT_DEPENDENCIES = ("torchvision==0.26.0", "lightning==2.6.6", "lightning-utilities==0.15.3", "torchmetrics==1.9.0")
# Libraries of CUDA that are not part of the driver; those of the driver are searched at run time.
REPLACED = re.compile(r"lib(cublas(Lt)?|cudnn|cufft|cufile|curand|cusolver|cusparse(Lt)?|nccl|nvshmem_host)\.so")
FUNCTIONS = re.compile(r"(cublas|cudnn|cufft|cuFile|curand|cusolver|cusparse|nccl|nvshmem)")
MARK = "ready"


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def make_libraries(packages, place):
    """Makes the missing dependencies of PyTorch's libraries; returns the paths."""
    place.mkdir()
    libraries = sorted((packages / "torch" / "lib").glob("lib*.so"))
    present = {path.name for path in packages.glob("nvidia/**/lib*.so*")}
    needed, functions = set(), {}
    for library in libraries:
        needed.update(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)))
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if FUNCTIONS.match(name):
                functions.setdefault(version, set()).add(name)
    missing = sorted(name for name in needed if REPLACED.match(name) and name not in present)
    return [make_library(place / name, functions) for name in missing]


def make_library(path, functions):
    """Makes the library `path` of those `functions`, by version, that carry its version or else its name."""
    stem = REPLACED.match(path.name)[1].lower().replace("_host", "")
    versions = [version for version in functions if version and version.lower() in (path.name.lower(), stem)]
    named = {name for name in functions.get("", ()) if name.lower().startswith(stem)}
    own = functions[versions[0]] if versions else named
    source = path.with_suffix(".c")
    source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(own)))
    words = ["cc", "-shared", "-fPIC", "-w", "-o", path, source, f"-Wl,-soname,{path.name}"]
    if versions:
        script = path.with_suffix(".map")
        script.write_text(f"{versions[0]} {{ global: *; }};\n")
        words.append(f"-Wl,--version-script={script}")
    run(*words)
    return path


def main():
    place = pathlib.Path(sys.argv[1]).absolute()
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    mark = f"{packages} {(packages / 'torch' / 'version.py').stat().st_mtime_ns} {PACKAGES} {WITHOUT_DEPENDENCIES}"
    if (place / MARK).exists() and (place / MARK).read_text() == mark:
        return
    print(f"making an environment with PyTorch for Python in {os.path.relpath(place)}", file=sys.stderr)
    venv.create(place, clear=True, with_pip=True)
    pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, *PACKAGES)
    run(*pip, "--no-deps", *WITHOUT_DEPENDENCIES)
    own = next((place / "lib").glob("python3*/site-packages"))
    libraries = make_libraries(packages, place / "cuda") if sys.platform == "linux" else []
    lines = [str(packages)]
    if libraries:
        # A library that is loaded already is not looked for again when another one needs its name.
        loads = "; ".join(f"ctypes.CDLL({str(path)!r})" for path in libraries)
        lines.append(f"import ctypes; {loads}")
    (own / "pytorch.pth").write_text("\n".join(lines) + "\n")
    run(place / "bin" / "python", "-c", "import torch, torchvision")
    (place / MARK).write_text(mark)


if __name__ == "__main__":
    main()
