"""``python -m term2_acp`` is the same program as the console script ``term2``.

``-m`` puts the working directory first on the module path, and an editor starts the daemon in somebody's
project: a ``trio.py`` or ``secrets.py`` that happens to lie there must not become part of the daemon. The
package itself is found by now, so that entry is dropped. (What Python itself imports before this line is
out of reach; ``python -P -m term2_acp`` closes that too.)
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from term2_acp.cli import main  # after the path is safe

    main()
