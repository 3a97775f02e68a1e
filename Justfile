# The recipes. `./bootstrap.sh RECIPE` prepares the machine and then runs the same recipe.

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

orchestrate := "target/release/orchestrate"

# Lists the recipes.
default:
    @just --list --unsorted

# Builds orchestrate and the worker.
build:
    cargo build --release --locked --features torch --bin orchestrate --bin worker

# Builds orchestrate alone, for your own workers. Through bootstrap.sh it needs neither Python nor libtorch.
build-orchestrator:
    ./bootstrap.sh build-orchestrator

# Runs the quickstart: generates a small data set, measures this machine's peaks, runs the matrix, writes the report.
quickstart: build
    {{ orchestrate }} dataset make data/quickstart
    {{ orchestrate }} peaks measure --device cpu --quick --if-missing
    {{ orchestrate }} run matrices/quickstart.yaml
    {{ orchestrate }} report quickstart

# Runs every test.
test:
    cargo test --locked --features torch
    python3 -B -m doctest bench/observer.py bench/size.py bench/python.py bench/zoo.py bench/overhead/[a-z]*.py tests/torture/[a-z]*.py tests/fixtures/kept.py \
        tests/cuda/load.py
    python3 -B -m unittest discover -s tests/torture
    just test-python

# Your own libtorch comes without PyTorch, and only what does not need it is tested.
# Runs the tests of the Python package, most of them with the real PyTorch.
test-python:
    #!/usr/bin/env bash
    set -euo pipefail
    # With the features that `cargo test` resolves, so that nothing is built twice.
    cargo test --locked --features torch --test integration --no-run
    python=python3
    if [ -e .venv/libtorch ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        .venv/bin/python -B python/tests/environment.py .venv-python
        python=.venv-python/bin/python
        export ORCHESTRATE_NEEDS_PYTORCH=1
    else
        echo "test-python: .venv has no PyTorch for its Python, so what needs it is not tested" >&2
    fi
    "$python" -B python/tests/parallel.py

# Tests the page and the live pages in a headless Chromium: rules, sizes, keyboard, paper. Fetches playwright-core.
test-page:
    #!/usr/bin/env bash
    set -euo pipefail
    missing() {
        echo "test-page: $1 is not installed, so the page is not tested; on Debian: apt install $2" >&2
        exit 1
    }
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || missing Chromium chromium
    node=$(command -v node) && command -v npm >/dev/null || missing "Node.js with npm" "nodejs npm"
    "$node" -e 'process.exit(Number(parseInt(process.versions.node) < 20))' || missing "Node.js 20 or later" nodejs
    command -v pdftotext >/dev/null || missing pdftotext poppler-utils
    cargo build --locked --bin orchestrate
    place=${CARGO_TARGET_DIR:-target}/page
    mkdir -p "$place"
    npm install --prefix "$place" --no-package-lock --no-audit --no-fund --silent axe-core@4.14.1 playwright-core@1.65.1
    python3 -B tests/page/store.py "${CARGO_TARGET_DIR:-target}/debug/orchestrate" "$place/store"
    "$node" tests/page/check.mjs "$place" "$browser" "$place/seen" "$place"/store/report/{large,small,wide}/report.html
    "$node" tests/page/serve.mjs "$place" "$browser" "$place/seen" "${CARGO_TARGET_DIR:-target}/debug/orchestrate"

# Runs the worker's tests with the kernels that older x86-64 processors get, on one thread and on two.
test-isa:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo test --locked --features torch --bin worker --no-run
    # oneDNN's kernels and libtorch's own are limited by a variable each.
    for limits in SSE41:default AVX2:avx2 AVX512_CORE:avx512 DEFAULT:; do
        for threads in 1 2; do
            echo "== kernels up to ${limits%:*}, $threads thread(s)"
            (
                export ONEDNN_MAX_CPU_ISA=${limits%:*} ATEN_CPU_CAPABILITY=${limits#*:} OMP_NUM_THREADS=$threads
                [ -n "$ATEN_CPU_CAPABILITY" ] || unset ATEN_CPU_CAPABILITY
                cargo test --locked --features torch --bin worker
            )
        done
    done

# Regenerates the fixtures of NETWORKS, or of all: torchvision's networks, and what PyTorch computes with them.
fixtures *NETWORKS:
    #!/usr/bin/env bash
    set -euo pipefail
    . bench/venv.sh
    "$venv/bin/python" -B tests/fixtures/descriptions.py {{ NETWORKS }}
    "$venv/bin/python" -B tests/fixtures/networks.py {{ NETWORKS }}

# Regenerates the fixture of the statistics: what SciPy and statsmodels say of 200 random data sets.
fixtures-statistics:
    #!/usr/bin/env bash
    set -euo pipefail
    [ -e .venv-scipy/ready ] || {
        python3 -m venv .venv-scipy
        .venv-scipy/bin/pip install --quiet scipy==1.17.1 statsmodels==0.15.0
        touch .venv-scipy/ready
    }
    .venv-scipy/bin/python -B tests/fixtures/statistics.py

# Inputs that a reader fails on are in target/fuzz/found.
# Feeds each reader of files and of other programs' output, or TARGET, with damaged inputs for so many SECONDS.
fuzz SECONDS="60" TARGET="":
    FUZZ_SECONDS={{ SECONDS }} cargo test --locked --profile fuzz --lib -- fuzz_tests::fuzz_{{ TARGET }} --nocapture --test-threads 1

# Kills, stops and starves orchestrate and its workers for so many SECONDS, resumes, and judges what is left.
torture SECONDS="60" SEED="1":
    cargo build --release --locked --bin orchestrate
    python3 -B tests/torture {{ orchestrate }} --seconds {{ SECONDS }} --seed {{ SEED }}

# Runs the quickstart as an array on a Slurm with two nodes, on this machine, and reports. Installs Slurm, if root runs it.
quickstart-slurm: build
    tests/slurm/quickstart.sh

# Kills everybody on a Slurm with two nodes, on this machine, for so many SECONDS, resumes, and judges what is left.
torture-slurm SECONDS="600" SEED="1":
    cargo build --release --locked --bin orchestrate --bin fake-worker
    python3 -B tests/slurm/torture.py {{ orchestrate }} {{ parent_directory(orchestrate) }}/fake-worker \
        "${CARGO_TARGET_DIR:-target}/torture-slurm" --seconds {{ SECONDS }} --seed {{ SEED }}

# Runs the quickstart's first network on two hosts that `ssh` reaches, both on this machine, and reports.
quickstart-ssh: build
    tests/ssh/quickstart.sh

# Cuts, reboots and kills everybody on two hosts, on this machine, for so many SECONDS, resumes, and judges what is left.
torture-ssh SECONDS="600" SEED="1":
    cargo build --release --locked --bin orchestrate
    python3 -B tests/ssh/torture.py {{ SECONDS }} --seed {{ SEED }} --orchestrate {{ orchestrate }}

# Breaks orchestrate in five ways, in a separate build, and checks that the fault campaign sees each of them.
torture-sees:
    cargo build --release --locked --features break --bin orchestrate --target-dir target/break
    python3 -B tests/torture/campaign.py target/break/release/orchestrate --seconds 120 --expect-failure no-seal-check
    python3 -B tests/torture/campaign.py target/break/release/orchestrate --seconds 120 --expect-failure no-lock-inheritance
    python3 -B tests/torture/campaign.py target/break/release/orchestrate --seconds 120 --expect-failure record-before-measurement
    python3 -B tests/torture/crash_points.py target/break/release/orchestrate --scenario plain --kills --seconds 120 --expect-failure no-rename
    python3 -B tests/torture/crash_points.py target/break/release/orchestrate --scenario timeout --kills --sample 2 --expect-failure no-process-group

# Prints which file uses which, with the names that it uses, and whether there are circles.
graph:
    @cargo test --locked --quiet --test integration -- layers::print_the_graph_of_files --exact --nocapture

# Checks with CASES keys that their ids stay the same in matrices and in every file that contains a key.
identity CASES="1000000":
    PROPTEST_CASES={{ CASES }} cargo test --locked --release --lib -- identity_tests

# Simulates TABLES tables for each promise of `docs/statistics.md`, and prints how often verdicts are wrong or found.
calibrate-statistics TABLES="1000":
    SIMULATED_TABLES={{ TABLES }} cargo test --locked --release --lib -- --exact --ignored --nocapture --test-threads 1 \
        analysis::compare::simulation::calibrate analysis::simulation::calibrate plan::need::simulation::calibrate

# Simulates how often marks are false and how often they are missed: the tables of marks in docs/statistics.md.
calibrate-marks WORLDS="10000":
    SIMULATED_WORLDS={{ WORLDS }} cargo test --locked --release --lib -- --exact --ignored --nocapture \
        analysis::marks::simulation::calibrate

# Flips every byte of every file of a small store, one at a time: no number may change without a reason.
flips:
    FLIPS=all cargo test --locked --release --test integration -- running::seal::a_flipped_byte_changes_no_number_unreported

# Lints and tests, as CI does, and checks the crates.
check: lint crates test

# What cannot be checked is named: a tool that is not installed, or the database of weaknesses without the internet.
# Checks the licences and sources of all crates by deny.toml, and whether any has a known weakness.
crates:
    #!/usr/bin/env bash
    set -euo pipefail
    database=https://github.com/RustSec/advisory-db
    has() { command -v "$1" >/dev/null || { echo "crates: $1 is not installed: type \`cargo install --locked $1\`" >&2; false; }; }
    weaknesses=advisories
    if ! GIT_TERMINAL_PROMPT=0 git ls-remote --quiet "$database" HEAD >/dev/null 2>&1; then
        echo "crates: $database cannot be reached, so known weaknesses are not checked" >&2
        weaknesses=
    fi
    if has cargo-deny; then cargo deny check licenses bans sources $weaknesses; fi
    if has cargo-audit && [ -n "$weaknesses" ]; then cargo audit --deny warnings; fi

# Checks the format and runs clippy, with and without the worker.
lint:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
    cargo clippy --locked --all-targets --features torch -- -D warnings

# Formats the code.
fmt:
    cargo fmt

# Regenerates the tables of the manual that come from the code.
docs:
    UPDATE_DOCS=1 cargo test --locked --test integration -- docs::every_generated

# Builds the manual as a book in target/book. Needs mdbook.
book:
    mdbook build

# Writes the report of the plan that ran last, or of NAME.
report *NAME: build
    {{ orchestrate }} report {{ NAME }}

# Counts lines, files, words, crates, and words that are used in unusual roles.
size:
    python3 -B bench/size.py

# Runs all benchmarks, which report ratios within one run.
bench: bench-pytorch bench-data bench-peaks bench-observer bench-overhead bench-python

# Compares the worker's throughput with that of PyTorch and torchvision, alternately, with the same settings.
bench-pytorch *ARGS: build
    bench/pytorch.sh {{ ARGS }}

# Measures what the Python package adds to an iteration, beside a bare loop.
bench-python *ARGS:
    .venv/bin/python -B python/tests/environment.py .venv-python
    .venv-python/bin/python -B bench/python.py {{ ARGS }}

# Compares the worker's ceilings with a plain sweep of PyTorch's matrix products, alternately.
bench-peaks *ARGS: build
    bench/peaks.sh {{ ARGS }}

# Compares the worker's data path with torchvision's DataLoader, alternately, on the same JPEGs.
bench-data *ARGS: build
    bench/data.sh {{ ARGS }}

# Compares the worker's throughput under orchestrate with that of the bare worker, alternately, with the same command.
bench-observer *ARGS: build
    bench/observer.sh {{ ARGS }}

# Compares what a job costs under orchestrate with a bash loop and others, alternately, for each of so many JOBS.
bench-overhead *JOBS:
    cargo build --release --locked --bin orchestrate --bin fake-worker
    python3 -B bench/overhead {{ orchestrate }} target/release/fake-worker {{ JOBS }}

# Which workers there are: `zoo-worker --list`. Takes some ten minutes, on a machine that does nothing else.
# Runs workers whose limit is known by construction, and prints how often the class of their rows is wrong or open.
bound-zoo *ARGS: build
    cargo build --release --locked --features torch --bin zoo-worker
    python3 -B bench/zoo.py {{ orchestrate }} {{ parent_directory(orchestrate) }}/zoo-worker \
        "${CARGO_TARGET_DIR:-target}/bound-zoo" {{ ARGS }}

# Breaks the analysis in five ways, in separate builds, and checks that the zoo sees each of them.
bound-zoo-sees:
    python3 -B tests/zoo/mutants.py

# Measures how long `aggregate` and `report` take for 10,000 records, without the store's cache and with it.
bench-report *ARGS:
    cargo build --release --locked --bin orchestrate
    python3 -B bench/report.py {{ orchestrate }} "${CARGO_TARGET_DIR:-target}/bench-report" {{ ARGS }}

# Compares what orchestrate adds to a job on Slurm with what Slurm itself takes. Installs Slurm, if root runs it.
bench-slurm *ARGS:
    cargo build --release --locked --bin orchestrate --bin fake-worker
    python3 -B bench/slurm.py {{ orchestrate }} {{ parent_directory(orchestrate) }}/fake-worker \
        "${CARGO_TARGET_DIR:-target}/bench-slurm" {{ ARGS }}

# Builds an orchestrate into dist/ that runs on any Linux from glibc 2.17 on, for x86-64 and for Arm. Fetches zig.
dist-orchestrator *PROCESSORS="x86_64 aarch64":
    just _dist-programs dist {{ PROCESSORS }}

# Everything is made in target/dist and moved at the end, so dist/ is never half of a release.
# Makes a release in dist/: programs for glibc 2.17, tarballs, wheels and their checksums. Fetches zig.
dist *PROCESSORS="x86_64 aarch64":
    #!/usr/bin/env bash
    set -euo pipefail
    new=target/dist
    rm -rf "$new"
    just _dist-programs "$new" {{ PROCESSORS }}
    # Every file in the wheel is as old as a zip file allows, so that two builds give the same bytes.
    SOURCE_DATE_EPOCH=315532800 .venv-zig/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
        --wheel-dir "$new" ./python
    chmod 644 "$new"/*.whl
    python3 -B packaging/pack.py "$new"
    just dist-check "$new"
    rm -rf dist
    mv "$new" dist
    ls dist
    echo "dist: the worker is not in it, because it is tied to its libtorch; docs/installing.md says how to install it" >&2

# Checks a release: its checksums, that its wheel installs, and that its program starts on a Linux with an old glibc.
dist-check DIRECTORY="dist":
    #!/usr/bin/env bash
    set -euo pipefail
    [ -e "{{ DIRECTORY }}/SHA256SUMS" ] || {
        echo "dist-check: there is no {{ DIRECTORY }}/SHA256SUMS: type \`just dist\`" >&2
        exit 1
    }
    (cd "{{ DIRECTORY }}" && sha256sum --check --quiet SHA256SUMS)
    echo "dist-check: every file has its checksum"
    rm -rf target/dist-venv
    python3 -m venv target/dist-venv
    target/dist-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index \
        "{{ DIRECTORY }}"/orchestrate-[0-9]*"_$(uname -m).whl"
    echo "dist-check: the wheel installs $(target/dist-venv/bin/orchestrate --version)"
    if packaging/old_root.sh "{{ DIRECTORY }}/orchestrate-$(uname -m)-linux"; then exit; else code=$?; fi
    [ "$code" -eq 3 ] || exit "$code"
    echo "dist-check: only the versions of its symbols say where it starts: $(just _dist-needs "{{ DIRECTORY }}")"

# Builds the programs of a release, and checks which C library they need.
_dist-programs PLACE *PROCESSORS:
    #!/usr/bin/env bash
    set -euo pipefail
    for processor in {{ PROCESSORS }}; do
        just _has_target "$processor-unknown-linux-gnu"
    done
    just _zig
    mkdir -p "{{ PLACE }}"
    for processor in {{ PROCESSORS }}; do
        target=$processor-unknown-linux-gnu
        PATH=$PWD/.venv-zig/bin:$PATH cargo zigbuild --release --locked --bin orchestrate --target "$target.2.17"
        install "${CARGO_TARGET_DIR:-target}/$target/release/orchestrate" "{{ PLACE }}/orchestrate-$processor-linux"
    done
    just _dist-needs "{{ PLACE }}"

# Prints what the programs of a release need, and fails if that is more than is promised.
_dist-needs PLACE:
    #!/usr/bin/env bash
    set -euo pipefail
    programs=$(printf '%s:' "$PWD/{{ PLACE }}"/orchestrate-*-linux)
    DISTRIBUTED_ORCHESTRATE=${programs%:} cargo test --locked --quiet --test integration -- \
        binaries::a_distributed_program_needs_only_an_old_c_library --exact --nocapture

# The libraries lie in target/cuda-load afterwards; delete it if you need the space.
# Loads libtorch's CUDA half with all of its libraries, where there is no GPU, and checks how. Fetches 3 GB, once.
test-cuda-load:
    #!/usr/bin/env bash
    set -euo pipefail
    place=target/cuda-load
    [ "$(uname -s)" = Linux ] || { echo "test-cuda-load: there is CUDA on Linux only" >&2; exit 1; }
    [ -e "$place/fetched" ] || {
        rm -rf "$place"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all: \
            --target "$place" torch==2.11.0
        touch "$place/fetched"
    }
    cargo build --locked --features torch --bin worker
    python3 -B tests/cuda/load.py "${CARGO_TARGET_DIR:-target}/debug/worker" "$place"

# Compiles the worker's C++ for macOS and Linux on Arm, against the headers of their wheels. Fetches 500 MB and zig.
check-shim:
    #!/usr/bin/env bash
    set -euo pipefail
    just _zig
    place=target/check-shim
    fetch() { # $1 = where to, $2 = pip's name of the platform
        [ -d "$place/$1/torch/include" ] && return
        .venv-zig/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --python-version 3.12 --platform "$2" --dest "$place/$1" torch==2.11.0
        .venv-zig/bin/python -m zipfile -e "$place/$1"/torch-*.whl "$place/$1"
        rm -r "$place/$1"/torch-*.whl "$place/$1/torch/lib"
    }
    fetch aarch64-macos macosx_11_0_arm64
    fetch aarch64-linux-gnu manylinux_2_28_aarch64
    for target in aarch64-macos aarch64-linux-gnu; do
        include=$place/$target/torch/include
        for file in src/bin/worker/shim/*.cpp; do
            .venv-zig/bin/python -m ziglang c++ -target "$target" -std=c++17 -D_GLIBCXX_USE_CXX11_ABI=1 -c "$file" \
                -I "$include" -I "$include/torch/csrc/api/include" -o "$place/object.o"
            echo "$file compiles for $target"
        done
    done

# Rust's own library for another system, from rustup if it is not installed yet.
_has_target TARGET:
    #!/usr/bin/env bash
    set -euo pipefail
    if [ -d "$(rustc --print sysroot)/lib/rustlib/{{ TARGET }}/lib" ]; then exit; fi
    command -v rustup >/dev/null || {
        echo "error: this Rust has no library for {{ TARGET }}, and there is no rustup to fetch it" >&2
        echo "hint: install Rust with rustup (https://rustup.rs), or your package of Rust for {{ TARGET }}" >&2
        exit 1
    }
    rustup target add {{ TARGET }}

# zig compiles and links for other systems; with cargo-zigbuild it does so for cargo.
_zig:
    #!/usr/bin/env bash
    set -euo pipefail
    [ -x .venv-zig/bin/cargo-zigbuild ] || {
        python3 -m venv .venv-zig
        .venv-zig/bin/python -m pip install --quiet --disable-pip-version-check ziglang==0.17.1 cargo-zigbuild==0.24.0
    }

# Builds an image with ENGINE from containers/Containerfile: orchestrate, its worker, and libtorch for CUDA.
container ENGINE="podman" *ARGS:
    {{ ENGINE }} build --file containers/Containerfile --tag orchestrate {{ ARGS }} .

# The image starts from a Debian that mmdebstrap makes, so only Debian's mirror is needed, and no registry of images.
# Builds the small image of containers/Containerfile from dist/ with ENGINE, and runs a matrix in it.
container-check ENGINE="podman":
    #!/usr/bin/env bash
    set -euo pipefail
    engine="{{ ENGINE }}"
    for tool in "${engine%% *}" mmdebstrap; do
        command -v "$tool" >/dev/null || {
            echo "container-check: $tool is not installed; on Debian: apt install $tool" >&2
            exit 1
        }
    done
    processor=$(uname -m)
    [ -e "dist/orchestrate-$processor-linux" ] || {
        echo "container-check: there is no dist/orchestrate-$processor-linux: type \`just dist $processor\`" >&2
        exit 1
    }
    base=target/container-base.tar
    mkdir -p target
    [ -e "$base" ] || {
        mmdebstrap --quiet --variant=minbase --include=python3,time --format=tar bookworm "$base.new"
        mv "$base.new" "$base"
    }
    $engine import "$base" localhost/orchestrate-base
    $engine build --network none --file containers/Containerfile --target alone --tag localhost/orchestrate-check \
        --build-arg BASE=localhost/orchestrate-base --build-arg PROCESSOR="$processor" .
    project=$(mktemp -d)
    trap 'rm -rf "$project"' EXIT
    cp containers/check.yaml containers/check.py "$project"
    $engine run --rm --network none --volume "$project:/project" localhost/orchestrate-check \
        orchestrate run check.yaml
    [ -e "$project/runs/check" ] || { echo "container-check: the store did not stay on the host" >&2; exit 1; }
    echo "container-check: $engine built the image, and a matrix ran in it"

# Installs orchestrate, its worker, man pages and completions below PREFIX.
install PREFIX=(env("HOME") / ".local"): build
    install -d {{ PREFIX }}/bin {{ PREFIX }}/share/man/man1 {{ PREFIX }}/share/bash-completion/completions
    install {{ orchestrate }} target/release/worker {{ PREFIX }}/bin/
    {{ orchestrate }} man {{ PREFIX }}/share/man/man1
    {{ orchestrate }} completions bash > {{ PREFIX }}/share/bash-completion/completions/orchestrate
