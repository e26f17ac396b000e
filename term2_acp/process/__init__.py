"""Child processes: started on the main thread, waited for by descriptor, gone when their context is left.

Rules of the room:

- ``subprocess.Popen`` is called in the Trio task itself, never through a thread: a parent-death signal
  belongs to the thread that spawned, and Trio's worker threads go after ten idle seconds.
- A child leads a session and a process group of its own, gets the environment it is given and nothing
  else, and no terminal.
- The process's own exit ends it, not the end of its output: who else holds the pipe does not matter.
- Leaving the context kills the whole group, also when the leader has exited, and reaps. That is shielded
  from cancellation and bounded.
"""

from term2_acp.process.orphan import dies_with_parent
from term2_acp.process.process import Process, open_process
from term2_acp.process.programs import SYSTEM_FOLDERS

__all__ = ["SYSTEM_FOLDERS", "Process", "dies_with_parent", "open_process"]
