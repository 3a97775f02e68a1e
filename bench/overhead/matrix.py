"""The matrices of the benchmarks."""

import json


def fake_worker(worker, *more):
    """The command of a fake worker, which writes its measurement and ends."""
    names = ("behave", "device", "precision", "batch", "label", "out", *more)
    return [worker, *(word for name in names for word in (f"--{name}", f"{{{name}}}"))]


def matrix(name, repeats, axes, command, more=""):
    """A matrix in YAML, one job per repeat and value of each axis. JSON's lists and mappings are YAML's, too.

    >>> print(matrix("m", 2, {"step": [1, 2]}, fake_worker("/bin/w")[:3], "description: two words"))
    name: m
    models: [m]
    batches: [4]
    repeats: 2
    axes: {"step": [1, 2]}
    order: sequential
    limits: {timeout: 10m, retries: 0, grace: 1s}
    worker: {command: ["/bin/w", "--behave", "{behave}"], result: json}
    envs: {cpu: {device: cpu}}
    description: two words
    <BLANKLINE>
    """
    return (
        f"name: {name}\nmodels: [m]\nbatches: [4]\nrepeats: {repeats}\naxes: {json.dumps(axes)}\norder: sequential\n"
        f"limits: {{timeout: 10m, retries: 0, grace: 1s}}\nworker: {{command: {json.dumps(command)}, result: json}}\n"
        f"envs: {{cpu: {{device: cpu}}}}\n{more}\n"
    )


def steps(jobs, repeats):
    """The values of an axis that makes `jobs` jobs in all, or a few less if `repeats` does not divide them.

    >>> steps(30, 10), steps(5, 10)
    ([1, 2, 3], [1])
    """
    return list(range(1, max(1, jobs // repeats) + 1))
