"""Settings: from the file, the environment and the command line to one ``Config``.

Rules of the room:

- Precedence: flag, environment, file, default. Each setting is decided by itself.
- A file that cannot be understood whole refuses the start, in one line ``file:key: what is wrong``: a
  setting that protects must not be lost to a typo. No value of a key that could be a secret is repeated.
- An absent file is fine unless ``TERM2_CONFIG`` names it.
- tomllib and cattrs are imported only when there is a file.
"""

from term2_acp.config.load import known_keys, load
from term2_acp.config.places import SettingsError, config_path, home_directory, state_directory
from term2_acp.config.presets_known import PRESET_NAMES
from term2_acp.config.settings import (
    DEAREST_USD,
    EFFORTS,
    MOST_TOKENS,
    PROFILES,
    PROVIDER_TYPES,
    AcpSettings,
    Config,
    Limits,
    ModelSettings,
    ProviderSettings,
    RetentionSettings,
)

__all__ = [
    "DEAREST_USD",
    "EFFORTS",
    "MOST_TOKENS",
    "PRESET_NAMES",
    "PROFILES",
    "PROVIDER_TYPES",
    "AcpSettings",
    "Config",
    "Limits",
    "ModelSettings",
    "ProviderSettings",
    "RetentionSettings",
    "SettingsError",
    "config_path",
    "home_directory",
    "known_keys",
    "load",
    "state_directory",
]
