"""A search in the foreground beside an indexer in the background, in Python by ctypes.

hashlib and zlib release the interpreter's lock for large buffers, so the workers are really parallel there.
"""
import ctypes
import hashlib
import os

library = ctypes.CDLL(os.environ.get("OPPORTUNE_CORE", "libopportune-core.so.0"))
Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
BACKGROUND, FOREGROUND, FOREVER = 0, 1, ctypes.c_int64(-1)
jobs = {}  # by the number that is a job's context here


def call(name, *arguments):
    result = library["oppc_" + name](*arguments)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


@Function
def run(number):
    jobs.pop(number)()


def submit(app, body):
    jobs[id(body)] = body
    call("submit", app, run, ctypes.c_void_p(id(body)))


scheduler, ui, indexer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("scheduler_create", None, ctypes.byref(scheduler))
call("app_create", scheduler, b"ui", FOREGROUND, ctypes.byref(ui))
call("app_create", scheduler, b"indexer", BACKGROUND, ctypes.byref(indexer))
indexed, answers = [], []
for document in range(100):
    submit(indexer, lambda: indexed.append(hashlib.sha256(bytes(200_000)).digest()))
for query in range(50):
    submit(ui, lambda query=query: answers.append(query))
call("app_wait", ui, FOREVER)
print(f"{len(answers)} answers, {len(indexed)} documents indexed meanwhile")
call("scheduler_wait", scheduler, FOREVER)
library.oppc_app_release(ui), library.oppc_app_release(indexer)
call("scheduler_destroy", scheduler)
assert sorted(answers) == list(range(50)) and len(indexed) == 100 and not jobs
print("100 documents indexed in the end")
