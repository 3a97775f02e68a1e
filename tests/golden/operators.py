"""Profiles by operator for the golden store: the operators that fictitious workers report for three iterations.

A recipe lists, for each operator, its share of an iteration and its shares of the roofs. Seconds, FLOPs and bytes are
computed from them. Together the recipes cover every class of a row, each reason for an unknown class, and each
experiment.
"""

ITERATIONS = 3
# The roofs that the recipes aim at, in FLOP/s and bytes/s, and the assumed capacity of caches of unknown size in bytes.
PEAKS = {
    "alpha": {"float32": 0.12e12, "bfloat16": 0.2e12, "memory": 20e9, "caches": 1.5e9},
    "beta": {"float32": 66.9e12, "bfloat16": 1070.5e12, "float16": 1070.5e12, "memory": 3350e9, "caches": 256e6},
    "gamma": {"float32": 39.7e12, "float16": 79.4e12, "memory": 576e9, "caches": 256e6},
}


def operator(name, kind, share, compute=None, memory=None, **more):
    """An operator that takes `share` of an iteration, at these shares of the roofs. It is called once per iteration."""
    return {"name": name, "class": kind, "share": share, "compute": compute, "memory": memory, "calls": 3, **more}


SHAPES = {"shapes": [[16, 64, 56, 56], [64, 64, 3, 3], None], "types": ["float32", "float32", None]}
CONVOLUTION = {"phase": "forward", **SHAPES}


def convolution(share, compute=0.83):
    return operator("aten::convolution", "convolution", share, compute, 0.02, calls=60, **CONVOLUTION)


def backward(share, compute=0.7):
    return operator("aten::convolution_backward", "convolution", share, compute, 0.03, calls=60, phase="backward",
                    shapes=[[16, 64, 56, 56], [16, 64, 56, 56], [64, 64, 3, 3]], types=["bfloat16"] * 3)


def normalisation(share, memory=0.88):
    return operator("my_norm<float | half>", "normalisation", share, 0.004, memory, phase="forward",
                    shapes=[[16, 64, 112, 112], [64]], types=["float32", "float32"])


def tiny(share, name="add_"):
    return operator(name, "elementwise", share, 0.0, 0.05, calls=3000, phase="backward", shapes=[[64]])


def update(share):
    return operator("sgd", "optimizer", share, 0.001, 0.1, calls=180, phase="optimizer")


def wait(share):
    return operator("next(loader)", "data", share, phase="data")


MYSTERY = operator("my::mystery", "other", 0.55)
RECIPES = {
    "compute": [convolution(0.5), backward(0.2), normalisation(0.18), update(0.06), tiny(0.02)],
    "memory": [normalisation(0.66), convolution(0.2), operator("transpose", "copy", 0.08, 0.0, 0.7)],
    "latency": [tiny(0.4), update(0.27), operator("max_pool", "pooling", 0.06, 0.01, 0.02), convolution(0.1)],
    "kernel": [convolution(0.42, 0.45), backward(0.3, 0.35), tiny(0.1)],
    "host": [convolution(0.25), operator("softmax", "lookup", 0.06, 0.0, 0.04)],
    "latency, outside": [tiny(0.4), convolution(0.28)],
    "outside, latency": [tiny(0.2), wait(0.15), convolution(0.33)],
    "waiting": [wait(0.65), convolution(0.3)],
    "mixed": [convolution(0.42), normalisation(0.33), MYSTERY | {"share": 0.11}],
    "nearly": [convolution(0.5996), normalisation(0.2)],
    "kernel, latency": [convolution(0.4, 0.5), tiny(0.25), operator("mm", "product", 0.33, 0.9, 0.01)],
    "unknown work": [MYSTERY, convolution(0.3)],
    "half known": [operator("retrieve", "lookup", 0.5, None, 0.02), convolution(0.35)],
    "unknown type": [operator("fft", "other", 0.6, 0.5, 0.02, types=["float64"]), convolution(0.3)],
    "between": [operator("cat", "copy", 0.62, 0.0, 0.0, of_caches=1.5), convolution(0.3)],
    "cached": [operator("mul_", "elementwise", 0.65, 0.0, 0.5, calls=9000), convolution(0.3)],
    "stream": [operator("sum", "elementwise", 0.5, 0.02, 0.4), operator("copy_", "copy", 0.3, 0.0, 0.2)],
    "not listed": [convolution(0.3), operator("all_reduce", "communication", 0.03, 0.0, 0.1)],
    "slow": [convolution(0.9)],
    "attention": [operator("sdpa", "attention", 0.7, 0.8, 0.7), update(0.2), operator("empty", "other", 0.0, 0.0, 0.0)],
    "idle": [convolution(0.3)],
    "launching": [convolution(0.3), tiny(0.06)],
    "streams": [convolution(0.8), operator("nccl", "communication", 0.4), normalisation(0.3)],
    "hidden wait": [convolution(0.7, 0.5), wait(0.5)],
}
# Seconds of operators that are not listed, as a share.
REST = {"not listed": 0.65, "mixed": 0.02}
# The time of a profiled iteration ÷ that of a timed one.
SLOWDOWN = {"slow": 2.0}
# The share of the time in which the host submits work, and in which the device is busy, if streams overlap.
SUBMITTING, BUSY = {"launching": 0.8, "latency": 0.9}, {"streams": 0.9}

