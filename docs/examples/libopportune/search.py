"""A search in the foreground beside an indexer in the background, in Python by ctypes; no Swift."""
import ctypes
import hashlib
import itertools
import os
import sys

library = ctypes.CDLL(os.environ.get("OPPORTUNE_LIBRARY", "libopportune.so.0"))
library.opportune_last_error.restype = ctypes.c_char_p
Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
BACKGROUND, FOREGROUND, NORMAL, FOREVER = 0, 1, 2, ctypes.c_int64(-1)
jobs, numbers = {}, itertools.count(1)  # a job's context is its number here


def call(name, *arguments):
    result = getattr(library, "opportune_" + name)(*arguments)
    if result < 0:
        raise OSError(-result, library.opportune_last_error().decode())
    return result


def create(kind, *arguments):
    handle = ctypes.c_void_p()
    call(kind + "_create", *arguments, ctypes.byref(handle))
    return handle


run = Function(lambda number: jobs.pop(number)())


def submit(app, body):
    number = next(numbers)
    jobs[number] = body
    call("submit", app, run, ctypes.c_void_p(number))


scheduler = create("scheduler", None)
ui, indexer = create("app", scheduler, b"ui", FOREGROUND), create("app", scheduler, b"indexer", BACKGROUND)
indexed, answers = [], []
for document in range(100):  # hashlib gives up the interpreter's lock, so these are parallel
    submit(indexer, lambda: indexed.append(hashlib.sha256(bytes(200_000)).digest()))
for query in range(50):
    submit(ui, lambda query=query: answers.append(query))
call("app_wait", ui, FOREVER)
print(f"{len(answers)} answers, {len(indexed)} documents indexed meanwhile")
call("scheduler_destroy", scheduler, FOREVER)
print(f"{len(indexed)} documents indexed in the end")
sys.exit(sorted(answers) != list(range(50)) or len(indexed) != 100 or len(jobs) != 0)
