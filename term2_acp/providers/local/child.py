"""The child process in which the embedded model lives.

``python -m term2_acp.providers.local.child MODEL CONTEXT_TOKENS``, with the key in ``TERM2_MODEL_KEY``.
It loads the model, serves Chat Completions on a free port of 127.0.0.1 behind that key, writes one line to
stdout (the base URL) and exits when its stdin ends, so that it cannot outlive whoever holds the other end.

It is a process of its own because llama.cpp is native code: a crash in it, or the 250 MB that it takes,
must not be the daemon's.
"""

import os
import sys

KEY_VARIABLE = "TERM2_MODEL_KEY"
# One thread generates: two of them on two busy cores spin against each other, at a tenth of the speed.
# Reading the prompt is one large piece of work and gains from a second one, where there is a core to spare.
_GENERATING_THREADS = 1
_READING_THREADS = 2
# MiB of prompts that were read before and are kept, so that the next one like it needs not be read again.
# The examples of the choice take 6; by default it would be 8 GiB.
_KEPT_PROMPTS_MIB = 64


def main() -> None:
    """Load, say where, and serve until stdin ends."""
    model, context_tokens = sys.argv[1], int(sys.argv[2])
    key = os.environ.pop(KEY_VARIABLE)
    import xllamacpp  # an optional part, and heavy

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = _GENERATING_THREADS
    params.cpuparams_batch.n_threads = max(1, min(_READING_THREADS, _cores() - 1))
    params.cache_ram_mib = _KEPT_PROMPTS_MIB
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]  # without one, every process and every web page of this machine may ask
    params.ui = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # The server's own shutdown waits for the answer that nobody reads any more.
    os._exit(0)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


if __name__ == "__main__":
    main()
