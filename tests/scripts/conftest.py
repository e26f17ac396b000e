"""Scripts are run by path, which puts their folder first on the module path; so do their tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "scripts"))
