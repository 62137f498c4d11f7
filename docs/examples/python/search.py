"""A search in the foreground beside an indexer in the background, in Python by ctypes.

hashlib and zlib release the interpreter's lock for large buffers, so the workers are really parallel there.
"""
import ctypes
import hashlib
import itertools
import os
import sys

library = ctypes.CDLL(os.environ.get("OPPORTUNE_CORE", "libopportune-core.so.0"))
Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
library.oppc_submit.argtypes = [ctypes.c_void_p, Function, ctypes.c_void_p]
library.oppc_app_create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
library.oppc_scheduler_wait.argtypes = library.oppc_app_wait.argtypes = [ctypes.c_void_p, ctypes.c_int64]
for call in (library.oppc_app_release, library.oppc_scheduler_destroy):
    call.argtypes = [ctypes.c_void_p]
library.oppc_app_release.restype = None
BACKGROUND, FOREGROUND = 0, 1


def check(result):
    if result < 0:
        raise OSError(-result, os.strerror(-result))


jobs, numbers = {}, itertools.count(1)  # a job's context is its number here


@Function
def run(number):
    jobs.pop(number)()


def submit(app, body):
    number = next(numbers)
    jobs[number] = body
    check(library.oppc_submit(app, run, number))


scheduler, ui, indexer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(library.oppc_scheduler_create(None, ctypes.byref(scheduler)))
check(library.oppc_app_create(scheduler, b"ui", FOREGROUND, ctypes.byref(ui)))
check(library.oppc_app_create(scheduler, b"indexer", BACKGROUND, ctypes.byref(indexer)))
indexed, answers = [], []
for document in range(100):
    submit(indexer, lambda: indexed.append(hashlib.sha256(bytes(200_000)).digest()))
for query in range(50):
    submit(ui, lambda query=query: answers.append(query))
check(library.oppc_app_wait(ui, -1))
print(f"{len(answers)} answers, {len(indexed)} documents indexed meanwhile")
check(library.oppc_scheduler_wait(scheduler, -1))
library.oppc_app_release(ui)
library.oppc_app_release(indexer)
check(library.oppc_scheduler_destroy(scheduler))
print(f"{len(indexed)} documents indexed in the end")
sys.exit(sorted(answers) != list(range(50)) or len(indexed) != 100 or len(jobs) != 0)
