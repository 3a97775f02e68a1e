"""The tables of names with values in `report.md`, by their heading."""

from datetime import datetime, timezone

from .brief import shared_settings
from .findings import undone
from .jobs import SETTINGS
from .raw import moment
from .words import counted, duration, significant, word


def overview(study):
    recorded = [job for job in study.jobs if job.record]
    clock = lambda text: datetime.fromtimestamp(int(moment(text)), timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    start, end = min(job.record["started_at"] for job in recorded), max(job.record["ended_at"] for job in recorded)
    done = sum(job.succeeded for job in study.jobs)
    return {
        "Matrix": f"{study.plan['matrix']['name']} ({study.plan['matrix']['path']})",
        "Jobs": f"{len(study.jobs)} planned: {', '.join([f'{done} with a result', *undone(study)])}",
        "Measured": f"{clock(start)} to {clock(end)} UTC",
        "Time in jobs": duration(sum(job.wall_s for job in recorded)),
    }


def several(values, noun):
    """The only value, or each value with the number of `noun`s that have it."""
    found = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    texts = [("not reported" if value is None else value, counted(number, noun)) for value, number in found.items()]
    return ", ".join(f"{value} ({of})" for value, of in texts)


def gibibytes(size):
    return None if size is None else f"{significant(size / 2**30, 3)} GiB"


def host_facts(hosts):
    def fact(value, of=lambda found: found):
        return several([of(value(host)) for host in hosts], "job")
    system = lambda host: "{name} {version}, kernel {kernel}, {architecture}".format(**host["os"])
    found = {
        "System": fact(system), "Processor": fact(lambda host: host["cpu"]["model"]),
        "Processors": fact(lambda host: f"{host['cpu']['usable']} usable of {host['cpu']['logical']}"),
        "Memory": fact(lambda host: host["memory_bytes"], gibibytes),
        "GPU": fact(lambda host: ", ".join(gpu["name"] for gpu in host.get("gpus", [])) or None),
        "NVIDIA driver": fact(lambda host: host.get("nvidia_driver")),
        "Virtualisation": fact(lambda host: host.get("virtualisation")),
        "Container": fact(lambda host: host.get("container")),
        "Governor": fact(lambda host: host.get("governor")), "Power": fact(lambda host: host.get("power_source")),
    }
    return {name: value for name, value in found.items() if value is not None}


def env_facts(study, env):
    found = {}
    for row in study.rows:
        if row.key["env"] != env:
            continue
        facts = {"backend": row.key["device"], "worker command": " ".join(row.key["worker"]["command"])}
        facts |= {name: word(value) for name, value in row.key["params"].items()}
        if row.runs:
            effective = row.first.measured["effective"]
            facts["host"] = row.host
            facts["device"] = row.first.details.get("device_name")
            facts["device UUID"] = row.first.details.get("device_uuid")
            facts |= {"threads": word(effective["threads"]) if "threads" in effective else None}
            facts["worker SHA-256"] = row.first.record["provenance"]["worker"]["sha256"][:12]
            for name, version in row.first.details.get("versions", {}).items():
                facts["PyTorch" if name in ("torch", "libtorch") else name] = version
        for name, value in facts.items():
            if value is not None and name not in study.varying:
                found.setdefault(name, []).append(value)
    return {name: several(sorted(values), "row") for name, values in found.items()}


def provenance(study):
    recorded = [job for job in study.jobs if job.record]
    same = lambda of: several_envs([(of(job), job.key["env"]) for job in recorded])
    found = {
        "Matrix SHA-256 (planned)": study.plan["matrix"]["sha256"],
        "Matrix SHA-256 (in the records)": same(lambda job: job.record["provenance"]["matrix"]["sha256"]),
        "orchestrate": same(lambda job: job.record["provenance"]["orchestrate"]),
        "Worker SHA-256": same(lambda job: job.record["provenance"]["worker"]["sha256"]),
        "Optimizer": same(lambda job: job.details.get("optimizer")),
        "Settings in metrics.csv": ", ".join(SETTINGS),
    }
    return {name: value for name, value in found.items() if value is not None}


def several_envs(pairs):
    found = {}
    for value, env in pairs:
        if value is not None:
            found.setdefault(value, set()).add(env)
    if len(found) < 2:
        return next(iter(found), None)
    return ", ".join(f"{value} ({', '.join(sorted(envs))})" for value, envs in sorted(found.items()))


def known_facts(study):
    """Tables of names with values, by their heading."""
    hosts = {}
    for job in study.jobs:
        if job.record:
            hosts.setdefault(job.host["hostname"], []).append(job.host)
    found = {f"Host {name}": host_facts(its) for name, its in hosts.items()}
    for env in {row.key["env"] for row in study.rows}:
        found[env] = found[f"Env {env}"] = env_facts(study, env)
    found[study.name] = found["Design"] = overview(study)
    found["Provenance"] = provenance(study)
    # Two tables are below this heading. The one with a worker has the shared settings.
    found["Design", "worker"] = shared_settings(study)
    return found