# Per machine: its configs get these recipes in the order of the plan, repeating from the start.
TURNS = {
    "alpha": list(RECIPES)[:20],
    "beta": ["idle", "launching", "streams", "hidden wait", "compute", "memory", "kernel", "unknown work", "mixed",
             "slow", "latency"],
    "gamma": ["cached", "slow", "idle", "unknown type", "launching", "streams"],
}


def sample(spec, env, elapsed_s, launch_s):
    """The sample of an operator that a worker reports. On a GPU, its host time is `launch_s`."""
    roofs, seconds = PEAKS[env], spec["share"] * elapsed_s
    names = ("name", "phase", "class", "shapes", "types", "calls")
    found = {name: spec[name] for name in names if name in spec}
    on_gpu = env != "alpha" and spec["class"] != "data"
    found["host_s"] = launch_s if on_gpu else seconds
    if on_gpu:
        found |= {"device_s": seconds, "kernels": 2 * spec["calls"]}
    types = [kind for kind in spec.get("types", []) if kind]
    peak = roofs.get(types[0] if types else "float32", roofs["float32"])
    if spec["compute"] is not None:
        found["flops"] = float(round(spec["compute"] * peak * seconds))
    if "of_caches" in spec:
        found["bytes"] = spec["of_caches"] * roofs["caches"] * spec["calls"]
    elif spec["memory"] is not None:
        found["bytes"] = float(round(spec["memory"] * roofs["memory"] * seconds))
    return found


def profile(env, place, timed_s):
    """The profile of the config at `place` among those of `env`, an iteration of which takes `timed_s`."""
    name = TURNS[env][place % len(TURNS[env])]
    elapsed_s = ITERATIONS * timed_s * SLOWDOWN.get(name, 1.04)
    specs = RECIPES[name]
    launch_s = SUBMITTING.get(name, 0.2) * elapsed_s / len(specs)
    operators = [sample(spec, env, elapsed_s, launch_s) for spec in specs]
    found = {"source": "kineto", "iterations": ITERATIONS, "elapsed_s": elapsed_s, "operators": operators}
    rest_s = REST.get(name, 0.0) * elapsed_s
    if rest_s:
        found["rest_s"] = rest_s
    if env != "alpha":
        busy_s = sum(it.get("device_s", 0.0) for it in operators) + rest_s
        found["device_busy_s"] = BUSY[name] * elapsed_s if name in BUSY else busy_s
        found["notes"] = ["Copies between devices are not listed."]
    return found
