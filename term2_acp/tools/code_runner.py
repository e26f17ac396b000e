"""What runs in the sandbox: some Python that runs the program of ``run_code`` and gives it ``tools``.

``command`` is the command line. The text below is handed over on it, so that no file has to be readable in
the sandbox. It stands on the standard library alone, and runs on the Python that runs us, isolated (``-I``):
neither the environment nor the working directory decides what is imported. The program itself comes over the
channel, which is one descriptor (``program`` has its frames).

Rules for the text:

- The program runs as ``__main__``, with ``tools`` and ``ToolError`` as names. It sees nothing of this text:
  its frames are left out of tracebacks.
- The program ends when its main thread does, with the exit code that Python would have given it: exit
  handlers run, what was printed is flushed, and other threads are not waited for.
- One call at a time, whatever the threads. A call that was broken off half-way (by an exception of a signal
  handler) leaves nobody knowing whose turn it is, so no other call is made after it. A forked child makes
  none: two processes cannot take turns.
- Lines are flushed as they end, since a person reads along.
"""

import sys

# The source's own name in tracebacks, by which its frames are known and left out.
SOURCE_NAME = "<term2 run_code>"

# The name of the program in tracebacks.
PROGRAM_NAME = "<run_code>"

_BOOT = f"import sys; exec(compile(sys.argv[1], {SOURCE_NAME!r}, 'exec'))"

_TEXT = '''
import atexit, builtins, json, linecache, os, sys, threading, traceback, types

class ToolError(Exception):
    """A call of a tool failed or was refused. The message says why."""

ToolError.__module__ = "__main__"

def plain(value):
    if isinstance(value, os.PathLike) and isinstance(path := os.fspath(value), str):
        return path
    raise TypeError(f"{type(value).__name__} is not for an argument of a tool")

class Channel:
    def __init__(self, fd):
        os.set_inheritable(fd, False)
        self.fd, self.pid, self.lock = fd, os.getpid(), threading.RLock()
        self.waiting, self.over = False, None

    def line(self):
        parts = []
        while not parts or not parts[-1].endswith(b"\\n"):
            data = os.read(self.fd, 65536)
            if not data:
                raise EOFError
            parts.append(data)
        return json.loads(b"".join(parts))

    def call(self, name, arguments):
        if os.getpid() != self.pid:
            raise ToolError("Tools can only be called in the program's own process, not in a child of it.")
        value = {"name": name, "arguments": arguments}
        frame = json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain).encode() + b"\\n"
        if len(frame) > MAX_FRAME_BYTES:
            raise ToolError(f"The arguments of this call are longer than {MAX_FRAME_BYTES:,} bytes.")
        with self.lock:
            if self.waiting and not self.over:
                self.over = "An earlier call was broken off, so no more calls can be made."
            if self.over:
                raise ToolError(self.over)
            self.waiting = True
            try:
                left = memoryview(frame)
                while left:
                    left = left[os.write(self.fd, left):]
                answer = self.line()
            except (OSError, EOFError) as error:
                if isinstance(error, OSError) and error.errno is None:
                    raise  # TimeoutError, say, is what a signal handler of the program raises
                self.over = "The channel to the tools is closed, so no more calls can be made."
                raise ToolError(self.over) from None
            self.waiting = False
            if answer.get("last"):
                self.over = answer["error"]
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["text"]

class Tools:
    """The tools: tools.read_file(path="a.txt") returns the text of the result, or raises ToolError."""

    def call(self, name, /, **arguments):
        """Call a tool by its name."""
        return CHANNEL.call(name, arguments)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        def tool(*values, **arguments):
            names = PARAMETERS.get(name, ())
            if len(values) > len(names):
                raise TypeError(f"{name}() takes {len(names)} positional arguments, not {len(values)}")
            for key, value in zip(names, values):
                if key in arguments:
                    raise TypeError(f"{name}() got two values for the argument {key!r}")
                arguments[key] = value
            return CHANNEL.call(name, arguments)
        tool.__name__ = tool.__qualname__ = name
        tool.__doc__ = f"{name}({', '.join(PARAMETERS.get(name, ('...',)))})"
        return tool

    def __dir__(self):
        return sorted({*super().__dir__(), *PARAMETERS})

def without_ours(shown, seen):
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    theirs = [frame for frame in shown.stack or () if frame.filename != OURS]
    shown.stack = traceback.StackSummary.from_list(theirs) if theirs else None
    for inner in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
        without_ours(inner, seen)

def show(kind, error, trace, heading=""):
    shown = traceback.TracebackException(kind, error, trace, compact=True)
    without_ours(shown, set())
    print(heading + "".join(shown.format()), end="", file=sys.stderr, flush=True)

def show_of_thread(args):
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread else "?"
        show(args.exc_type, args.exc_value, args.exc_traceback, f"Exception in thread {name}:\\n")

def code_of(value):
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    print(value, file=sys.stderr)
    return 1

def run(code):
    main = types.ModuleType("__main__")
    main.__dict__.update(tools=Tools(), ToolError=ToolError, __builtins__=builtins)
    sys.modules["__main__"] = main
    sys.argv[:] = ["run_code"]
    sys.excepthook, threading.excepthook = show, show_of_thread
    sys.stdout.reconfigure(line_buffering=True)
    lines = code.replace("\\r\\n", "\\n").replace("\\r", "\\n").split("\\n")  # as Python counts them
    linecache.cache[PROGRAM] = (len(code), None, [line + "\\n" for line in lines], PROGRAM)
    try:
        exec(compile(code, PROGRAM, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as stop:
        return code_of(stop.code)
    except BaseException as error:
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except Exception as other:  # the program has a hook of its own
            show(type(other), other, other.__traceback__)
        return 1
    return 0

status = 1
try:
    CHANNEL = Channel(int(sys.argv[2]))
    first = CHANNEL.line()
    PARAMETERS, MAX_FRAME_BYTES = first["parameters"], first["max_frame_bytes"]
    status = run(first["code"])
finally:
    try:
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(status)
'''

SOURCE = f"OURS, PROGRAM = {SOURCE_NAME!r}, {PROGRAM_NAME!r}{_TEXT}"


# The Python of a virtual environment, or the one that it was made with: a folder for temporary files, which a
# program has one of its own of, may hold the first.
_PYTHON = 'for python in "$1" "$2"; do [ -x "$python" ] && break; done; shift 2; exec "$python" "$@"'


def command(descriptor: int) -> tuple[str, ...]:
    """The command that runs a program, which it is told over ``descriptor``."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    runner = ("-I", "-X", "utf8", "-c", _BOOT, SOURCE, str(descriptor))
    return ("/bin/sh", "-c", _PYTHON, "sh", sys.executable, base, *runner)
