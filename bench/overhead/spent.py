"""Runs one command to its end and measures its time and memory; and the statistics that the tables print."""

import errno
import fcntl
import math
import os
import pty
import statistics
import struct
import subprocess
import termios
import threading
import time
import typing

# Rows and columns of the pseudo-terminals.
WINDOW = (40, 120)


class Spent(typing.NamedTuple):
    """The time and memory of a command, until it and the processes that it waited for had ended."""

    wall_s: float
    processor_s: float
    # The largest resident set of one of its processes. This program's own, some 20 MB, is the least it can show.
    peak_mb: float
    code: int


class Failed(Exception):
    """A command failed that must succeed."""


def spend(words, cwd, env, terminal, output, patience_s):
    """Runs `words` with its output on a pseudo-terminal, or in the file `output`. It is killed after `patience_s`."""
    if terminal:
        with Terminal() as slave:
            return waited(words, patience_s, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave)
    with open(output, "w") as file:
        return waited(words, patience_s, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file)


def spend_well(words, cwd, env=None, terminal=False, patience_s=3600):
    """As `spend`, for a command that must succeed. Its output goes to `output.log` in `cwd`."""
    log = os.path.join(cwd, "output.log")
    spent = spend(words, cwd, env, terminal, log, patience_s)
    if spent.wall_s >= patience_s:
        raise Failed(f"given up after {patience_s:g} s")
    if spent.code != 0:
        said = "" if terminal else complaint(log)
        raise Failed(f"exit code {spent.code}{said and ': ' + said}")
    return spent


def waited(words, patience_s, **streams):
    """Starts a command and waits for its end."""
    began = time.perf_counter()
    process = subprocess.Popen(words, **streams)
    alarm = threading.Timer(patience_s, process.kill)
    alarm.start()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    alarm.cancel()
    # Popen must not wait for it again.
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    peak_kib = used.ru_maxrss / 1024 if os.uname().sysname == "Darwin" else used.ru_maxrss
    return Spent(wall_s, used.ru_utime + used.ru_stime, peak_kib / 1024, process.returncode)


def complaint(path):
    """The line of a command's output that most likely has the reason of its failure: the last one with `error`."""
    with open(path, errors="replace") as file:
        lines = [line.strip()[:200] for line in file if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[0] if lines else "")


class Terminal:
    """A pseudo-terminal whose output is read immediately and dropped, as by a fast terminal. Enters with its slave."""

    def __enter__(self):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", *WINDOW, 0, 0))
        self.reader = threading.Thread(target=self.drain, daemon=True)
        self.reader.start()
        return self.slave

    def drain(self):
        try:
            while os.read(self.master, 65536):
                pass
        except OSError as error:
            # Linux returns EIO when the last slave is closed.
            if error.errno not in (errno.EIO, errno.EBADF):
                raise

    def __exit__(self, *_):
        os.close(self.slave)
        self.reader.join()
        os.close(self.master)


def spread(values, digits=2, unit=""):
    """The median, with the least and the most if there are several.

    >>> spread([1.0, 3.0, 2.0]), spread([1.26], 1, " ×")
    ('2.00 (1.00–3.00)', '1.3 ×')
    """
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return f"{middle}{unit}"
    return f"{middle}{unit} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def slope(small, large, small_n, large_n):
    """The exponent k of time ∝ n^k between two sizes: 1 is linear, 2 is quadratic.

    >>> round(slope(1.0, 10.0, 100, 1000), 6), round(slope(1.0, 100.0, 100, 1000), 6)
    (1.0, 2.0)
    """
    return math.log(large / small) / math.log(large_n / small_n)
